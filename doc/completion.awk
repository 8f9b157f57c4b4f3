# Bash's completion from doc/help.sh's output on standard input and the
# lines of 'conf-man --keys' in the file KEYS.
function quote(s) { gsub(/'/, "'\\''", s); return "'" s "'" }
function finish() {
    if (context != "")
        table = table sprintf("    %s)\n        verbs=%s options=%s ;;\n", \
            quote(context), quote(verbs), quote(options))
}
function kind_of(arg) {
    if (index(arg, "|"))
        return "words " arg
    if (arg == "KEY=VALUE")
        return "set"
    return arg ~ /^(DIR|FOLDER|FILE)/ ? "file" : "other"
}
/^@ / {
    finish()
    context = substr($0, 3)
    verbs = options = ""
    next
}
/^  --[a-z]/ {
    options = options (options == "" ? "" : " ") $1
    arg = $0
    sub(/^  --[a-z-]+/, "", arg)
    if (arg !~ /^ [^ ]/)
        next
    sub(/^ /, "", arg)
    sub(/  .*/, "", arg)
    arg = kind_of(arg)
    gsub(/\|/, " ", arg)
    values = values sprintf("    %s) kind=%s ;;\n", \
        quote(context " " $1), quote(arg))
    next
}
options == "" && /^  [a-z]+  / { verbs = verbs (verbs == "" ? "" : " ") $1 }
END {
    finish()
    while ((getline line < KEYS) > 0) {
        n = split(line, word, " ")
        keys = keys word[1] "= "
        if (n > 1) {
            sub(/^[^ ]+ /, "", line)
            takes = takes sprintf("    %s) kind=%s ;;\n", word[1], \
                quote(line == "path" ? "file" : "words " line))
        }
    }
    while ((getline line < FRAME) > 0) {
        if (line == "@TABLE@")
            printf "%s", table
        else if (line == "@VALUES@")
            printf "%s", values
        else if (line == "@KEYS@")
            printf "    keys=%s\n", quote(keys)
        else if (line == "@TAKES@")
            printf "%s", takes
        else
            print line
    }
}
