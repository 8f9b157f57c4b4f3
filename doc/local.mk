# doc
dist_doc_DATA = README.md LICENSE doc/GUIDE.md
EXTRA_DIST += doc/ARCHITECTURE.md doc/HACKING.md doc/CUDA-KERNELS.md \
	doc/PERFORMANCE.md \
	doc/formats/asha.md \
	doc/formats/checkpoint.md doc/formats/metrics.md \
	doc/formats/phase.md doc/formats/score.md \
	doc/formats/sweep.md doc/formats/tokens.md \
	kernels/cuda/table.sh

# Manual pages and completion come from what the programs say to --help, which
# comes from the option tables, so that they cannot drift.
HELPED = burnish$(EXEEXT) burnish-train$(EXEEXT) burnish-generate$(EXEEXT)
EXTRA_DIST += doc/help.sh doc/man.awk doc/completion.awk \
	doc/completion.bash.in
CLEANFILES += doc/help.txt doc/burnish.1 doc/burnish-train.1 \
	doc/burnish-generate.1 $(nodist_completions_DATA)
man_MANS += doc/burnish.1 doc/burnish-train.1 doc/burnish-generate.1
doc/help.txt: $(HELPED) doc/help.sh
	$(AM_V_GEN)$(MKDIR_P) doc && \
		$(SHELL) $(srcdir)/doc/help.sh $(HELPED:%=./%) >$@.tmp && \
		mv $@.tmp $@
MAN = $(MKDIR_P) doc && $(AWK) -v VERSION=$(PACKAGE_VERSION) \
	-f $(srcdir)/doc/man.awk
doc/burnish.1: doc/help.txt doc/man.awk
	$(AM_V_GEN)$(MAN) -v NAME=burnish \
		-v BRIEF='prepare, sweep and look after training runs' \
		doc/help.txt >$@
doc/burnish-train.1: doc/help.txt doc/man.awk
	$(AM_V_GEN)$(MAN) -v NAME=burnish-train \
		-v BRIEF='one rank of a training run' doc/help.txt >$@
doc/burnish-generate.1: doc/help.txt doc/man.awk
	$(AM_V_GEN)$(MAN) -v NAME=burnish-generate \
		-v BRIEF='answers of a model to prompts' doc/help.txt >$@

completionsdir = $(datadir)/bash-completion/completions
nodist_completions_DATA = doc/completions/burnish \
	doc/completions/burnish-train doc/completions/burnish-generate
doc/completions/burnish: doc/help.txt doc/completion.awk \
		doc/completion.bash.in src/conf/conf-man$(EXEEXT)
	$(AM_V_GEN)$(MKDIR_P) doc/completions && \
		./src/conf/conf-man$(EXEEXT) --keys >$@.keys && \
		$(AWK) -v KEYS=$@.keys \
			-v FRAME=$(srcdir)/doc/completion.bash.in \
			-f $(srcdir)/doc/completion.awk doc/help.txt >$@.tmp && \
		rm $@.keys && mv $@.tmp $@
doc/completions/burnish-train doc/completions/burnish-generate: \
		doc/completions/burnish
	$(AM_V_GEN)cp doc/completions/burnish $@

# All benchmarks, each a target of its own; doc/PERFORMANCE.md is what the
# last run gave.
EXTRA_DIST += doc/performance.sh
.PHONY: bench
bench: all
	@$(SHELL) $(srcdir)/doc/performance.sh '$(MAKE)' \
		'$(srcdir)/doc/PERFORMANCE.md' $(BENCHES)
