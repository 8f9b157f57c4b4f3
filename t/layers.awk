# Print every #include that does not point to its own layer or one above.
# The order is that of DESIGN and doc/ARCHITECTURE.md. FILENAME is relative
# to the root of the tree. Unit tests are programs of their own: they may use
# any layer.
BEGIN {
    n = split("base kernels tensor ops format text data loss boot comm mesh" \
              " model optim ckpt convert conf train sweep cmd", name, " ")
    for (i = 1; i <= n; i++)
        rank[name[i]] = i
}
FNR == 1 {
    split(FILENAME, part, "/")
    me = part[1] == "src" ? part[2] : part[1]
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, quoted, "\"")
    path = quoted[2]
    if (path == "config.h")
        next
    sub(/^src\//, "", path)
    split(path, part, "/")
    if (!(part[1] in rank) || path !~ /\//)
        print FILENAME ":" FNR ": \"" path "\" does not name a layer"
    else if (!(me in rank))
        print FILENAME ":" FNR ": '" me "' is no layer"
    else if (rank[part[1]] > rank[me] && FILENAME !~ /\/test\//)
        print FILENAME ":" FNR ": " me " must not include " part[1]
}
