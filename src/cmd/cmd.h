/* The commands of `burnish`. A command gets its own name as argv[0], prints
 * its own errors, and returns the exit status (base/err.h).
 */
#ifndef BN_CMD_CMD_H
#define BN_CMD_CMD_H

#include "base/err.h"

struct bn_cmd {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* one line */
};

/* All commands in the order of the help text; the last has no name. */
extern const struct bn_cmd bn_cmds[];

int bn_cmd_clean(int argc, char **argv);
int bn_cmd_ckpt(int argc, char **argv);
int bn_cmd_convert(int argc, char **argv);
int bn_cmd_doctor(int argc, char **argv);
int bn_cmd_decode(int argc, char **argv);
int bn_cmd_encode(int argc, char **argv);
int bn_cmd_lora(int argc, char **argv);
int bn_cmd_mps(int argc, char **argv);
int bn_cmd_sweep(int argc, char **argv);
int bn_cmd_tokenize(int argc, char **argv);
int bn_cmd_plan(int argc, char **argv);
int bn_cmd_render(int argc, char **argv);

/* Print "burnish NAME: text" once and give the exit status of 'err'. */
int bn_cmd_fail(const char *name, const struct bn_err *err);
/* The same for wrong arguments: says where help is; returns 64. */
int bn_cmd_usage(const char *name, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
