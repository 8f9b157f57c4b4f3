# t/slurm: the private cluster, and the tests that run on it
EXTRA_DIST += t/slurm/lib.sh t/slurm/cluster.sh t/slurm/rank.sh \
	t/slurm/bench.sh t/sweep-doc.sh

SLURM_TESTS = \
	t/t2000-sweep.t \
	t/t2010-sweep-check.t \
	t/t2020-sweep-doc.t \
	t/t2030-asha.t \
	t/t2040-report-page.t \
	t/t2100-mps.t \
	t/t8000-cluster.t \
	t/t8100-clean.t \
	t/t8200-sweep.t \
	t/t8210-libslurm.t \
	t/t8220-sweep-check.t \
	t/t8300-preempt.t \
	t/t8310-asha.t \
	t/t8320-preempt-ranks.t \
	t/t8400-guide.t \
	t/t8450-doctor-slurm.t \
	t/t8500-templates.t
TESTS += $(SLURM_TESTS)
EXTRA_DIST += $(SLURM_TESTS)

# Ten thousand points at the desk, and submission against a loop of sbatch.
.PHONY: bench-sweep
BENCHES += bench-sweep
bench-sweep: burnish$(EXEEXT)
	$(srcdir)/t/slurm/bench.sh burnish$(EXEEXT)
