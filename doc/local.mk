# doc
EXTRA_DIST += doc/formats/metrics.md
