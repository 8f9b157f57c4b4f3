/* One rank for t/t5000-boot.t:
 *     rank [TIMEOUT [late RANK SECONDS]]
 * boots, receives two broadcasts, fences, and prints what it knows. A late
 * rank sleeps before the second broadcast.
 */
#include "config.h"
#include "base/err.h"
#include "base/log.h"
#include "boot/boot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run(struct bn_boot *b, const struct bn_boot_info *info, int argc,
               char **argv, struct bn_err *err)
{
    char id[1024], small[5] = "none";

    memset(id, info->rank == 0 ? 'x' : 0, sizeof(id));
    if (info->rank == 0)
        memcpy(small, "four", 5);
    if (bn_boot_bcast(b, id, sizeof(id), err) < 0)
        return -1;
    if (argc > 4 && atoi(argv[3]) == info->rank)
        sleep((unsigned)atoi(argv[4]));
    if (bn_boot_bcast(b, small, sizeof(small), err) < 0
        || bn_boot_fence(b, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(id); i++)
        if (id[i] != 'x')
            return bn_fail(err, BN_ERR_BUG, "byte %zu is lost", i);
    if (bn_boot_bcast(b, id, sizeof(id) + 1, NULL) == 0)
        return bn_fail(err, BN_ERR_BUG, "1025 bytes were taken");
    printf("rank %d of %d, local %d of %d: %s\n", info->rank, info->size,
           info->local_rank, info->local_size, small);
    return 0;
}

int main(int argc, char **argv)
{
    struct bn_boot_info info = {0};
    struct bn_err err;
    struct bn_boot *b = bn_boot_create(&info, argc > 1 ? atof(argv[1]) : 60,
                                       &err);
    int rc = b != NULL ? run(b, &info, argc, argv, &err) : -1;

    if (rc < 0)
        bn_error("%s", err.text);
    fflush(stdout);
    if (rc < 0 && b != NULL)
        _exit((int)err.code); /* a failed world is not left in order */
    bn_boot_destroy(b);
    return rc < 0 ? (int)err.code : 0;
}
