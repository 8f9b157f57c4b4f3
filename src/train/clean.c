/* What a run that was killed left half done. */
#include "config.h"
#include "train/save.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Whether 'name' in output_dir is something half done: what is being
 * written, and what had stepped aside for it. */
static bool half_done(const char *out, const char *name)
{
    static const char *const prefixes[] = {"tmp.checkpoint-", "tmp.gone-",
                                           "tmp.model", "tmp.adapter"};
    size_t len = strlen(name);

    for (size_t i = 0; i < BN_COUNT(prefixes); i++)
        if (bn_str_starts(name, prefixes[i]))
            return true;
    if (!bn_str_ends(name, ".old")
        || !(bn_str_starts(name, "checkpoint-")
             || strcmp(name, "model.old") == 0
             || strcmp(name, "adapter.old") == 0))
        return false;
    char *path = bn_asprintf("%s/%.*s", out, (int)(len - 4), name);
    bool there = bn_exists(path);

    free(path);
    return there;
}

void bn_save_clean(const struct bn_run *run)
{
    const char *out = run->output_dir;
    DIR *d = opendir(out);

    if (d == NULL)
        return; /* whoever writes there will say why */
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        struct bn_err err;
        char *path = bn_path_join(out, e->d_name);

        if (half_done(out, e->d_name)) {
            bn_info("removing '%s', which an interrupted run left", path);
            if (bn_remove_tree(path, &err) < 0)
                bn_warn("%s", err.text);
        }
        free(path);
    }
    closedir(d);
}
