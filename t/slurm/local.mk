# t/slurm: the private cluster, and the tests that run on it
EXTRA_DIST += t/tlib.sh t/slurm/lib.sh t/slurm/cluster.sh

SLURM_TESTS = t/t8000-cluster.t
TESTS += $(SLURM_TESTS)
EXTRA_DIST += $(SLURM_TESTS)
