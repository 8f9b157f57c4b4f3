#include "config.h"
#include "conf/yaml.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

/* A node as built; 'pub' is what readers see. */
struct node {
    struct bn_yaml pub; /* first: the two convert */
    size_t item_cap, key_cap;
    size_t size;   /* nodes that a walk sees, aliases expanded */
    size_t height; /* of the tree below, itself included */
};

struct anchor {
    char *name;
    struct node *node;
};

struct bn_yaml_doc {
    char *name;
    struct node **node; /* all that were made */
    size_t n, cap;
    struct node *root;
};

/* A collection that has begun and not yet ended. */
struct level {
    struct node *node;
    char *anchor;     /* or NULL */
    struct node *key; /* of a map, waiting for its value */
    bool skip;        /* that value is dropped: its key was refused */
};

struct builder {
    struct bn_yaml_doc *doc;
    struct bn_problems *p;
    struct level open[BN_YAML_DEPTH];
    size_t depth;
    struct anchor *anchor;
    size_t nanchors, anchor_cap;
    bool ended; /* one document was read */
    bool whole; /* places are the name alone */
};

static struct bn_place place_of(const struct builder *b, yaml_mark_t mark)
{
    if (b->whole)
        return (struct bn_place){b->doc->name, 0, 0};
    return (struct bn_place){b->doc->name, (int)mark.line + 1,
                             (int)mark.column + 1};
}

static int refuse(struct builder *b, yaml_mark_t mark, const char *what)
{
    bn_problem_add(b->p, place_of(b, mark), "%s", what);
    return -1;
}

static struct node *node_new(struct builder *b, enum bn_yaml_kind kind,
                             yaml_mark_t mark)
{
    struct bn_yaml_doc *doc = b->doc;
    struct node *x = BN_NEW(struct node);

    x->pub.kind = kind;
    x->pub.at = place_of(b, mark);
    x->size = 1;
    x->height = 1;
    bn_grow(&doc->node, &doc->cap, doc->n + 1, sizeof(*doc->node));
    doc->node[doc->n++] = x;
    return x;
}

static void anchor_set(struct builder *b, char *name, struct node *x)
{
    if (name == NULL)
        return;
    bn_grow(&b->anchor, &b->anchor_cap, b->nanchors + 1, sizeof(*b->anchor));
    b->anchor[b->nanchors++] = (struct anchor){name, x};
}

/* The last definition of a name counts. */
static struct node *anchor_get(const struct builder *b, const char *name)
{
    for (size_t i = b->nanchors; i > 0; i--)
        if (strcmp(b->anchor[i - 1].name, name) == 0)
            return b->anchor[i - 1].node;
    return NULL;
}

/* Take 'x' as the next key of the innermost map. A key that is refused is
 * said, and its value dropped, without ending the parse. */
static int take_key(struct builder *b, struct node *x, yaml_mark_t mark)
{
    struct level *in = &b->open[b->depth - 1];
    const struct bn_yaml *map = &in->node->pub;

    if (x->pub.kind != BN_YAML_SCALAR)
        return refuse(b, mark, "a key must be a single word");
    if (map->n == BN_YAML_PAIRS)
        return refuse(b, mark, "too many keys in one map");
    in->key = x;
    in->skip = false;
    if (strcmp(x->pub.text, "<<") == 0 && !x->pub.quoted) {
        refuse(b, mark, "merge keys (<<) are not supported; write the keys"
                        " out");
        in->skip = true;
    }
    for (size_t i = 0; i < map->n && !in->skip; i++)
        if (strcmp(map->key[i]->text, x->pub.text) == 0) {
            bn_problem_add(b->p, place_of(b, mark),
                           "duplicate key '%s'; it was set in line %d",
                           x->pub.text, map->key[i]->at.line);
            in->skip = true;
        }
    return 0;
}

/* Count what a walk sees, so that nested aliases cannot explode. */
static int count_in(struct builder *b, const struct node *x,
                    yaml_mark_t mark)
{
    struct node *in = b->open[b->depth - 1].node;

    in->size += x->size;
    if (in->height < x->height + 1)
        in->height = x->height + 1;
    if (in->size > BN_YAML_NODES)
        return refuse(b, mark, "too many values (1000000 with aliases"
                               " expanded)");
    if (b->depth + x->height > BN_YAML_DEPTH)
        return refuse(b, mark, "nested too deeply");
    return 0;
}

/* Put a node where it belongs. 'mark' is the place of its use, which for an
 * alias is not that of its definition. */
