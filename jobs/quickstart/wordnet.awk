# Rows for the quickstart from WordNet's data.noun and data.verb:
#
#   awk -v part=train|held -v n=N -f wordnet.awk data.noun data.verb >pairs.jsonl
#
# A row has a prompt ("zebra, a kind of equine:"), the right definition
# (chosen) and another word's (rejected). Words are held out by a hash of
# their letters, so no word is in both parts. Read twice: the first
# pass learns the names that hypernym pointers refer to.
BEGIN {
    n_rows = 0
    letters = "abcdefghijklmnopqrstuvwxyz"
}

# One word in ten, whichever of its meanings it is.
function is_held(word,    i, h)
{
    for (i = 1; i <= length(word); i++)
        h = (h * 31 + index(letters, tolower(substr(word, i, 1)))) % 9973
    return h % 10 == 7
}

/^  / { next } # the licence

{
    name = $5
    gsub(/_/, " ", name)
    sub(/\([a-z]+\)$/, "", name)
    id = FILENAME $1
}

pass == 1 {
    names[id] = name
    next
}

{
    if (is_held(name) != (part == "held"))
        next
    up = ""
    for (i = 6; i < NF && $i != "|"; i++)
        if ($i == "@") {
            up = names[FILENAME $(i + 1)]
            break
        }
    gloss = $0
    sub(/^[^|]*\| /, "", gloss)
    sub(/[;:] .*$/, "", gloss)
    sub(/ +$/, "", gloss)
    if (up == "" || length(gloss) < 12 || length(gloss) > 90)
        next
    if (gloss ~ /[^ -~]|["\\]/ || name ~ /["\\]/)
        next
    row_prompt[n_rows] = name ", a kind of " up ":"
    row_gloss[n_rows++] = " " gloss
}

END {
    # Rows spread evenly over the file; the other word lies far away in it.
    step = n_rows / n
    if (step < 1)
        step = 1
    for (k = 0; k < n && int(k * step) < n_rows; k++) {
        i = int(k * step)
        j = (i + int(n_rows / 3) + 131 * (k % 97)) % n_rows
        if (row_gloss[i] == row_gloss[j])
            continue
        printf "{\"prompt\": \"%s\", \"chosen\": \"%s\", \"rejected\": \"%s\"}\n",
            row_prompt[i], row_gloss[i], row_gloss[j]
    }
}
