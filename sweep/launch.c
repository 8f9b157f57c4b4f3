/* Handing a script to Slurm. */
#include "config.h"

#include "sweep/submit.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "sweep/child.h"

int bn_slurm_submit(const struct bn_submission *sub, uint32_t *job,
                    struct bn_err *err)
{
    struct bn_str wait = { 0 };
    const char *argv[6] = { "sbatch", "--parsable" };
    int n = 2;

    if (sub->after_ok)
        bn_str_addf(&wait, "--dependency=afterok:%u", sub->after_ok);
    if (sub->after_any)
        bn_str_addf(&wait, "%safterany:%u",
                    wait.len ? "," : "--dependency=", sub->after_any);
    if (wait.len) {
        argv[n++] = wait.s;
        argv[n++] = "--kill-on-invalid-dep=yes";
    }
    argv[n++] = sub->script;
    argv[n] = NULL;
    struct bn_child c = { .argv = argv, .timeout = 120 };
    int rc = bn_child_must(&c, err);
    if (rc == 0) {
        *job = (uint32_t)strtoul(c.out.s, NULL, 10);
        if (*job == 0)
            rc = bn_fail(err, BN_ERR_DATA,
                         "sbatch said '%.*s' in place of a job id",
                         (int)strcspn(c.out.s, "\n"), c.out.s);
    }
    bn_child_release(&c);
    bn_str_release(&wait);
    return rc;
}
