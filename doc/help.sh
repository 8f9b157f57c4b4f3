#!/bin/sh
# help.sh PROGRAM...: what the programs and their commands say to --help,
# each after a line "@ NAME". Manual pages and completion are made of it.
set -e
for program; do
    name=${program##*/}
    name=${name%.exe}
    echo "@ $name"
    "$program" --help
    test "$name" = burnish || continue
    for command in $("$program" --help |
        sed -n '/^  --/q; s/^  \([a-z]*\)  .*/\1/p'); do
        echo "@ $name $command"
        "$program" "$command" --help
    done
done
