/* The RoPE part of config.json; used by config.c and config_write.c only. */
#ifndef BN_MODEL_CONFIG_ROPE_H
#define BN_MODEL_CONFIG_ROPE_H

#include "model/config.h"

/* Fill c->rope. Both spellings are read: rope_theta with rope_scaling, and
 * rope_parameters. c->max_position and c->family must be set. */
int bn_rope_parse(struct bn_model_config *c, const json_t *root,
                  const char *where, struct bn_str *notes,
                  struct bn_err *err);
/* Write c->rope into a config in the spelling it has; rope_scaling if it
 * has neither. */
void bn_rope_json(const struct bn_model_config *c, json_t *root);

#endif
