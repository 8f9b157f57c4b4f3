#include "config.h"
#include "train/graph.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

#include <stdlib.h>

/* Steps of one shape. */
struct entry {
    struct bn_hash key;
    struct bn_graph *graph; /* NULL: not recorded yet */
    size_t room;            /* of its inputs; 0: an unused entry */
    long used;              /* when it was last */
};

struct bn_graphs {
    struct bn_dev *dev;
    struct entry entry[BN_GRAPHS];
    long steps, recorded, launched;
};

struct bn_graphs *bn_graphs_create(struct bn_dev *dev, int ranks,
                                   struct bn_err *err)
{
    struct bn_graphs *g;

    if (dev->op.graph_create == NULL) {
        bn_fail(err, BN_ERR_USAGE, "cuda_graph: true needs a GPU, and the "
                "device is %s", dev->name);
        return NULL;
    }
    if (ranks > 1) {
        bn_fail(err, BN_ERR_USAGE, "cuda_graph: true is for one rank: "
                "collectives of %d ranks are not captured", ranks);
        return NULL;
    }
    g = BN_NEW(struct bn_graphs);
    g->dev = dev;
    return g;
}

void bn_graphs_destroy(struct bn_graphs *g)
{
    if (g == NULL)
        return;
    bn_info("graphs: %ld of %ld steps were launches of one, %ld recorded",
            g->launched, g->steps, g->recorded);
    for (int i = 0; i < BN_GRAPHS; i++)
        g->dev->op.graph_destroy(g->dev, g->entry[i].graph);
    free(g);
}

static void add_int(struct bn_hasher *h, int v)
{
    bn_hasher_add(h, &v, sizeof(v));
}

/* All of a batch that sizes, chunks and arguments of launches can be made of:
 * not which tokens it holds, nor of which examples, which is copied to the
 * device. (One rank: the shares of others are empty.) */
static void add_shape(struct bn_hasher *h, const struct bn_batch *b)
{
    add_int(h, b->ntok);
    add_int(h, b->nseg);
    add_int(h, b->nseq);
    add_int(h, b->nscore);
    if (b->ntok == 0)
        return;
    bn_hasher_add(h, b->seg, (size_t)b->nseg * sizeof(*b->seg));
    for (int e = 0; e < b->nscore; e++) {
        add_int(h, b->score[e].row);
        add_int(h, b->score[e].seq);
    }
}

static struct bn_hash key_of(const struct bn_micro *m, int n)
{
    struct bn_hasher *h = bn_hasher_begin();

    for (int i = 0; i < n; i++)
        add_shape(h, &m[i].whole);
    return bn_hasher_end(h);
}

/* The entry of a shape, or the one to be used for it; '*known': it is the
 * shape's. */
static struct entry *find(struct bn_graphs *g, struct bn_hash key,
                          bool *known)
{
    struct entry *oldest = &g->entry[0];

    *known = true;
    for (int i = 0; i < BN_GRAPHS; i++) {
        struct entry *e = &g->entry[i];

        if (e->room > 0 && e->key.hi == key.hi && e->key.lo == key.lo)
            return e;
        if (e->used < oldest->used)
            oldest = e;
    }
    *known = false;
    return oldest;
}

static int plain(struct bn_graphs *g, struct entry *e, struct bn_hash key,
                 int (*queue)(void *arg, struct bn_err *err), void *arg,
                 const bool *dropped, struct bn_err *err)
{
    size_t fed = g->dev->fed;
    int rc = queue(arg, err);

    if (rc < 0 || *dropped)
        return rc;
    g->dev->op.graph_destroy(g->dev, e->graph);
    *e = (struct entry){.key = key, .room = g->dev->fed - fed,
                        .used = g->steps};
    return rc;
}

int bn_graphs_step(struct bn_graphs *g, const struct bn_micro *m, int n,
                   int (*queue)(void *arg, struct bn_err *err), void *arg,
                   const bool *dropped, struct bn_err *err)
{
    struct bn_hash key;
    struct entry *e;
    bool known, record;

    if (g == NULL)
        return queue(arg, err);
    key = key_of(m, n);
    e = find(g, key, &known);
    g->steps++;
    if (!known)
        return plain(g, e, key, queue, arg, dropped, err);
    e->used = g->steps;
    record = e->graph == NULL;
    if (record)
        e->graph = g->dev->op.graph_create(g->dev, e->room, err);
    if (e->graph == NULL)
        return -1;
    g->dev->op.graph_begin(g->dev, e->graph, record);
    int rc = queue(arg, err);
    bool launch = rc == 0 && !*dropped;

    g->dev->op.graph_end(g->dev, e->graph, launch);
    if (record && !launch) {
        g->dev->op.graph_destroy(g->dev, e->graph);
        e->graph = NULL;
    }
    g->recorded += record && launch;
    g->launched += launch;
    return rc < 0 ? -1 : bn_dev_check(g->dev, err);
}
