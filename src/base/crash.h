/* What a process says when it dies of a fault of the program: signal, rank,
 * phase, step, micro-batch, stack, and where the core file is. Then it dies
 * of the same signal, so that exit status and core are those of the fault.
 */
#ifndef BN_BASE_CRASH_H
#define BN_BASE_CRASH_H

/* Report SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT from now on. One that has
 * a handler already (a sanitizer's) is left to it. The rank is taken from the
 * launcher's environment until bn_crash_rank says it. Call it first in main. */
void bn_crash_catch(void);

/* Where this process is; stored, not copied into any file. 'phase' is copied
 * (15 characters). May be called at any time by the thread that works. */
void bn_crash_rank(int rank, int size);
void bn_crash_phase(const char *phase, long step);
/* Micro-batch 'at' (from 0) of n; n 0: none is in work. */
void bn_crash_micro(int at, int n);
/* Also write the report to dir/crash.RANK; NULL: only to standard error. A
 * file of that name that an earlier start left is removed. */
void bn_crash_dir(const char *dir);

/* The report, one line each after "rank R/N: " (N > 1):
 *   crash: SIGSEGV (address not mapped, at 0x0), pid P, thread T, on HOST
 *   crash: phase step 12, micro-batch 3 of 8
 *   crash: stack, innermost first:
 *   crash:   /path/burnish-train(+0x1a2b3)
 *   crash: resolve with: addr2line -Cfpie /path/burnish-train 0x1a2b3 ...
 *   crash: core: ...
 * Offsets are what addr2line takes, position-independent program or not;
 * those of callers are one less than the return address, in the call. */

#endif
