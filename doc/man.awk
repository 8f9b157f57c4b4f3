# A manual page from doc/help.sh's output: the part of the program NAME and,
# for burnish, of its commands.
function roff(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    if (s ~ /^[.']/)
        s = "\\&" s
    return s
}
function leave() {
    if (mode == "usage")
        print ".fi"
    mode = ""
}
BEGIN {
    title = NAME
    gsub(/-/, "\\-", title)
    printf ".TH %s 1 \"2026-11-30\" \"burnish %s\" \"User commands\"\n", \
        toupper(title), VERSION
    printf ".SH NAME\n%s \\- %s\n", title, BRIEF
}
/^@ / {
    leave()
    # not the other programs; of burnish, its commands too
    mine = $2 == NAME
    if (!mine)
        next
    main = NF == 2
    if (main)
        print ".SH SYNOPSIS"
    else
        printf ".SH %s\n", toupper(roff($2 " " $3))
    mode = "usage"
    print ".nf"
    next
}
!mine { next }
mode == "usage" && /^$/ {
    leave()
    if (main)
        print ".SH DESCRIPTION"
    gap = !main
    next
}
mode == "usage" { sub(/^usage: /, ""); sub(/^       /, ""); print roff($0); next }
/^$/ { gap = 1; mode = "text"; next }
# an item: an option, a verb or a key, then its help
/^  (--)?[a-z]/ {
    item = $0
    sub(/^  /, "", item)
    help = ""
    if (match(item, /  +/)) {
        help = substr(item, RSTART + RLENGTH)
        item = substr(item, 1, RSTART - 1)
    }
    printf ".TP\n.B %s\n", roff(item)
    if (help != "")
        print roff(help)
    mode = "item"
    gap = 0
    next
}
mode == "item" && /^        / { sub(/^ +/, ""); print roff($0); next }
{
    if (gap)
        print ".PP"
    gap = 0
    mode = "text"
    print roff($0)
}
END {
    leave()
    print ".SH EXIT STATUS"
    n = split("0 success|64 wrong usage or configuration: do not try again|65 bad data, tokenizer or checkpoint|70 a fault of burnish itself|71 a NaN or an infinity in loss or gradient|75 a signal, the network or a node: try again", e, "|")
    for (i = 1; i <= n; i++) {
        code = e[i]
        sub(/ .*/, "", code)
        sub(/^[0-9]+ /, "", e[i])
        printf ".TP\n.B %s\n%s.\n", code, e[i]
    }
    print ".SH SEE ALSO"
    sep = ""
    m = split("burnish 1|burnish\\-generate 1|burnish\\-train 1|burnish\\-run 5", also, "|")
    for (i = 1; i <= m; i++) {
        split(also[i], p, " ")
        if (p[1] == title)
            continue
        list[++k] = p[1] " (" p[2] ")"
    }
    for (i = 1; i <= k; i++)
        printf ".BR %s%s\n", list[i], i < k ? "," : ""
}
