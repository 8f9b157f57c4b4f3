# t/slurm: the private cluster, and the tests that run on it
EXTRA_DIST += t/tlib.sh t/slurm/lib.sh t/slurm/cluster.sh

SLURM_TESTS = t/t2100-mps.t t/t8000-cluster.t t/t8100-clean.t
TESTS += $(SLURM_TESTS)
EXTRA_DIST += $(SLURM_TESTS)
