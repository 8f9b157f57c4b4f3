/* Reductions and gathers of CPU ranks that go on while the rank computes; used
 * by the MPI back end only (comm_mpi.c, world.c).
 *
 * A rank gives its parts away at once: MPI has the memory until they are
 * there. Of what it is the root of it takes one piece after the other from
 * all ranks, two pieces at a time, and adds them in the order of the ranks, so
 * that the bits are those of 'reduce'. What is gathered goes to its place
 * without a sum. A thread of its own does that, by turns with the thread that
 * works: MPI is called with the world's lock held (MPI_THREAD_SERIALIZED).
 * Where MPI does not allow a second thread all of it is done in
 * bn_later_finish.
 */
#ifndef BN_COMM_LATER_H
#define BN_COMM_LATER_H

#include "comm/world.h"

enum { BN_LATER_SLOTS = 2 }; /* pieces that are under way to their root */

struct bn_later;

/* Of the group 'c' with 'world_rank' (borrowed); 'tag' and the one behind it
 * are used for nothing else. Takes BN_LATER_SLOTS pieces a rank of the group. */
struct bn_later *bn_later_create(struct bn_world *w, const struct bn_comm *c,
                                 const int *world_rank, int tag);
/* What is not finished is given up, and the world with it. NULL is allowed. */
void bn_later_destroy(struct bn_later *l);

/* comm.h: reduce_begin, allgather_begin, finish. */
void bn_later_reduce(struct bn_later *l, void *out, const void *in,
                     enum bn_dtype type, size_t n, int root);
void bn_later_allgather(struct bn_later *l, void *out, size_t bytes,
                        size_t stride);
int bn_later_finish(struct bn_later *l, struct bn_err *err);

/* For waiting (world.c). Do what can be done now, with the lock held, which
 * is given back meanwhile; true if nothing is left. */
bool bn_later_step(struct bn_later *l);
/* Whether something is under way to or from this rank of the world. */
bool bn_later_waits_for(const struct bn_later *l, int rank);

#endif
