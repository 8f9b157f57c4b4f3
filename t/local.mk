# t
VARIANTS = llama-untied llama-untied-bf16 llama3-rope mistral-window \
	qwen2-bias-tied qwen3-qknorm-tied
EXTRA_DIST += $(VARIANTS:%=t/data/arch-variants/%/config.json) \
	$(VARIANTS:%=t/data/arch-variants/%/model.safetensors) \
	$(VARIANTS:%=t/data/arch-variants/%/reference.json) \
	t/data/arch-variants/llama3-rope/config-rope-parameters.json \
	t/data/quants.gguf t/data/quants.safetensors t/data/rope.json \
	t/data/torch.pt

include t/slurm/local.mk

# One a line, slow ones first.
SHARNESS_TESTS = \
	t/t5100-layouts.t \
	t/t5110-generate-ranks.t \
	t/t5120-lora-ranks.t \
	t/t5130-drawn-layouts.t \
	t/t5200-plan.t \
	t/t7110-layouts.t \
	t/t7120-kills.t \
	t/t7130-faults.t \
	t/t7140-ckpt-tool.t \
	t/t5001-ranks-slurm.t \
	t/t6100-emulated-gpu.t \
	t/t6101-emulated-gpu-orpo.t \
	t/t6110-emulated-generate.t \
	t/t6120-emulated-ranks.t t/t6130-emulated-generate-ranks.t t/t6140-emulated-graphs.t \
	t/t6200-gpu-check.t \
	t/t7001-resume.t \
	t/t4310-lora.t \
	t/t4202-train-features.t \
	t/t4300-observe.t \
	t/t4201-bad-input.t \
	t/t4001-golden.t \
	t/t0000-tlib.t \
	t/t0001-layers.t \
	t/t1001-run-file.t \
	t/t1002-man.t \
	t/t1003-completion.t \
	t/t1100-crash.t \
	t/t1200-doctor.t \
	t/t3001-tokenizer-golden.t \
	t/t3100-data-inputs.t \
	t/t3101-render.t \
	t/t3110-tokenize.t \
	t/t3300-hostile.t \
	t/t4010-tensorboard.t \
	t/t4101-generate.t \
	t/t4110-generate-eval.t \
	t/t5000-boot.t \
	t/t5010-comm.t \
	t/t5020-nccl.t \
	t/t6000-no-gpu.t \
	t/t6001-cuda-build.t \
	t/issues/t2900-asha-half-line.t \
	t/issues/t4900-dynamic-rope.t \
	t/issues/t4930-own-model.t \
	t/issues/t4940-progress.t \
	t/issues/t4950-carried.t \
	t/issues/t4960-best-at-start.t \
	t/issues/t5140-empty-rank.t \
	t/issues/t5150-odd-vocabulary.t \
	t/issues/t7900-no-whole-checkpoint.t \
	t/issues/t7910-interrupt.t \
	t/issues/t7920-two-runs.t \
	t/issues/t7930-other-user.t
TESTS += $(SHARNESS_TESTS)
EXTRA_DIST += t/tlib.sh t/emu.sh t/mpi.sh t/ranks/compare.py t/ranks/faults.c \
	t/ranks/kill.py t/ranks/layouts.py t/ranks/lib.sh \
	t/generate/chain.py t/generate/evaluate.py t/golden/trajectory.py \
	t/layers.awk t/features.py t/lora.py t/observe.py t/resume.py \
	t/talk.py t/tb-read.py t/terminal.py t/tiny.py \
	$(SHARNESS_TESTS) \
	t/bad/cases.py $(BAD_TABLES)
BAD_TABLES = t/bad/run-file.table t/bad/model.table t/bad/tokenizer.table \
	t/bad/data.table t/bad/checkpoint.table t/bad/score.table \
	t/bad/numeric.table

