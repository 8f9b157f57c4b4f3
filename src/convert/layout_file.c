#include "config.h"
#include "convert/layout.h"
#include "base/mem.h"
#include "format/gguf.h"
#include "format/llama2c.h"
#include "format/safetensors.h"
#include "format/torch.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

static const char *const readers[BN_NREADER] = {
    [BN_READ_SAFETENSORS] = "safetensors",
    [BN_READ_TORCH] = "torch",
    [BN_READ_GGUF] = "gguf",
    [BN_READ_LLAMA2C] = "llama2c",
};
static const char *const forms[BN_NFORM] = {
    [BN_FORM_RENAME] = "rename",
    [BN_FORM_CONCAT] = "concat",
    [BN_FORM_GROUPED] = "grouped",
    [BN_FORM_NEIGHBOURS] = "neighbours",
};

static const char *const scales[BN_NSCALE] = {
    [BN_SCALE_TENSOR] = "tensor",
    [BN_SCALE_ROW] = "row",
    [BN_SCALE_BLOCK] = "block",
};
static const char *const fp8[] = {"F8_E4M3", "F8_E5M2"};

enum { MAX_FILE = 1 << 20, MAX_BASES = 4 };

const char *bn_reader_name(enum bn_reader r)
{
    return readers[r];
}

struct in {
    struct bn_layout *l;
    yaml_document_t doc;
    int depth; /* of 'base' */
    struct bn_err *err;
};

static int load(struct bn_layout *l, const char *path, int depth,
                struct bn_err *err);

static int fail(const struct in *in, const yaml_node_t *n, const char *what,
                const char *word)
{
    return bn_fail(in->err, BN_ERR_DATA, "%s:%zu: %s%s%s%s", in->l->path,
                   n->start_mark.line + 1, what, *word ? " '" : "", word,
                   *word ? "'" : "");
}

static yaml_node_t *node(struct in *in, int index)
{
    return yaml_document_get_node(&in->doc, index);
}

/* NULL with the error filled unless it is a scalar without NUL. */
static const char *text(const struct in *in, const yaml_node_t *n)
{
    const char *s = (const char *)n->data.scalar.value;

    if (n->type == YAML_SCALAR_NODE && strlen(s) == n->data.scalar.length)
        return s;
    fail(in, n, "must be text", "");
    return NULL;
}

static int one_of(const struct in *in, const yaml_node_t *n,
                  const char *const *names, int count)
{
    const char *s = text(in, n);

    for (int i = 0; s != NULL && i < count; i++)
        if (strcmp(s, names[i]) == 0)
            return i;
    if (s != NULL) {
        const char *near = bn_str_nearest(s, names, (size_t)count);

        fail(in, n, near != NULL ? "unknown name (near a known one)"
                                 : "unknown name", s);
    }
    return -1;
}

/* Call f for each key of a mapping; a key that is twice there is an error. */
static int each_key(struct in *in, const yaml_node_t *n,
                    int (*f)(struct in *, const char *, yaml_node_t *,
                             const yaml_node_t *, void *),
                    void *arg)
{
    if (n->type != YAML_MAPPING_NODE)
        return fail(in, n, "must be a mapping of keys", "");
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start;
         p < n->data.mapping.pairs.top; p++) {
        yaml_node_t *k = node(in, p->key);
        const char *key = text(in, k);

        if (key == NULL)
            return -1;
        for (yaml_node_pair_t *q = n->data.mapping.pairs.start; q < p; q++)
            if (strcmp(key, (char *)node(in, q->key)->data.scalar.value) == 0)
                return fail(in, k, "key is twice there:", key);
        if (f(in, key, node(in, p->value), k, arg) < 0)
            return -1;
    }
    return 0;
}

static int set_text(const struct in *in, char **out, const yaml_node_t *n)
{
    const char *s = text(in, n);

    if (s == NULL)
        return -1;
    *out = bn_strdup(s);
    return 0;
}

static int set_targets(struct in *in, struct bn_layout_rule *r,
                       yaml_node_t *n)
{
    if (n->type == YAML_SCALAR_NODE)
        return set_text(in, &r->to[r->n_to++], n);
    if (n->type != YAML_SEQUENCE_NODE)
        return fail(in, n, "must be a name or a list of names", "");
    for (yaml_node_item_t *i = n->data.sequence.items.start;
         i < n->data.sequence.items.top; i++) {
        if (r->n_to == BN_MAX_PARTS)
            return fail(in, n, "more than 8 targets", "");
        if (set_text(in, &r->to[r->n_to], node(in, *i)) < 0)
            return -1;
        r->n_to++;
    }
    return 0;
}

