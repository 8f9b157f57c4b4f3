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
	t/t5001-ranks-slurm.t \
	t/t4001-golden.t \
	t/t0000-tlib.t \
	t/t0001-layers.t \
	t/t1001-run-file.t \
	t/t1002-man.t \
	t/t3001-tokenizer-golden.t \
	t/t3100-data-inputs.t \
	t/t3101-render.t \
	t/t3110-tokenize.t \
	t/t4010-tensorboard.t \
	t/t5000-boot.t \
	t/t5010-comm.t
TESTS += $(SHARNESS_TESTS)
EXTRA_DIST += t/tlib.sh t/mpi.sh t/golden/trajectory.py t/layers.awk \
	t/tb-read.py $(SHARNESS_TESTS)
