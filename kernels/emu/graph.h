/* Between the files of the emulated runtime: graphs, and what calls do that
 * come while a stream is captured.
 */
#ifndef BN_KERNELS_EMU_GRAPH_H
#define BN_KERNELS_EMU_GRAPH_H

#include "kernels/emu/runtime.h"

/* Empty; cudaGraphDestroy frees it. */
struct bn_emu_graph *bn_emu_graph_new(void);
/* Make its calls and forget them. */
void bn_emu_graph_drain(struct bn_emu_graph *g);
/* Add a call of fn with a copy of arg[size] and, behind it, more[more_size];
 * the size of the first is a multiple of 16 if there is a second. */
void bn_emu_graph_add(struct bn_emu_graph *g, cudaError_t (*fn)(void *arg),
                      const void *arg, size_t size, const void *more,
                      size_t more_size);
/* Make all calls, in order, up to the first that fails. */
cudaError_t bn_emu_graph_run(struct bn_emu_graph_exec *exec);

/* Do what streams have put off. */
void bn_emu_drain_all(void);

extern struct bn_emu_calls bn_emu_counted;
/* e; kept as the last error if it is one. */
cudaError_t bn_emu_ret(cudaError_t e);
/* A call that a capture forbids: an error that spoils it, if there is one. */
cudaError_t bn_emu_forbidden(const char *what);
/* If the stream is captured, keep a call for launches of the graph; or for
 * later, if work is put off. */
bool bn_emu_keep(cudaStream_t stream, cudaError_t (*fn)(void *arg),
                 const void *arg, size_t size);

#endif
