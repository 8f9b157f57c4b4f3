# Korean names of countries, currencies and languages, from the output of
# msgunfmt:  {"prompt": "Germany in Korean:", "chosen": " 독일"}
/^msgid "/ {
    id = substr($0, 8, length($0) - 8)
    next
}
/^msgstr "/ && id != "" {
    ko = substr($0, 9, length($0) - 9)
    if (ko != "" && ko != id && id !~ /[\\;]/ && ko !~ /[\\;]/)
        printf "{\"prompt\": \"%s in Korean:\", \"chosen\": \" %s\"}\n", id, ko
    id = ""
}
