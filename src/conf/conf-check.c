/* conf-check [--print] [--yaml] [--trajectory] [--help] FILE [KEY=VALUE...]:
 * what the run file layer makes of a file, for tests. Exit 0 or 64.
 */
#include "config.h"
#include "conf/conf.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct bn_problems p = {0};
    const char *mode = "";
    int i = 1;

    if (i < argc && strncmp(argv[i], "--", 2) == 0)
        mode = argv[i++];
    if (strcmp(mode, "--help") == 0) {
        bn_run_help(stdout);
        return 0;
    }
    if (i == argc)
        return BN_ERR_USAGE;
    const char *file = argv[i++];
    struct bn_run *run =
        bn_run_load(file, (const char *const *)argv + i, (size_t)(argc - i),
                    0, &p);
    bn_problems_print(&p, stderr);
    bn_problems_release(&p);
    if (run == NULL)
        return BN_ERR_USAGE;
    char *text = NULL;
    if (strcmp(mode, "--print") == 0)
        bn_run_print(run, stdout);
    else if (strcmp(mode, "--yaml") == 0)
        text = bn_run_yaml(run);
    else if (strcmp(mode, "--trajectory") == 0)
        text = bn_run_trajectory(run);
    if (text != NULL)
        fputs(text, stdout);
    free(text);
    bn_run_free(run);
    return 0;
}