static int attach(struct builder *b, struct node *x, yaml_mark_t mark)
{
    if (b->depth == 0) {
        b->doc->root = x;
        return 0;
    }
    struct level *in = &b->open[b->depth - 1];
    struct node *to = in->node;
    if (to->pub.kind == BN_YAML_MAP && in->key == NULL)
        return take_key(b, x, mark);
    if (to->pub.kind == BN_YAML_MAP && in->skip) {
        in->key = NULL;
        return 0;
    }
    bn_grow(&to->pub.item, &to->item_cap, to->pub.n + 1, sizeof(void *));
    to->pub.item[to->pub.n] = &x->pub;
    if (to->pub.kind == BN_YAML_MAP) {
        bn_grow(&to->pub.key, &to->key_cap, to->pub.n + 1, sizeof(void *));
        to->pub.key[to->pub.n] = &in->key->pub;
        in->key = NULL;
    }
    to->pub.n++;
    return 0;
}

static int on_scalar(struct builder *b, const yaml_event_t *e)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;

    if (memchr(text, '\0', len) != NULL)
        return refuse(b, e->start_mark, "a NUL character in a value");
    if (e->data.scalar.tag != NULL)
        refuse(b, e->start_mark, "tags (!) are not supported");
    struct node *x = node_new(b, BN_YAML_SCALAR, e->start_mark);
    x->pub.text = bn_strndup(text, len);
    x->pub.quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    if (e->data.scalar.anchor != NULL)
        anchor_set(b, bn_strdup((const char *)e->data.scalar.anchor), x);
    if (attach(b, x, e->start_mark) < 0)
        return -1;
    return b->depth > 0 ? count_in(b, x, e->start_mark) : 0;
}

static int on_alias(struct builder *b, const yaml_event_t *e)
{
    const char *name = (const char *)e->data.alias.anchor;
    struct node *x = anchor_get(b, name);

    if (x == NULL) {
        bn_problem_add(b->p, place_of(b, e->start_mark),
                       "alias '*%s' stands for nothing: no anchor '&%s' ends"
                       " before it", name, name);
        return -1;
    }
    if (attach(b, x, e->start_mark) < 0)
        return -1;
    return b->depth > 0 ? count_in(b, x, e->start_mark) : 0;
}

static int on_begin(struct builder *b, const yaml_event_t *e,
                    enum bn_yaml_kind kind)
{
    bool map = kind == BN_YAML_MAP;
    const yaml_char_t *anchor = map ? e->data.mapping_start.anchor
                                    : e->data.sequence_start.anchor;
    const yaml_char_t *tag = map ? e->data.mapping_start.tag
                                 : e->data.sequence_start.tag;

    if (b->depth == BN_YAML_DEPTH)
        return refuse(b, e->start_mark, "nested too deeply");
    if (tag != NULL)
        refuse(b, e->start_mark, "tags (!) are not supported");
    struct node *x = node_new(b, kind, e->start_mark);
    if (attach(b, x, e->start_mark) < 0)
        return -1;
    b->open[b->depth] = (struct level){.node = x};
    if (anchor != NULL)
        b->open[b->depth].anchor = bn_strdup((const char *)anchor);
    b->depth++;
    return 0;
}

static int on_end(struct builder *b, const yaml_event_t *e)
{
    struct level *l = &b->open[--b->depth];

    /* Only now may aliases name it: a tree never holds itself. */
    anchor_set(b, l->anchor, l->node);
    l->anchor = NULL;
    return b->depth > 0 ? count_in(b, l->node, e->start_mark) : 0;
}

static int on_event(struct builder *b, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->ended)
            return refuse(b, e->start_mark, "a second document");
        b->ended = true;
        return 0;
    case YAML_SCALAR_EVENT:
        return on_scalar(b, e);
    case YAML_ALIAS_EVENT:
        return on_alias(b, e);
    case YAML_MAPPING_START_EVENT:
        return on_begin(b, e, BN_YAML_MAP);
    case YAML_SEQUENCE_START_EVENT:
        return on_begin(b, e, BN_YAML_LIST);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        return on_end(b, e);
    default:
        return 0;
    }
}

static void say_syntax(struct builder *b, const yaml_parser_t *y)
{
    yaml_mark_t mark = y->problem_mark;
    const char *what = y->problem != NULL ? y->problem : "cannot parse";

    if (y->error == YAML_READER_ERROR)
        bn_problem_add(b->p, (struct bn_place){b->doc->name, 0, 0},
                       "not a text file: %s at byte %zu", what,
                       y->problem_offset);
    else if (y->context != NULL
             && strcmp(y->context, "while scanning a simple key") == 0)
        /* Found missing at the end of the line, or on the next. */
        bn_problem_add(b->p, place_of(b, y->context_mark),
                       "expected 'key: value', with a blank after the colon");
    else if (y->context != NULL)
        bn_problem_add(b->p, place_of(b, mark), "%s %s%s", y->context, what,
                       strcmp(y->context, "while scanning an alias") == 0
                           ? "; a glob needs quotes"
                           : "");
    else
        bn_problem_add(b->p, place_of(b, mark), "%s", what);
}

