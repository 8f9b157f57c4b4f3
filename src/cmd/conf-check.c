/* Checks a run file and nothing else; for tests of the run file's layer. */
#include "config.h"
#include "cmd/opts.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    struct bn_run_args args = {0};
    struct bn_opt_list operands = {0};
    bool help = false, yaml = false, trajectory = false;
    const struct bn_opt opts[] = {
        BN_RUN_OPTS(&args),
        {"yaml", BN_OPT_FLAG, &yaml, NULL, "print what is not a default"},
        {"trajectory", BN_OPT_FLAG, &trajectory, NULL,
         "print what decides the weights"},
        {"help", BN_OPT_FLAG, &help, NULL, "print this"},
        {0},
    };
    struct bn_err err;
    struct bn_run *run = NULL;
    char *text = NULL;
    int status = BN_ERR_USAGE;

    if (bn_opts_parse(opts, argc, argv, &operands, &err) < 0) {
        fprintf(stderr, "conf-check: %s\n", err.text);
    } else if (help) {
        bn_opts_help(opts, stdout);
        status = 0;
    } else {
        run = bn_run_args_load(&args, operands.n > 0 ? operands.v[0] : NULL,
                               0, &status);
    }
    if (run != NULL && (yaml || trajectory))
        text = yaml ? bn_run_yaml(run) : bn_run_trajectory(run);
    if (text != NULL)
        fputs(text, stdout);
    free(text);
    bn_run_free(run);
    bn_opt_list_release(&operands);
    bn_opt_list_release(&args.sets);
    return status;
}