# Against other implementations, each in a throw-away environment: not part
# of 'check', since they install what they compare with.
PEERS += t/peers/tokenizers.sh t/peers/trl.sh t/peers/peft.sh \
	t/peers/tensorboard.sh
EXTRA_DIST += $(PEERS) t/peers/venv.sh t/peers/compare_ids.py \
	t/peers/curves.py t/peers/letters.py t/peers/lora.py t/peers/masks.py \
	t/peers/models.py t/peers/orpo_steps.py t/peers/runs.py \
	t/peers/scores.py
.PHONY: check-peers
check-peers: all
	@$(AM_TESTS_ENVIRONMENT) rc=0; for t in $(PEERS); do \
		echo "# $$t"; $(SHELL) $(srcdir)/$$t || rc=1; done; exit $$rc

# Each fuzz target for FUZZ_SECONDS, from the files that its tests use.
FUZZ_SECONDS = 60
FUZZ_CORPUS = t/data/fuzz-chat/hostile-blocks \
	t/data/fuzz-chat/hostile-double \
	t/data/fuzz-chat/hostile-macro \
	t/data/fuzz-chat/hostile-nested \
	t/data/fuzz-chat/hostile-numbers \
	t/data/fuzz-chat/hostile-open \
	t/data/fuzz-chat/hostile-range \
	t/data/fuzz-chat/hostile-surrogate \
	t/data/fuzz-chat/hostile-variables \
	t/data/fuzz-formats/hostile-backwards \
	t/data/fuzz-formats/hostile-duplicate \
	t/data/fuzz-formats/hostile-length \
	t/data/fuzz-formats/hostile-nested \
	t/data/fuzz-formats/hostile-nul \
	t/data/fuzz-formats/hostile-numbers \
	t/data/fuzz-formats/hostile-overlap \
	t/data/fuzz-formats/hostile-product \
	t/data/fuzz-formats/hostile-surrogate \
	t/data/fuzz-rows/hostile-cut \
	t/data/fuzz-rows/hostile-duplicate \
	t/data/fuzz-rows/hostile-nested \
	t/data/fuzz-rows/hostile-nul \
	t/data/fuzz-rows/hostile-nul-escape \
	t/data/fuzz-rows/hostile-nul-key \
	t/data/fuzz-rows/hostile-numbers \
	t/data/fuzz-rows/hostile-quotes \
	t/data/fuzz-rows/hostile-surrogate \
	t/data/fuzz-rows/hostile-utf8 \
	t/data/fuzz-rows/plain \
	t/data/fuzz-tokenizer/bytes \
	t/data/fuzz-tokenizer/hostile-added \
	t/data/fuzz-tokenizer/hostile-cycle \
	t/data/fuzz-tokenizer/hostile-duplicate \
	t/data/fuzz-tokenizer/hostile-empty \
	t/data/fuzz-tokenizer/hostile-nested \
	t/data/fuzz-tokenizer/hostile-nul \
	t/data/fuzz-tokenizer/hostile-numbers \
	t/data/fuzz-tokenizer/hostile-surrogate \
	t/data/fuzz-tokenizer/metaspace \
	t/data/fuzz-tokenizer/pieces \
	t/data/fuzz-tokenizer/regex
EXTRA_DIST += t/fuzz.sh $(FUZZ_CORPUS)
CLEANFILES += $(FUZZERS)
.PHONY: fuzz-smoke
fuzz-smoke: $(FUZZERS)
	@$(AM_TESTS_ENVIRONMENT) $(SHELL) $(srcdir)/t/fuzz.sh \
		$(FUZZ_SECONDS) $(FUZZERS)

# What many ranks cost: needs root and Slurm.
BENCHES += bench-scale
EXTRA_DIST += t/ranks/scale.sh
.PHONY: bench-scale
bench-scale: burnish-train$(EXEEXT)
	@PATH="$(abs_top_builddir):$$PATH" $(srcdir)/t/ranks/scale.sh
