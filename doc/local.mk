# doc
EXTRA_DIST += doc/formats/metrics.md doc/formats/tokens.md
