/* Text without secrets, as far as their shape or their name betrays them. */
#ifndef BN_CMD_MASK_H
#define BN_CMD_MASK_H

#include <stdbool.h>

#include "base/str.h"

/* Append s[n] to 'out' with "[masked]" in place of: private keys; user and
 * password of an URL; values of keys like password, secret, hf_token,
 * api_key, authorization (YAML, JSON, shell, query strings); bearer tokens;
 * tokens of known shapes (hf_, ghp_, sk-, AKIA, JWT and others). Returns how
 * many were masked. */
int bn_mask(struct bn_str *out, const char *s, size_t n);

/* May an environment variable of this name be shown? Those of launchers and
 * libraries that a run depends on, and no name that sounds like a secret. */
bool bn_mask_env_ok(const char *name);

#endif