static int rule_key(struct in *in, const char *key, yaml_node_t *v,
                    const yaml_node_t *k, void *arg)
{
    struct bn_layout_rule *r = arg;
    static const char *const bools[] = {"false", "true"};
    int i;

    if (strcmp(key, "from") == 0)
        return set_text(in, &r->from, v);
    if (strcmp(key, "to") == 0)
        return set_targets(in, r, v);
    if (strcmp(key, "form") == 0) {
        i = one_of(in, v, forms, BN_NFORM);
        r->form = (enum bn_layout_form)(i < 0 ? 0 : i);
        return i < 0 ? -1 : 0;
    }
    if (strcmp(key, "padded") == 0) {
        i = one_of(in, v, bools, 2);
        r->padded = i == 1;
        return i < 0 ? -1 : 0;
    }
    return fail(in, k, "unknown key", key);
}

static int add_rule(struct in *in, yaml_node_t *n)
{
    struct bn_layout *l = in->l;
    struct bn_layout_rule *r = &l->rule[l->n_rule++];
    bool many;

    r->line = (int)n->start_mark.line + 1;
    if (each_key(in, n, rule_key, r) < 0)
        return -1;
    if (r->from == NULL || r->n_to == 0)
        return fail(in, n, "a rule needs 'from' and 'to'", "");
    many = r->form == BN_FORM_CONCAT || r->form == BN_FORM_GROUPED;
    if (!many && r->n_to > 1)
        return fail(in, n, "several targets need the form concat or grouped",
                    "");
    for (int i = 0; i < r->n_to; i++)
        if ((strstr(r->from, "{L}") == NULL)
            != (strstr(r->to[i], "{L}") == NULL))
            return fail(in, n, "{L} must be on both sides or on none", "");
    return 0;
}

/* The items of a list, 'f' for each. */
static int each_item(struct in *in, yaml_node_t *n,
                     int (*f)(struct in *, yaml_node_t *))
{
    for (yaml_node_item_t *i = n->data.sequence.items.start;
         i < n->data.sequence.items.top; i++)
        if (f(in, node(in, *i)) < 0)
            return -1;
    return 0;
}

static int add_family(struct in *in, yaml_node_t *n)
{
    const char *names[BN_NFAMILY];
    int i;

    for (int f = 0; f < BN_NFAMILY; f++)
        names[f] = bn_family_name((enum bn_family)f);
    i = one_of(in, n, names, BN_NFAMILY);
    if (i >= 0)
        in->l->families |= 1u << i;
    return i < 0 ? -1 : 0;
}

static int add_skip(struct in *in, yaml_node_t *n)
{
    return set_text(in, &in->l->skip[in->l->n_skip++], n);
}

static int add_zero(struct in *in, yaml_node_t *n)
{
    return set_text(in, &in->l->zero[in->l->n_zero++], n);
}

/* Begin with the rules of another layout. */
static int set_base(struct in *in, const yaml_node_t *k, yaml_node_t *v)
{
    struct bn_layout *l = in->l;
    const char *name = text(in, v);

    if (name == NULL)
        return -1;
    if (l->n_rule > 0 || l->n_skip > 0 || l->n_zero > 0 || l->families != 0
        || l->prefix != NULL || l->scale_suffix != NULL
        || strchr(name, '/') != NULL)
        return fail(in, k, "comes first, and names a layout of this folder:",
                    "base");
    if (in->depth == MAX_BASES)
        return fail(in, k, "more than 4 layouts one on the other:", "base");
    char *path = l->path, *dir = bn_path_dir(path);
    char *other = bn_asprintf("%s/%s.yaml", dir, name);
    int rc = load(l, other, in->depth + 1, in->err);

    if (rc == 0)
        free(l->path);
    l->path = path;
    free(other);
    free(dir);
    return rc;
}

static int set_block(struct in *in, const yaml_node_t *v)
{
    const char *s = text(in, v);
    char *end;
    long n = s != NULL ? strtol(s, &end, 10) : 0;

    if (s == NULL)
        return -1;
    if (*s == '\0' || *end != '\0' || n < 1 || n > 1 << 20)
        return fail(in, v, "must be a number from 1:", s);
    in->l->scale_block = (int)n;
    return 0;
}

/* Keys with one value. 1: not one of them. */
static int plain_key(struct in *in, const char *key, yaml_node_t *v)
{
    struct bn_layout *l = in->l;
    int i;

    if (strcmp(key, "scale_suffix") == 0)
        return set_text(in, &l->scale_suffix, v);
    if (strcmp(key, "scale_block") == 0)
        return set_block(in, v);
    if (strcmp(key, "scale_of") == 0) {
        i = one_of(in, v, scales, BN_NSCALE);
        l->scale_of = (enum bn_scale_of)(i < 0 ? 0 : i);
        return i < 0 ? -1 : 0;
    }
    if (strcmp(key, "fp8_bytes") == 0) {
        i = one_of(in, v, fp8, 2);
        l->fp8_bytes = i == 0 ? BN_F8_E4M3 : BN_F8_E5M2;
        return i < 0 ? -1 : 0;
    }
    return 1;
}

/* Room for n more; what is there stays. */
static void *more(void *p, size_t have, size_t n, size_t size)
{
    char *q = bn_realloc(p, have + n + 1, size);

    memset(q + have * size, 0, (n + 1) * size);
    return q;
}

