/* Graphs: calls that a stream was given while it was captured, each with a
 * copy of its arguments as they were, to be made at each launch.
 */
#include "config.h"
#include "kernels/emu/graph.h"

#include <stdlib.h>
#include <string.h>

struct node {
    cudaError_t (*fn)(void *arg);
    struct node *next;
    _Alignas(16) char arg[];
};
struct bn_emu_graph {
    struct node *first, **last;
};
struct bn_emu_graph_exec {
    struct bn_emu_graph *graph;
};

struct bn_emu_graph *bn_emu_graph_new(void)
{
    struct bn_emu_graph *g = calloc(1, sizeof(*g));

    if (g == NULL)
        abort();
    g->last = &g->first;
    return g;
}

void bn_emu_graph_add(struct bn_emu_graph *g, cudaError_t (*fn)(void *arg),
                      const void *arg, size_t size, const void *more,
                      size_t more_size)
{
    struct node *n = malloc(sizeof(*n) + size + more_size);

    if (n == NULL)
        abort();
    n->fn = fn;
    n->next = NULL;
    memcpy(n->arg, arg, size);
    if (more_size > 0)
        memcpy(n->arg + size, more, more_size);
    *g->last = n;
    g->last = &n->next;
}

void bn_emu_graph_drain(struct bn_emu_graph *g)
{
    struct node *n;

    while ((n = g->first) != NULL) {
        (void)n->fn(n->arg); /* which keeps its error */
        g->first = n->next;
        if (g->first == NULL)
            g->last = &g->first;
        free(n);
    }
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    struct node *next;

    if (graph == NULL)
        return cudaSuccess;
    for (struct node *n = graph->first; n != NULL; n = next) {
        next = n->next;
        free(n);
    }
    free(graph);
    return cudaSuccess;
}

/* The nodes move: a graph is made ready once here. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    (void)flags;
    *exec = calloc(1, sizeof(**exec));
    if (*exec == NULL)
        return cudaErrorMemoryAllocation;
    (*exec)->graph = bn_emu_graph_new();
    (*exec)->graph->first = graph->first;
    graph->first = NULL;
    graph->last = &graph->first;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    bn_emu_drain_all();
    cudaError_t e = cudaGraphDestroy(exec->graph);

    free(exec);
    return e;
}

cudaError_t bn_emu_graph_run(struct bn_emu_graph_exec *exec)
{
    cudaError_t e = cudaSuccess;

    for (struct node *n = exec->graph->first; n != NULL && e == cudaSuccess;
         n = n->next)
        e = n->fn(n->arg);
    return e;
}
