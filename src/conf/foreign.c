/* Words of other tools, and what to write here instead. */
#include "config.h"
#include "conf/key.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *advice;
} words[] = {
    {"bf16", "write 'dtype: bfloat16'"},
    {"fp16", "float16 training is not offered; write 'dtype: bfloat16'"},
    {"torch_dtype", "write 'dtype'"},
    {"tf32", "leave it out; float32 means float32"},
    {"gradient_checkpointing", "write 'activation_recompute: full'"},
    {"packing", "leave it out; nothing is ever padded"},
    {"padding_free", "leave it out; nothing is ever padded"},
    {"group_by_length", "leave it out; nothing is ever padded"},
    {"pad_to_multiple_of", "leave it out; nothing is ever padded"},
    {"orpo_alpha", "write 'beta'"},
    {"alpha", "write 'beta' (orpo) or 'lora_alpha'"},
    {"num_proc", "write 'dataset_num_proc'"},
    {"preprocessing_num_workers", "write 'dataset_num_proc'"},
    {"dataloader_num_workers", "leave it out; batches are mapped from disk"},
    {"dataloader_pin_memory", "leave it out"},
    {"max_seq_length", "write 'max_length'"},
    {"cutoff_len", "write 'max_length'"},
    {"max_completion_length",
     "write 'max_length' and 'max_prompt_length'"},
    {"dataset_name", "write 'train_file' with the path of the data"},
    {"data_files", "write 'train_file'"},
    {"validation_file", "write 'eval_file'"},
    {"test_size", "write 'eval_split'"},
    {"val_size", "write 'eval_split'"},
    {"stage", "write 'task'"},
    {"evaluation_strategy", "write 'eval_strategy'"},
    {"do_train", "leave it out"},
    {"do_eval", "write 'eval_strategy'"},
    {"lr", "write 'learning_rate'"},
    {"epochs", "write 'num_train_epochs'"},
    {"num_epochs", "write 'num_train_epochs'"},
    {"batch_size", "write 'per_device_train_batch_size'"},
    {"micro_batch_size", "write 'per_device_train_batch_size'"},
    {"lr_scheduler", "write 'lr_scheduler_type'"},
    {"optim", "leave it out; the optimizer is AdamW"},
    {"optimizer", "leave it out; the optimizer is AdamW"},
    {"gradient_clipping", "write 'max_grad_norm'"},
    {"use_peft", "write 'lora_r'"},
    {"lora_rank", "write 'lora_r'"},
    {"lora_target", "write 'lora_target_modules'"},
    {"lora_bias", "leave it out: biases are not trained beside adapters"},
    {"use_dora", "leave it out: DoRA is not supported"},
    {"adapter_name_or_path", "write 'adapter'"},
    {"lora_task_type", "leave it out: the task is 'task'"},
    {"resume_from_checkpoint", "write 'resume'"},
    {"overwrite_output_dir", "write 'resume: never' and a new output_dir"},
    {"deepspeed", "write 'zero_stage'"},
    {"fsdp", "write 'zero_stage'"},
    {"tensor_model_parallel_size", "write 'tensor_parallel_size'"},
    {"pipeline_model_parallel_size", "write 'pipeline_parallel_size'"},
    {"sequence_parallel_degree", "write 'context_parallel_size'"},
    {"ddp_find_unused_parameters", "leave it out"},
    {"attn_implementation", "leave it out; attention is always fused"},
    {"local_rank", "leave it out; ranks come from PMIx"},
    {"master_port", "leave it out; no port is needed"},
    {"logging_dir", "leave it out; it is output_dir"},
    {"train_sampling_strategy", "write 'shuffle: false' for sequential"},
    {"shuffle_dataset", "write 'shuffle'"},
    {"dataset_text_field", "write 'columns' with text: NAME"},
    {"eos_token", "leave it out; it is the tokenizer's"},
    {"pad_token", "leave it out; nothing is ever padded"},
    {"padding_value", "leave it out; nothing is ever padded"},
    {"eval_packing", "leave it out; nothing is ever padded"},
    {"dataloader_drop_last", "leave it out; no row is ever dropped"},
    {"remove_unused_columns", "leave it out; they are not read"},
    {"disable_dropout", "leave it out; there is none but lora_dropout"},
    {"lr_scheduler_kwargs",
     "write 'min_lr_ratio', 'lr_decay_steps' and 'lr_decay_type'"},
    {"use_liger_kernel", "leave it out; logits are never held whole"},
    {"eval_accumulation_steps", "leave it out; no logits are kept"},
    {"activation_offloading", "write 'activation_recompute'"},
    {"gradient_checkpointing_kwargs", "write 'activation_recompute'"},
    {"save_safetensors", "leave it out; weights are always safetensors"},
    {"use_cpu", "write 'device: cpu'"},
    {"no_cuda", "write 'device: cpu'"},
    {"average_tokens_across_devices", "write 'loss_reduction'"},
    {"chat_template_path", "write 'chat_template'"},
    {"trust_remote_code", "leave it out; no code is ever loaded"},
};

const char *bn_conf_foreign(const char *name)
{
    for (size_t i = 0; i < BN_COUNT(words); i++)
        if (strcmp(words[i].name, name) == 0)
            return words[i].advice;
    return NULL;
}

const char *bn_conf_foreign_value(const char *name, const char *text)
{
    double share = strtod(text, NULL);

    if (strcmp(name, "warmup_steps") == 0 && share > 0 && share < 1)
        return "a share of all steps is 'warmup_ratio'";
    if (strcmp(name, "lr_scheduler_type") == 0
        && strcmp(text, "cosine_with_min_lr") == 0)
        return "write 'cosine' and 'min_lr_ratio'";
    return NULL;
}
