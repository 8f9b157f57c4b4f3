/* Threads for work on text and files. Numerical kernels use OpenMP. */
#ifndef BN_BASE_THREAD_H
#define BN_BASE_THREAD_H

#include <stddef.h>

/* CPUs this process may use: SLURM_CPUS_PER_TASK if set, else the affinity
 * mask, bounded by the cgroup's CPU quota; at least 1. */
int bn_cpu_count(void);

/* Threads for computing where 'local_ranks' ranks share the node: 'asked' if
 * positive, else SLURM_CPUS_PER_TASK, else OMP_NUM_THREADS (its first number),
 * else bn_cpu_count(). Ranks that a launcher left unbound get a share of the
 * CPUs each: threads of all of them on every CPU make a step many times
 * slower. At least 1. */
int bn_compute_threads(int asked, int local_ranks);

/* Memory this process may use: the cgroup's limit, else the machine's. */
size_t bn_memory_limit(void);

/* Run f(arg, 0..n-1) on 'n' threads (the caller's is one of them) and wait.
 */
void bn_parallel(int n, void (*f)(void *arg, int index), void *arg);

#endif
