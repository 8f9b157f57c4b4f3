# jobs: the two commands, run files
EXTRA_DIST += jobs/lib.sh jobs/check.sh
