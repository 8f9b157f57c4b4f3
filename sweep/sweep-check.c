/* The commands of this folder without the rest of burnish, for tests. */
#include "config.h"

#include <signal.h>
#include <string.h>

#include "sweep/cmd.h"

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], "clean") == 0)
        return bn_cmd_clean(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "mps") == 0)
        return bn_cmd_mps(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "sweep") == 0)
        return bn_cmd_sweep(argc - 1, argv + 1);
    return 64;
}
