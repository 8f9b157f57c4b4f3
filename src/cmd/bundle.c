/* burnish doctor --bundle: what a bug report needs, and nothing else. */
#include "config.h"
#include "cmd/doctor.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cmd/cmd.h"
#include "cmd/mask.h"
#include "cmd/tar.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* Of a longer file the end is taken: there it says what went wrong. */
enum { MOST = 1 << 20, DEPTH = 3, FILES = 2000 };

struct item {
    char *name; /* in the archive */
    char *text; /* masked */
    size_t len, skipped;
    long mtime;
    int masked;
};

struct bundle {
    struct item *v;
    size_t n, cap;
};

static void add(struct bundle *b, char *name, const char *text, size_t len,
                size_t skipped, long mtime)
{
    struct bn_str s = {0};
    struct item it = {.name = name, .skipped = skipped, .mtime = mtime};

    if (skipped > 0)
        bn_str_addf(&s, "[the first %zu bytes were left out]\n", skipped);
    it.masked = bn_mask(&s, text, len);
    it.len = s.len;
    it.text = bn_str_take(&s);
    bn_grow(&b->v, &b->cap, b->n + 1, sizeof(*b->v));
    b->v[b->n++] = it;
}

static void add_text(struct bundle *b, const char *name, const char *text)
{
    add(b, bn_asprintf("burnish-bundle/%s", name), text, strlen(text), 0,
        (long)bn_wall_time());
}

/* --- Files of a run ------------------------------------------------------------- */

/* By name alone: configs, logs, figures, stacks. No data, no weights. */
static bool wanted(const char *name)
{
    static const char *const patterns[] = {
        "*.yaml", "*.yml", "metrics.jsonl", "phase.*", "exit-class",
        "crash.*", "*.log", "*.out", "*.err", "*.sbatch", "manifest.json",
        "config.json", "generation_config.json", "adapter_config.json",
        "sweep.json", "state.json", "points.jsonl",
    };

    for (size_t i = 0; i < BN_COUNT(patterns); i++)
        if (fnmatch(patterns[i], name, 0) == 0)
            return true;
    return false;
}

static void add_file(struct bundle *b, const char *path, const char *name,
                     const struct stat *st)
{
    FILE *f = fopen(path, "re");
    size_t size = (size_t)st->st_size;
    size_t skip = size > MOST ? size - MOST : 0;
    char *text = bn_malloc(MOST);

    if (f == NULL || fseeko(f, (off_t)skip, SEEK_SET) != 0) {
        bn_warn("burnish doctor: cannot read '%s': %s", path,
                strerror(errno));
    } else {
        size_t len = fread(text, 1, MOST, f), cut = 0;

        /* Not from the middle of a line: half a secret has no shape. */
        if (skip > 0) {
            const char *nl = memchr(text, '\n', len);

            cut = nl != NULL ? (size_t)(nl - text) + 1 : len;
        }
        add(b, bn_asprintf("burnish-bundle/run/%s", name), text + cut,
            len - cut, skip + cut, (long)st->st_mtime);
    }
    if (f != NULL)
        fclose(f);
    free(text);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* 'under': path inside the run's folder, "" at its top. Links are not
 * followed: they lead elsewhere. */
static void walk(struct bundle *b, const char *dir, const char *under,
                 int depth)
{
    struct dirent **list = NULL;
    int n = scandir(dir, &list, NULL, by_name);

    for (int i = 0; i < n; i++) {
        const char *base = list[i]->d_name;
        char *path = bn_path_join(dir, base);
        char *name = bn_asprintf("%s%s%s", under, under[0] ? "/" : "", base);
        struct stat st;

        if (base[0] != '.' && lstat(path, &st) == 0 && b->n < FILES) {
            if (S_ISREG(st.st_mode) && wanted(base))
                add_file(b, path, name, &st);
            else if (S_ISDIR(st.st_mode) && depth < DEPTH)
                walk(b, path, name, depth + 1);
        }
        free(name);
        free(path);
        free(list[i]);
    }
    free(list);
}

/* --- What is known besides -------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_environment(struct bundle *b)
{
    struct bn_str s = {0};
    char **v = NULL;
    size_t n = 0, cap = 0, left = 0;

    for (char **e = environ; *e != NULL; e++) {
        char *name = bn_strndup(*e, strcspn(*e, "="));

        if (bn_mask_env_ok(name)) {
            bn_grow(&v, &cap, n + 1, sizeof(*v));
            v[n++] = *e;
        } else {
            left++;
        }
        free(name);
    }
    if (n > 0)
        qsort(v, n, sizeof(*v), by_text);
    for (size_t i = 0; i < n; i++)
        bn_str_addf(&s, "%s\n", v[i]);
    bn_str_addf(&s, "# %zu other variables are not shown\n", left);
    add_text(b, "environment.txt", s.s);
    bn_str_release(&s);
    free(v);
}

static void add_doctor(struct bundle *b, struct bn_doctor *d)
{
    struct bn_str s = {0};

    bn_doctor_examine(d);
    bn_doctor_text(d, &s);
    add_text(b, "doctor.txt", s.s);
    bn_str_release(&s);
}

static int write_all(const struct bundle *b, const char *out,
                     struct bn_err *err)
{
    struct bn_str tar = {0}, gz = {0};
    int rc = 0;

    for (size_t i = 0; i < b->n && rc == 0; i++) {
        const struct item *it = &b->v[i];

        printf("%s  %zu bytes", it->name, it->len);
        if (it->masked > 0)
            printf(", %d masked", it->masked);
        if (it->skipped > 0)
            printf(", its end");
        printf("\n");
        rc = bn_tar_add(&tar, it->name, it->text, it->len, it->mtime, err);
    }
    if (rc == 0)
        rc = bn_tar_finish(&tar, &gz, err);
    if (rc == 0 && fflush(stdout) != 0)
        rc = bn_fail(err, bn_err_from_errno(errno), "cannot write standard "
                     "output: %s", strerror(errno));
    if (rc == 0)
        rc = bn_file_write(out, gz.s, gz.len, err);
    bn_str_release(&tar);
    bn_str_release(&gz);
    return rc;
}

int bn_doctor_bundle(struct bn_doctor *d, const char *out,
                     const char *run_dir)
{
    struct bundle b = {0};
    struct bn_err err;
    int rc;

    if (!bn_is_dir(run_dir)) {
        bn_fail(&err, BN_ERR_DATA, "'%s' is no folder of a run", run_dir);
        return bn_cmd_fail("doctor", &err);
    }
    if (!bn_str_ends(out, ".tar.gz") && !bn_str_ends(out, ".tgz"))
        return bn_cmd_usage("doctor", "--bundle: '%s' does not end in .tar.gz",
                            out);
    add_doctor(&b, d);
    add_environment(&b);
    walk(&b, run_dir, "", 0);
    rc = write_all(&b, out, &err);
    for (size_t i = 0; i < b.n; i++) {
        free(b.v[i].name);
        free(b.v[i].text);
    }
    free(b.v);
    if (rc < 0)
        return bn_cmd_fail("doctor", &err);
    bn_info("%s: %zu files; look at them before you send it: tar xzf %s", out,
            b.n, out);
    return 0;
}
