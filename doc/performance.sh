#!/bin/sh
# performance.sh MAKE OUT TARGET...: make the benchmarks one by one and write
# their figures to OUT as a table; what OUT says of other machines stays, from
# the first "## On " to the end. Exits 1 if one of them failed.
set -eu
make=$1 out=$2
shift 2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
rc=0
for t in "$@"; do
    echo "# $t"
    { $make --no-print-directory "$t" 2>&1 || echo "failed" >"$tmp/$t.failed"
    } | tee "$tmp/$t"
    test ! -e "$tmp/$t.failed" || rc=1
done
{
    cat <<EOF
# Performance

Written by \`make bench\` on $(date -u +%Y-%m-%d), except what is said of other
machines, below. A ratio is taken in one run, the two sides in turn, of the
least times; above 1 is better than the peer. A figure below its target is
marked.

$(uname -srm), $(LC_ALL=C lscpu | sed -n 's/^Model name: *//p' | head -n 1),
$(nproc) CPUs, $(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo |
    awk '{ printf "%.0f GiB", $1 / 1048576 }'), load average at the end$(
    uptime | sed 's/.*load average://').
EOF
    for t in "$@"; do
        echo
        echo "## $t"
        echo
        awk '/^# peer of / { sub("# ", "- "); print; n++ }
            END { if (n) print "" }' "$tmp/$t"
        awk '$1 == "bench" {
            if (!n++)
                print "| figure | ratio | target | ours | peer | unit | |\n" \
                    "|---|---|---|---|---|---|---|"
            printf "| %s | %s | %s | %s | %s | %s | %s |\n", $2, $3, $5, $7,
                $9, $10, $3 + 0 < $5 + 0 ? "short" : ""
        }' "$tmp/$t"
        test ! -e "$tmp/$t.failed" ||
            printf '\nThis benchmark failed or fell short.\n'
    done
    echo
    sed -n '/^## On /,$p' "$out"
} >"$tmp/out"
mv "$tmp/out" "$out"
echo "# written to $out"
exit $rc
