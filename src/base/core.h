/* Where the kernel would put a core file of this process, or why it makes
 * none. Async-signal-safe (safe.h).
 */
#ifndef BN_BASE_CORE_H
#define BN_BASE_CORE_H

#include <stdbool.h>

#include "base/safe.h"

/* Append in one line what a crash of this process with 'sig' leaves and, if
 * that is nothing, why and what to do: the limit (ulimit -c), a process that
 * may not be dumped, /proc/sys/kernel/core_pattern as a file (with its
 * specifiers filled in), or as a program that takes the core (systemd, apport,
 * others). Returns whether a core is to be expected. */
bool bn_core_explain(struct bn_safe *b, int sig);

/* The same with a given pattern and limit, for tests. */
bool bn_core_explain_as(struct bn_safe *b, int sig, const char *pattern,
                        unsigned long long limit);

#endif
