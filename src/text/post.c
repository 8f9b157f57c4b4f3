/* The "post_processor" of a tokenizer.json: ids before and after a text. */
#include "config.h"
#include "base/json.h"
#include "base/mem.h"
#include "text/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

static int parse(struct bn_tokenizer *t, const json_t *spec, int depth,
                 struct bn_err *err);

static void add_id(struct bn_ids *ids, int32_t id)
{
    bn_grow(&ids->v, &ids->cap, ids->n + 1, sizeof(int32_t));
    ids->v[ids->n++] = id;
}

/* Put 'ids' before what is there. */
static void add_before(struct bn_ids *to, const struct bn_ids *ids)
{
    bn_grow(&to->v, &to->cap, to->n + ids->n, sizeof(int32_t));
    if (ids->n == 0)
        return;
    memmove(to->v + ids->n, to->v, to->n * sizeof(int32_t));
    memcpy(to->v, ids->v, ids->n * sizeof(int32_t));
    to->n += ids->n;
}

static int check_id(const struct bn_tokenizer *t, const json_t *v,
                    int32_t *id, struct bn_err *err)
{
    int64_t n = json_is_integer(v) ? json_integer_value(v) : -1;

    if (n < 0 || n >= t->nid)
        return bn_fail(err, BN_ERR_DATA, "%s: post_processor: an id must be "
                       "an integer from 0 to %d", t->path, t->nid - 1);
    *id = (int32_t)n;
    return 0;
}

/* The ids of a special token of a template. */
static int template_ids(const struct bn_tokenizer *t, const json_t *spec,
                        const json_t *piece, struct bn_ids *out,
                        struct bn_err *err)
{
    const char *name = json_string_value(json_object_get(piece, "id"));
    json_t *known = json_object_get(spec, "special_tokens");
    json_t *ids = name == NULL
                      ? NULL
                      : json_object_get(json_object_get(known, name), "ids");
    json_t *v;
    size_t i;

    if (!json_is_array(ids))
        return bn_fail(err, BN_ERR_DATA, "%s: post_processor "
                       "TemplateProcessing: special token '%.40s' has no ids",
                       t->path, name != NULL ? name : "?");
    json_array_foreach (ids, i, v) {
        int32_t id;

        if (check_id(t, v, &id, err) < 0)
            return -1;
        add_id(out, id);
    }
    return 0;
}

static int parse_template(struct bn_tokenizer *t, const json_t *spec,
                          struct bn_err *err)
{
    json_t *single = json_object_get(spec, "single"), *piece;
    struct bn_ids side[2] = {0};
    int texts = 0, rc = 0;
    size_t i;

    json_array_foreach (single, i, piece) {
        json_t *special = json_object_get(piece, "SpecialToken");
        json_t *text = json_object_get(piece, "Sequence");
        const char *id = json_string_value(json_object_get(text, "id"));

        if (special != NULL)
            rc = template_ids(t, spec, special, &side[texts > 0], err);
        else if (id != NULL && strcmp(id, "A") == 0)
            texts++;
        else
            rc = -2;
        if (rc < 0)
            break;
    }
    if (rc != -1 && (rc == -2 || !json_is_array(single) || texts != 1))
        rc = bn_fail(err, BN_ERR_DATA, "%s: post_processor "
                     "TemplateProcessing: 'single' must be special tokens "
                     "around one sequence A", t->path);
    if (rc == 0) {
        add_before(&t->before, &side[0]);
        for (i = 0; i < side[1].n; i++)
            add_id(&t->after, side[1].v[i]);
    }
    bn_ids_release(&side[0]);
    bn_ids_release(&side[1]);
    return rc;
}

/* BertProcessing and RobertaProcessing: ["text", id] of cls and sep. */
static int parse_pair(struct bn_tokenizer *t, const json_t *spec,
                      struct bn_err *err)
{
    struct bn_ids one = {0};
    int32_t cls, sep;

    if (check_id(t, json_array_get(json_object_get(spec, "cls"), 1), &cls,
                 err) < 0
        || check_id(t, json_array_get(json_object_get(spec, "sep"), 1), &sep,
                    err) < 0)
        return -1;
    add_id(&one, cls);
    add_before(&t->before, &one);
    add_id(&t->after, sep);
    bn_ids_release(&one);
    return 0;
}

static int parse(struct bn_tokenizer *t, const json_t *spec, int depth,
                 struct bn_err *err)
{
    const char *type = json_string_value(json_object_get(spec, "type"));
    json_t *list, *v;
    size_t i;

    if (spec == NULL || json_is_null(spec))
        return 0;
    if (type == NULL || depth > 16)
        return bn_fail(err, BN_ERR_DATA, "%s: post_processor %s", t->path,
                       type == NULL ? "has no 'type'" : "is nested too deep");
    if (strcmp(type, "ByteLevel") == 0)
        return 0; /* changes offsets alone */
    if (strcmp(type, "TemplateProcessing") == 0)
        return parse_template(t, spec, err);
    if (strcmp(type, "RobertaProcessing") == 0
        || strcmp(type, "BertProcessing") == 0)
        return parse_pair(t, spec, err);
    if (strcmp(type, "Sequence") != 0)
        return bn_fail(err, BN_ERR_DATA, "%s: post_processor '%.40s' is not "
                       "supported", t->path, type);
    list = json_object_get(spec, "processors");
    if (!json_is_array(list))
        return bn_fail(err, BN_ERR_DATA, "%s: post_processor Sequence needs "
                       "an array 'processors'", t->path);
    json_array_foreach (list, i, v)
        if (parse(t, v, depth + 1, err) < 0)
            return -1;
    return 0;
}

int bn_post_init(struct bn_tokenizer *t, const json_t *spec,
                 struct bn_err *err)
{
    return parse(t, spec, 0, err);
}
