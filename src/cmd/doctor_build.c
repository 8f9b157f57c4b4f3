/* What this program was made with, and what it runs with. */
#include "config.h"
#include "cmd/doctor.h"
#include "base/file.h"
#include "base/mem.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>
#include <yaml.h>
#include <zlib.h>
#include <zstd.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <xxhash.h>

static const char *yes(bool b)
{
    return b ? "yes" : "no";
}

#ifdef HAVE_PMIX
#define PMIX_BUILT true
#else
#define PMIX_BUILT false
#endif
#ifdef HAVE_MPI
#define MPI_BUILT true
#else
#define MPI_BUILT false
#endif
#ifdef HAVE_ONEDNN
#define ONEDNN_BUILT true
#else
#define ONEDNN_BUILT false
#endif
#ifdef HAVE_CUDA
#define CUDA_BUILT true
#else
#define CUDA_BUILT false
#endif
#ifdef HAVE_NCCL
#define NCCL_BUILT true
#else
#define NCCL_BUILT false
#endif
#ifdef HAVE_SLURM
#define SLURM_BUILT true
#else
#define SLURM_BUILT false
#endif

/* The number before the first dot: another one means another interface. */
static bool same_major(const char *a, const char *b)
{
    return atoi(a) == atoi(b);
}

static void library(struct bn_doctor *d, const char *name, const char *built,
                    const char *runs)
{
    if (same_major(built, runs))
        bn_doctor_add(d, BN_FINDING_OK, "library", NULL, "%s %s", name, runs);
    else
        bn_doctor_add(d, BN_FINDING_FAIL, "library",
                      "build again on this machine, or set LD_LIBRARY_PATH "
                      "to the library of the build", "%s %s, built with %s",
                      name, runs, built);
}

static void libraries(struct bn_doctor *d)
{
    char built[64], runs[64];
    unsigned v = XXH_versionNumber();

    library(d, "zlib", ZLIB_VERSION, zlibVersion());
    library(d, "zstd", ZSTD_VERSION_STRING, ZSTD_versionString());
    library(d, "jansson", JANSSON_VERSION, jansson_version_str());
    snprintf(built, sizeof(built), "%d.%d", PCRE2_MAJOR, PCRE2_MINOR);
    pcre2_config(PCRE2_CONFIG_VERSION, runs);
    library(d, "pcre2", built, runs);
    library(d, "libyaml", "0", yaml_get_version_string());
    snprintf(built, sizeof(built), "%d.%d.%d", UTF8PROC_VERSION_MAJOR,
             UTF8PROC_VERSION_MINOR, UTF8PROC_VERSION_PATCH);
    library(d, "utf8proc", built, utf8proc_version());
    snprintf(built, sizeof(built), "%d.%d.%d", XXH_VERSION_MAJOR,
             XXH_VERSION_MINOR, XXH_VERSION_RELEASE);
    snprintf(runs, sizeof(runs), "%u.%u.%u", v / 10000, v / 100 % 100,
             v % 100);
    library(d, "xxhash", built, runs);
}

/* The line of a program's answer that names its version. */
static void compiler(struct bn_doctor *d, const char *name, const char *word)
{
    const char *const argv[] = {name, "--version", NULL};
    struct bn_err err;
    char *out = bn_doctor_ask(d, argv, &err);
    const char *at = out != NULL ? strstr(out, word) : NULL;

    if (out == NULL) {
        bn_doctor_add(d, BN_FINDING_OK, "compiler", NULL,
                      "%s is not here (only needed to build)", name);
        return;
    }
    if (at == NULL)
        at = out;
    bn_doctor_add(d, BN_FINDING_OK, "compiler", NULL, "%s: %.*s", name,
                  (int)strcspn(at, "\n"), at);
    free(out);
}

/* Programs of two builds do not agree on formats. */
static void siblings(struct bn_doctor *d)
{
    struct bn_err err;
    const char *argv[] = {d->train, "--version", NULL};
    char *out;

    if (d->train == NULL) {
        bn_doctor_add(d, BN_FINDING_FAIL, "burnish",
                      "install it beside burnish ('make install')",
                      "there is no burnish-train beside this program or on "
                      "PATH");
        return;
    }
    out = bn_doctor_ask(d, argv, &err);
    if (out == NULL)
        bn_doctor_add(d, BN_FINDING_FAIL, "burnish",
                      "see which library it lacks: ldd on it", "%s does not "
                      "start: %s", d->train, err.text);
    else if (strncmp(out, PACKAGE_STRING "\n", strlen(PACKAGE_STRING) + 1)
             != 0)
        bn_doctor_add(d, BN_FINDING_FAIL, "burnish",
                      "use programs of one build", "%s is of another version: "
                      "%.*s", d->train, (int)strcspn(out, "\n"), out);
    else
        bn_doctor_add(d, BN_FINDING_OK, "burnish", NULL, "%s, with %s",
                      PACKAGE_STRING, d->train);
    free(out);
}

void bn_doctor_build(struct bn_doctor *d)
{
    siblings(d);
    bn_doctor_add(d, BN_FINDING_OK, "build", NULL,
                  "compiler " __VERSION__ "; PMIx %s, MPI %s, oneDNN %s, CUDA "
                  "%s, NCCL %s, libslurm %s", yes(PMIX_BUILT), yes(MPI_BUILT),
                  yes(ONEDNN_BUILT), yes(CUDA_BUILT), yes(NCCL_BUILT),
                  yes(SLURM_BUILT));
    libraries(d);
    compiler(d, "cc", "cc");
    compiler(d, "nvcc", "Cuda compilation");
}