static int read_events(struct builder *b, yaml_parser_t *y)
{
    bool more = true;
    int rc = 0;

    while (more && rc == 0) {
        yaml_event_t e;

        if (!yaml_parser_parse(y, &e)) {
            say_syntax(b, y);
            return -1;
        }
        more = e.type != YAML_STREAM_END_EVENT;
        rc = on_event(b, &e);
        yaml_event_delete(&e);
    }
    return rc;
}

static struct bn_yaml_doc *parse(const char *text, size_t len,
                                 const char *name, bool whole,
                                 struct bn_problems *p)
{
    struct bn_yaml_doc *doc = BN_NEW(struct bn_yaml_doc);
    struct builder b = {.doc = doc, .p = p, .whole = whole};
    yaml_parser_t y;

    doc->name = bn_strdup(name);
    if (!yaml_parser_initialize(&y)) {
        bn_problem_add(p, (struct bn_place){name, 0, 0}, "out of memory");
        bn_yaml_free(doc);
        return NULL;
    }
    yaml_parser_set_input_string(&y, (const unsigned char *)text, len);
    int rc = read_events(&b, &y);
    yaml_parser_delete(&y);
    for (size_t i = 0; i < b.depth; i++)
        free(b.open[i].anchor);
    for (size_t i = 0; i < b.nanchors; i++)
        free(b.anchor[i].name);
    free(b.anchor);
    if (rc < 0) {
        bn_yaml_free(doc);
        return NULL;
    }
    if (doc->root == NULL || (bn_yaml_is_null(&doc->root->pub)
                              && doc->root->pub.text[0] == '\0'))
        doc->root = node_new(&b, BN_YAML_MAP, (yaml_mark_t){0});
    return doc;
}

struct bn_yaml_doc *bn_yaml_parse(const char *text, size_t len,
                                  const char *name, struct bn_problems *p)
{
    return parse(text, len, name, false, p);
}

struct bn_yaml_doc *bn_yaml_parse_arg(const char *text, const char *name,
                                      struct bn_problems *p)
{
    return parse(text, strlen(text), name, true, p);
}

struct bn_yaml_doc *bn_yaml_scalar(const char *text, const char *name)
{
    struct bn_yaml_doc *doc = BN_NEW(struct bn_yaml_doc);
    struct builder b = {.doc = doc, .whole = true};

    doc->name = bn_strdup(name);
    doc->root = node_new(&b, BN_YAML_SCALAR, (yaml_mark_t){0});
    doc->root->pub.text = bn_strdup(text);
    return doc;
}

static char *read_stdin(size_t *len)
{
    struct bn_str s = {0};
    char buf[65536];
    ssize_t n;

    do {
        n = read(STDIN_FILENO, buf, sizeof(buf));
        if (n > 0)
            bn_str_add(&s, buf, (size_t)n);
    } while (s.len < BN_YAML_FILE_MAX && (n > 0 || (n < 0 && errno == EINTR)));
    *len = s.len;
    return bn_str_take(&s);
}

struct bn_yaml_doc *bn_yaml_load(const char *path, struct bn_problems *p)
{
    bool in = strcmp(path, "-") == 0;
    struct bn_err err;
    size_t len;
    char *text = in ? read_stdin(&len)
                    : bn_file_read(path, BN_YAML_FILE_MAX, &len, &err);

    if (text == NULL) {
        bn_problem_add(p, (struct bn_place){0}, "%s", err.text);
        return NULL;
    }
    struct bn_yaml_doc *doc =
        bn_yaml_parse(text, len, in ? "<stdin>" : path, p);
    free(text);
    return doc;
}

const struct bn_yaml *bn_yaml_root(const struct bn_yaml_doc *doc)
{
    return &doc->root->pub;
}

void bn_yaml_free(struct bn_yaml_doc *doc)
{
    if (doc == NULL)
        return;
    for (size_t i = 0; i < doc->n; i++) {
        free((char *)doc->node[i]->pub.text);
        free(doc->node[i]->pub.item);
        free(doc->node[i]->pub.key);
        free(doc->node[i]);
    }
    free(doc->node);
    free(doc->name);
    free(doc);
}

const struct bn_yaml *bn_yaml_get(const struct bn_yaml *map, const char *key)
{
    for (size_t i = 0; map->kind == BN_YAML_MAP && i < map->n; i++)
        if (strcmp(map->key[i]->text, key) == 0)
            return map->item[i];
    return NULL;
}

bool bn_yaml_is_null(const struct bn_yaml *y)
{
    static const char *const word[] = {"", "~", "null", "Null", "NULL"};

    if (y->kind != BN_YAML_SCALAR || y->quoted)
        return false;
    for (size_t i = 0; i < BN_COUNT(word); i++)
        if (strcmp(y->text, word[i]) == 0)
            return true;
    return false;
}
