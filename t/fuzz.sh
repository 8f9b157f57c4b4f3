#!/bin/sh
# Run fuzz targets for a time each, two at once:
#
#     t/fuzz.sh SECONDS PROGRAM...
#
# Prints TAP. BURNISH_FUZZ_SEED chooses the random numbers (1). A target starts
# from seeds of the tests, and keeps what it finds of use in PROGRAM.corpus. Its
# log is PROGRAM.log.
seconds=$1
shift
data=$BN_SRCDIR/t/data

# seeds NAME DIR: files to start from
seeds()
{
    case $1 in
    tokenizer) cp "$data"/fuzz-tokenizer/* "$2" ;;
    chat) cp "$data"/chat/*.jinja "$data"/fuzz-chat/* "$2" ;;
    formats)
        cp "$data"/fuzz-formats/* "$2"
        # The first byte chooses the reader.
        i=0
        for f in quants.safetensors torch.pt quants.gguf; do
            # shellcheck disable=SC2059 # an octal escape is wanted
            { printf "\\00$i" && cat "$data/$f"; } >"$2/seed$i"
            i=$((i + 1))
        done
        ;;
    rows) cp "$data"/fuzz-rows/* "$2" ;;
    *) echo "# no seeds for $1" ;;
    esac
}

# fuzz PROGRAM: leaves its status in PROGRAM.status
fuzz()
{
    mkdir -p "$1.corpus"
    seeds "${1##*/}" "$1.corpus"
    dict=$BN_SRCDIR/${1%/*}/json.dict
    test "${1##*/}" = rows && test -f "$dict" && set -- "$1" "-dict=$dict"
    "$@" -seed="${BURNISH_FUZZ_SEED-1}" -max_total_time="$seconds" \
        -timeout=10 -max_len=32768 -rss_limit_mb=2048 "$1.corpus" >"$1.log" 2>&1
    echo $? >"$1.status"
}

echo "1..$#"
n=0
bad=0
while test $# -gt 0; do
    fuzz "$1" &
    test $# -lt 2 || fuzz "$2"
    wait
    for p in "$1" ${2+"$2"}; do
        n=$((n + 1))
        if test "$(cat "$p.status")" = 0; then
            echo "ok $n - $p: $(sed -n 's/^Done //p' "$p.log")"
        else
            bad=1
            echo "not ok $n - $p"
            tail -n 30 "$p.log" | sed 's/^/# /'
        fi
    done
    shift
    test $# -eq 0 || shift
done
exit $bad
