# Rows for the quickstart from WordNet's data.noun:
#
#   awk -v part=train|held -v n=N -f wordnet.awk data.noun >pairs.jsonl
#
# A row has a prompt with the word and its field ("zebra (animal):"), the right
# definition (chosen) and that of a word of another field (rejected). Words are
# held out by a hash of their letters, so no word is in both parts.
BEGIN {
    n_rows = 0
    letters = "abcdefghijklmnopqrstuvwxyz"
    # The lexicographer files of nouns, 03 to 28: lexnames(5WN).
    split("thing act animal artifact attribute body cognition communication" \
        " event feeling food group location motive object person phenomenon" \
        " plant possession process quantity relation shape state substance" \
        " time", field, " ")
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
    gloss = $0
    sub(/^[^|]*\| /, "", gloss)
    sub(/[;:] .*$/, "", gloss)
    sub(/ +$/, "", gloss)
    if (is_held(name) != (part == "held"))
        next
    if (length(gloss) < 12 || length(gloss) > 90)
        next
    if (gloss ~ /[^ -~]|["\\]/ || name ~ /["\\]/)
        next
    row_field[n_rows] = field[$2 - 2]
    row_prompt[n_rows] = name " (" field[$2 - 2] "):"
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
        while (row_field[i] == row_field[j])
            j = (j + 977) % n_rows
        printf "{\"prompt\": \"%s\", \"chosen\": \"%s\", \"rejected\": \"%s\"}\n",
            row_prompt[i], row_gloss[i], row_gloss[j]
    }
}
