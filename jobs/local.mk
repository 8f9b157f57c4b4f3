# jobs: the two commands, and the run files and data makers of the quickstart
EXTRA_DIST += jobs/lib.sh jobs/check.sh jobs/quickstart.sh \
	jobs/quickstart/config.json jobs/quickstart/names.awk \
	jobs/quickstart/orpo.yaml jobs/quickstart/sft.yaml \
	jobs/quickstart/sweep.yaml \
	jobs/quickstart/tokenizer/tokenizer.json \
	jobs/quickstart/tokenizer/tokenizer_config.json \
	jobs/quickstart/wordnet.awk
EXTRA_DIST += jobs/gpu-check.sh jobs/gpu/bars.awk jobs/gpu/carry.sh \
	jobs/gpu/cmocka.h \
	jobs/gpu/golden.sh jobs/gpu/hash.c jobs/gpu/jansson.h \
	jobs/gpu/mps.sh jobs/gpu/near.py jobs/gpu/torch-bars.py \
	jobs/gpu/torch-steps.py
EXTRA_DIST += jobs/smollm2.sh jobs/smollm2/orpo.yaml jobs/smollm2/sft.yaml
EXTRA_DIST += jobs/orpo-sweep-6.yaml jobs/sweep-10k.yaml
