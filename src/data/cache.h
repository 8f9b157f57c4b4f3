/* Directories that are made once, whoever asks: a lock with an owner, a
 * directory that nobody sees until it is whole.
 */
#ifndef BN_DATA_CACHE_H
#define BN_DATA_CACHE_H

#include <stdbool.h>

#include "base/err.h"

struct bn_cache_lock {
    char *entry; /* the directory to be */
    char *path;  /* the lock's file; NULL: not held */
    char *tmp;   /* the directory to write into */
    double beat;
};

/* Become the one who makes directory 'entry'. 1: yes, and l->tmp exists,
 * empty, on the same file system. 0: another process has made it meanwhile.
 * -1: failure, also after 'wait' seconds (class again, naming the owner) or
 * when a signal asks to stop. Logs for whom it waits, and that a lock was
 * left by a dead process: at once if that was on this machine, else when it
 * has not been touched for 60 s. */
int bn_cache_lock(struct bn_cache_lock *l, const char *entry, double wait,
                  struct bn_err *err);
/* Say that the owner lives; cheap, at least every 20 s. */
void bn_cache_beat(struct bn_cache_lock *l);
/* Flush l->tmp (the files in it must be flushed already) and rename it to
 * l->entry. If another process was faster, its directory stays. */
int bn_cache_commit(struct bn_cache_lock *l, struct bn_err *err);
/* Give up, in the folder 'dir' of entries, the locks whose owner is known to
 * be gone, and what it had not finished. Known is only of a process of this
 * machine and this process id namespace, or of an earlier start of this
 * machine: a lock of anybody else, or one that is not understood, stays, and
 * whoever wants the entry waits for its heartbeat. Only files of this user are
 * looked at. 'f' is called for each such lock with the owner as text; without
 * 'act' that is all. An absent folder is fine. */
typedef void (*bn_cache_clean_f)(void *arg, const char *lock,
                                 const char *owner);
void bn_cache_clean(const char *dir, bool act, bn_cache_clean_f f, void *arg);
/* Remove what was not committed and give the lock up. A zeroed struct is
 * fine. */
void bn_cache_unlock(struct bn_cache_lock *l);

#endif
