/* Shared by check.c and its parts: what one check has found so far. */
#ifndef BN_SWEEP_CHECK_IMPL_H
#define BN_SWEEP_CHECK_IMPL_H

#include "sweep/check.h"

enum { BN_SOCKET_MAX = 107 }; /* bytes of the path of a socket, unix(7) */

struct bn_check {
    const struct bn_sweep *s;
    struct bn_problems *p;
    struct bn_str *notes;
    double *params;       /* [s->n]: of each point's model; 0: not known */
    double gpu_memory;    /* bytes of one GPU; 0: not known */
};

/* Models, tokenizers, data and the memory that runs take, each distinct one
 * once. Fills params. */
void bn_check_inputs(struct bn_check *c);
/* The cluster: PMIx, limits, and what Slurm says of the script. */
void bn_check_slurm(struct bn_check *c);
/* Bytes of one GPU of those asked for: of gpu_memory, else by the names of
 * their types. 0 and a note if they are not known. */
double bn_check_gpu_memory(struct bn_check *c);

/* Bytes of a size as Slurm writes it: a whole number of MiB, or with K, M, G
 * or T behind it. -1: it is none. */
double bn_slurm_bytes(const char *text);
/* Bytes of a GPU by the name of its type in Slurm's GRES, such as "a100",
 * "h100_80gb_hbm3" or "1g.10gb"; of the largest model of that name. 0: not
 * known. */
double bn_gpu_bytes(const char *type);

#endif