static int top_key(struct in *in, const char *key, yaml_node_t *v,
                   const yaml_node_t *k, void *arg)
{
    struct bn_layout *l = in->l;
    bool rules = strcmp(key, "rules") == 0;
    bool families = strcmp(key, "families") == 0;
    bool *has_reader = arg;

    if (strcmp(key, "reader") == 0) {
        int i = one_of(in, v, readers, BN_NREADER);

        *has_reader = true;
        l->reader = (enum bn_reader)(i < 0 ? 0 : i);
        return i < 0 ? -1 : 0;
    }
    if (strcmp(key, "base") == 0) {
        *has_reader = true;
        return set_base(in, k, v);
    }
    if (strcmp(key, "prefix") == 0) {
        free(l->prefix);
        l->prefix = NULL;
        return set_text(in, &l->prefix, v);
    }
    int rc = plain_key(in, key, v);
    if (rc <= 0)
        return rc;
    bool zero = strcmp(key, "zero_centered") == 0;
    if (!rules && !families && !zero && strcmp(key, "skip") != 0)
        return fail(in, k, "unknown key", key);
    if (v->type != YAML_SEQUENCE_NODE)
        return fail(in, v, "must be a list", "");
    size_t n = (size_t)(v->data.sequence.items.top
                        - v->data.sequence.items.start);
    if (rules) {
        l->rule = more(l->rule, l->n_rule, n, sizeof(*l->rule));
        return each_item(in, v, add_rule);
    }
    if (families)
        return each_item(in, v, add_family);
    if (zero) {
        l->zero = more(l->zero, l->n_zero, n, sizeof(*l->zero));
        return each_item(in, v, add_zero);
    }
    l->skip = more(l->skip, l->n_skip, n, sizeof(*l->skip));
    return each_item(in, v, add_skip);
}

static int parse(struct in *in)
{
    yaml_node_t *root = yaml_document_get_root_node(&in->doc);
    bool has_reader = false;

    if (root == NULL)
        return bn_fail(in->err, BN_ERR_DATA, "%s: is empty", in->l->path);
    if (each_key(in, root, top_key, &has_reader) < 0)
        return -1;
    if (!has_reader || in->l->n_rule == 0)
        return fail(in, root, "a layout needs 'reader' and 'rules'", "");
    if (in->l->scale_of == BN_SCALE_BLOCK && in->l->scale_block == 0)
        return fail(in, root, "scale_of: block needs 'scale_block'", "");
    return 0;
}

static int load(struct bn_layout *l, const char *path, int depth,
                struct bn_err *err)
{
    struct bn_layout got = {.path = bn_strdup(path), .fp8_bytes = -1};
    struct in in = {.l = &got, .depth = depth, .err = err};
    yaml_parser_t parser;
    size_t len;
    char *s = bn_file_read(path, MAX_FILE, &len, err);
    int rc = -1;

    if (s == NULL) {
        free(got.path);
        return -1;
    }
    yaml_parser_initialize(&parser);
    yaml_parser_set_input_string(&parser, (unsigned char *)s, len);
    if (!yaml_parser_load(&parser, &in.doc)) {
        bn_fail(err, BN_ERR_DATA, "%s:%zu: invalid YAML: %s", path,
                parser.problem_mark.line + 1,
                parser.problem != NULL ? parser.problem : "cannot be read");
    } else {
        rc = parse(&in);
        yaml_document_delete(&in.doc);
    }
    yaml_parser_delete(&parser);
    free(s);
    if (rc < 0)
        bn_layout_release(&got);
    else
        *l = got;
    return rc;
}

int bn_layout_load(struct bn_layout *l, const char *path, struct bn_err *err)
{
    return load(l, path, 0, err);
}

void bn_layout_release(struct bn_layout *l)
{
    for (size_t i = 0; i < l->n_rule; i++) {
        free(l->rule[i].from);
        for (int k = 0; k < BN_MAX_PARTS; k++)
            free(l->rule[i].to[k]);
    }
    for (size_t i = 0; i < l->n_skip; i++)
        free(l->skip[i]);
    for (size_t i = 0; i < l->n_zero; i++)
        free(l->zero[i]);
    free(l->zero);
    free(l->scale_suffix);
    free(l->rule);
    free(l->skip);
    free(l->prefix);
    free(l->path);
    *l = (struct bn_layout){0};
}

int bn_layout_open(const struct bn_layout *l, struct bn_tensors *ts,
                   const char *path, struct bn_err *err)
{
    switch (l->reader) {
    case BN_READ_TORCH:
        return bn_torch_open(ts, path, err);
    case BN_READ_GGUF:
        return bn_gguf_open(ts, path, err);
    case BN_READ_LLAMA2C:
        return bn_llama2c_open(ts, path, err);
    default:
        return bn_safetensors_open(ts, path, err);
    }
}
