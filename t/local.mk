# t
VARIANTS = llama-untied llama-untied-bf16 llama3-rope mistral-window \
	qwen2-bias-tied qwen3-qknorm-tied
EXTRA_DIST += $(VARIANTS:%=t/data/arch-variants/%/config.json) \
	$(VARIANTS:%=t/data/arch-variants/%/model.safetensors) \
	$(VARIANTS:%=t/data/arch-variants/%/reference.json) \
	t/data/arch-variants/llama3-rope/config-rope-parameters.json \
	t/data/rope.json

include t/slurm/local.mk
