/* The batch scripts of a sweep. */
#ifndef BN_SWEEP_SCRIPT_H
#define BN_SWEEP_SCRIPT_H

#include "sweep/sweep.h"
#include "base/str.h"

/* What differs from script to script; NULL or 0 where it does not apply. */
struct bn_script {
    const char *name;  /* of the job */
    const char *log;   /* path, in which %A, %a, %j are Slurm's */
    const char *dir;   /* of the one run */
    const char *list;  /* file with a folder a line */
    const char *array; /* "0-9%4" */
    bool tokenize;     /* the script of the tokenizing job */
};

/* The text of the template that the sweep uses ('tokenize': of that job),
 * malloc'ed, with its path in '*path'. NULL with 'err'. */
char *bn_script_template(const struct bn_sweep *s, bool tokenize, char **path,
                         struct bn_err *err);

/* Append the script to 'out', after reading its directives back and finding
 * in them what the sweep asks for. The caller has bash look at the file. */
int bn_script_make(const struct bn_sweep *s, const char *template,
                   const char *path, const struct bn_script *job,
                   struct bn_str *out, struct bn_err *err);

/* malloc'ed: the folder of templates: $BURNISH_TEMPLATES, else the installed
 * one. */
char *bn_template_dir(void);

/* A path as part of an --output pattern: % is written %%. */
void bn_pattern_add(struct bn_str *b, const char *path);

#endif
