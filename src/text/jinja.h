/* The template engine's inside: values, syntax tree, render state. Private
 * to src/text; chat.h is what others see.
 *
 * A template is lexed and parsed once into a tree that is never written
 * again. A render owns an arena (freed whole at its end) and walks the tree.
 * Values are small structs passed by value; strings are byte ranges of UTF-8
 * that live in the tree, in the caller's JSON or in the arena, and JSON is
 * wrapped where it lies, never copied. As in the sandbox of transformers,
 * no value can change once made, namespaces excepted.
 *
 * Functions return 0 or -1 with the error in x->err, at "name:line:column".
 */
#ifndef BN_TEXT_JINJA_H
#define BN_TEXT_JINJA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "text/chat.h"

/* Limits that turn a runaway template into an error. */
enum {
    JX_MAX_SOURCE = 4 << 20,  /* bytes of a template */
    JX_MAX_PARSE = 200,       /* blocks, brackets and the like, one in one */
    JX_MAX_NODE = 500,        /* height of an expression's tree */
    JX_MAX_CALLS = 100,       /* macros running at once */
    JX_MAX_NEST = 3000,       /* nodes being walked at once */
    JX_MAX_VALUE = 1000,      /* lists within lists, when walked */
    JX_MAX_RANGE = 100000,    /* as in Jinja's sandbox */
    JX_MAX_STEPS = 20000000,  /* nodes visited and elements touched */
    JX_MAX_OUTPUT = 4 << 20,  /* bytes, plus 16 for each byte of input */
    JX_MAX_MEMORY = 256 << 20 /* bytes, plus 64 for each byte of input */
};

struct jx;
struct jnode;

/* ---- memory (jinja_mem.c) ---- */

struct jarena {
    struct jblock *top;
    size_t total; /* bytes of all blocks */
};
/* 'n' bytes aligned to 16, not zeroed; never NULL. */
void *jarena_get(struct jarena *a, size_t n);
/* Grow the newest piece 'p' from 'old' to 'n' bytes in place if it can be. */
bool jarena_extend(struct jarena *a, void *p, size_t old, size_t n);
char *jarena_strndup(struct jarena *a, const char *s, size_t n);
void jarena_release(struct jarena *a);

/* ---- names: equal text, equal address ---- */

enum jwell { /* names that mean something outside of the template */
    JW_NONE, JW_MESSAGES, JW_TOOLS, JW_DOCUMENTS, JW_ADD_GENERATION_PROMPT,
    JW_BOS, JW_EOS, JW_PAD, JW_UNK, JW_RANGE, JW_DICT, JW_NAMESPACE,
    JW_RAISE, JW_STRFTIME, JW_UNSUPPORTED, JW_LOOP, JW_CALLER, JW_VARARGS,
    JW_KWARGS
};
struct jname {
    const char *s;
    size_t n;
    enum jwell well;
    size_t id; /* from 0 */
    struct jname *next;
};

/* ---- values ---- */

enum jkind {
    JV_ABSENT, /* an argument that was not given; no template sees it */
    JV_UNDEF,
    JV_NONE,
    JV_BOOL,
    JV_INT,
    JV_FLOAT,
    JV_STR,
    JV_LIST,
    JV_TUPLE,
    JV_DICT,
    JV_VIEW,  /* keys(), values(), items() of a dict */
    JV_RANGE,
    JV_ITER,  /* Python's generators: walked once, made at once */
    JV_NS,
    JV_MACRO,
    JV_LOOP,
    JV_METHOD,
    JV_FUNC
};
enum {
    JF_JSON = 1,   /* a list or dict that is the caller's JSON */
    JF_MARKUP = 2, /* a string that was escaped */
    JF_PLAIN = 4   /* an attribute's name that no method has */
};
enum { JVIEW_KEYS, JVIEW_VALUES, JVIEW_ITEMS };
enum { JU_NAME, JU_ATTR, JU_ITEM, JU_UNSAFE, JU_TEXT }; /* aux of JV_UNDEF */

struct jv {
    uint8_t kind, flag, aux, owner; /* owner: JV_UNDEF of an attribute of */
    size_t n; /* bytes of a string, elements of a sequence or dict */
    union {
        bool b;
        int64_t i;
        double f;
        const char *s;
        const json_t *j;
        const struct jv *v;
        struct jdict *d;
        const struct jrange *r;
        struct jiter *it;
        const struct jmacro *m;
        struct jloop *loop;
    } u;
};

struct jdict { /* insertion order; also what a namespace holds */
    size_t n, cap;
    struct jv *key, *val;
};
struct jrange {
    int64_t start, stop, step;
};
struct jiter {
    struct jv src; /* JV_LIST in memory */
    size_t at;
};

/* The variables of one scope. */
struct jbind {
    const struct jname *name;
    struct jv v;
};
struct jframe {
    struct jframe *up;
    struct jbind *b;
    size_t n, cap;
};
struct jmacro {
    const struct jnode *node;
    struct jframe *home; /* where it was defined */
    bool is_caller;
};

struct jargs { /* of a call; keyword names are strings */
    const struct jv *pos, *kwname, *kwval;
    size_t npos, nkw;
};

/* Elements one after another, of anything that can be iterated. */
struct jcursor {
    struct jv v;
    size_t i;
    void *it; /* jansson's iterator */
    uint8_t view;
};

/* ---- tokens (jinja_lex.c) ---- */

enum jtok_type {
    JT_EOF, JT_DATA, JT_BLOCK_BEGIN, JT_BLOCK_END, JT_VAR_BEGIN, JT_VAR_END,
    JT_NAME, JT_STRING, JT_INT, JT_FLOAT, JT_OP
};
enum jop { /* operators and, for nodes, the named ones too */
    JO_ADD, JO_SUB, JO_MUL, JO_DIV, JO_FLOORDIV, JO_MOD, JO_POW, JO_TILDE,
    JO_EQ, JO_NE, JO_LT, JO_LE, JO_GT, JO_GE, JO_ASSIGN, JO_DOT, JO_COMMA,
    JO_COLON, JO_SEMICOLON, JO_PIPE, JO_LPAREN, JO_RPAREN, JO_LBRACKET,
    JO_RBRACKET, JO_LBRACE, JO_RBRACE, JO_IN, JO_NOTIN
};
struct jtok {
    enum jtok_type type;
    enum jop op;
    uint32_t at; /* offset in the source */
    const char *s; /* text of data, name, string */
    size_t n;
    int64_t i;
    double f;
};

/* ---- syntax tree (jinja_parse.c, jinja_expr.c) ---- */

enum jnode_kind {
    /* statements */
    JN_DATA, JN_PRINT, JN_FOR, JN_IF, JN_SET, JN_SETBLOCK, JN_MACRO,
    JN_CALLBLOCK, JN_FILTERBLOCK, JN_WITH, JN_BREAK, JN_CONTINUE,
    JN_GENERATION,
    /* expressions */
    JN_CONST, JN_NAME, JN_NSREF, JN_LIST, JN_TUPLE, JN_DICT, JN_ATTR,
    JN_ITEM, JN_SLICE, JN_CALL, JN_FILTER, JN_TEST, JN_NOT, JN_NEG, JN_POS,
    JN_AND, JN_OR, JN_COND, JN_COMPARE, JN_BINARY, JN_CONCAT
};

struct jcall { /* what stands in parentheses after a callee, filter, test */
    struct jnode **arg;
    size_t n;
    const struct jname **kwname;
    struct jnode **kwval;
    size_t nkw;
    struct jnode *star, *starstar;
};

struct jnode {
    uint8_t kind, op;
    uint16_t height;
    uint32_t at;
    struct jnode *next;  /* the statement after this one */
    struct jnode *a, *b, *c;
    /* for: a target, b iterable, c test, body, orelse. if: a test, body,
     * orelse. set: a target, b value (filters of a block set). */
    struct jnode *body, *orelse;
    const struct jname *name;
    struct jnode **list; /* elements; dict: key, value, key, value */
    uint8_t *ops;        /* compare: n-1 of them between list's n */
    size_t n;
    const struct jcall *call;
    const struct jfilter *filter;
    const struct jtest *test;
    struct jv value;     /* JN_CONST, JN_DATA */
    bool uses_caller, uses_varargs, uses_kwargs; /* macro */
    bool recursive;
    struct jhidden *hidden, *hidden_else; /* of the scopes of its blocks */
};
/* Names that a scope starts with as undefined (jinja_scope.c). */
struct jhidden {
    const struct jname *name;
    struct jhidden *next;
};

struct bn_chat {
    struct jarena mem;
    char *name;
    char *src;    /* line ends are \n */
    size_t len;
    struct jname *names[64];
    size_t nname;
    const struct jname *loop, *caller, *varargs, *kwargs;
    struct jnode *body;
    struct jhidden *hidden; /* of the outermost scope */
    bool uses_clock, marks_generation;
};

/* ---- render state ---- */

struct jx {
    const struct bn_chat *c;
    struct jarena mem;
    struct bn_err *err;
    const struct jnode *at; /* where an error is */
    struct jframe *frame;
    const struct bn_chat_args *args;
    size_t nmessages;
    bool generation_prompt;
    struct bn_str *out;
    size_t base; /* length of 'out' before this render */
    int capture; /* > 0: output is being taken as a value */
    bool in_generation;
    struct bn_span *span;
    size_t nspan, spancap;
    int calls, depth, nest;
    uint64_t steps;
    size_t input; /* bytes of the caller's strings, once counted */
    bool counted;
};

int jx_fail(struct jx *x, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* chat.c: bn_chat_render of the first 'n' messages. */
int jx_render(const struct bn_chat *c, const struct bn_chat_args *args,
              size_t n, bool prompt, struct bn_str *out,
              struct bn_span **spans, size_t *nspans, struct bn_err *err);
/* "name:line:column: " and the text, for an offset of the source. */
int jx_fail_at(const struct bn_chat *c, uint32_t at, struct bn_err *err,
               const char *fmt, va_list ap);
/* Count 'n' steps of work. */
int jx_work(struct jx *x, size_t n);
/* Count the work of going through 'bytes' bytes. */
int jx_scan(struct jx *x, size_t bytes);
/* Room for 'n' elements: NULL with an error past the memory limit. */
void *jx_array(struct jx *x, size_t n, size_t size);
/* Error once the arena has outgrown its limit by 'more'. */
int jx_room(struct jx *x, size_t more);
int jx_emit(struct jx *x, const char *s, size_t n);

/* A string that grows in the arena. Errors stick: jb_end reports them. */
struct jb {
    struct jx *x;
    char *s;
    size_t n, cap;
    bool failed;
};
void jb_begin(struct jb *b, struct jx *x, size_t guess);
void jb_add(struct jb *b, const char *s, size_t n);
void jb_adds(struct jb *b, const char *s);
void jb_pad(struct jb *b, char c, size_t n);
void jb_cp(struct jb *b, uint32_t cp);
void jb_addf(struct jb *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int jb_end(struct jb *b, struct jv *out);

/* ---- lexing and parsing ---- */

/* Tokens into c->mem; the last is JT_EOF. */
int jlex(struct bn_chat *c, struct jtok **tok, size_t *n, struct bn_err *err);
const struct jname *jintern(struct bn_chat *c, const char *s, size_t n);

/* Parse c->src into c->body. */
int jparse(struct bn_chat *c, struct bn_err *err);
/* jinja_scope.c: find what the scopes of a parsed template hide. */
void jscope(struct bn_chat *c);

/* ---- values: making and asking (jinja_value.c) ---- */

struct jv jv_str(const char *s, size_t n);
struct jv jv_cstr(const char *s);
/* Bytes [from, to) of a string, escaped if that is. */
struct jv jv_sub(struct jv v, size_t from, size_t to);
struct jv jv_int(int64_t i);
struct jv jv_float(double f);
struct jv jv_bool(bool b);
struct jv jv_none(void);
struct jv jv_seq(enum jkind kind, const struct jv *v, size_t n);
struct jv jv_json(const json_t *j);
struct jv jv_undef(const char *name, size_t n);
struct jv jv_undef_text(const char *text);
struct jv jx_iter_of(struct jx *x, const struct jv *v, size_t n);
const char *jv_type(struct jv v); /* Python's name of the type */
bool jv_given(struct jv v);       /* neither absent nor None */
bool jv_is_num(struct jv v);      /* bool, int, float */
bool jv_is_int(struct jv v);      /* bool, int */
double jv_num(struct jv v);
int64_t jv_integer(struct jv v);
bool jv_same_str(struct jv v, const char *s);
int jx_truth(struct jx *x, struct jv v, bool *out);
/* The error of using an undefined value. */
int jx_undef_fail(struct jx *x, struct jv v);
/* Python's len(); -1 with an error for what has none. */
int jx_len(struct jx *x, struct jv v, size_t *n);
struct jv jv_at(struct jv seq, size_t i); /* list, tuple, range */
int jx_cursor(struct jx *x, struct jv v, struct jcursor *c);
bool jx_next(struct jx *x, struct jcursor *c, struct jv *out);
/* Everything that is left, in memory. */
int jx_collect(struct jx *x, struct jv v, struct jv **out, size_t *n);
int jx_dict_get(struct jx *x, struct jv d, struct jv key, struct jv *out,
                bool *found);
int jx_dict_set(struct jx *x, struct jdict *d, struct jv key, struct jv v);

/* ---- comparing and printing (jinja_print.c) ---- */

int jx_equal(struct jx *x, struct jv a, struct jv b, bool *out);
int jx_less(struct jx *x, struct jv a, struct jv b, const char *op, int *cmp);
int jx_str(struct jx *x, struct jv v, struct jv *out);    /* str(v) */
int jx_repr(struct jx *x, struct jb *b, struct jv v);
void jb_float(struct jb *b, double f);
int jx_tojson(struct jx *x, struct jv v, const struct jargs *a,
              struct jv *out);

/* ---- operators (jinja_ops.c) ---- */

int jx_binary(struct jx *x, enum jop op, struct jv a, struct jv b,
              struct jv *out);
int jx_compare(struct jx *x, enum jop op, struct jv a, struct jv b, bool *out);
int jx_contains(struct jx *x, struct jv in, struct jv v, bool *out);
int jx_getattr(struct jx *x, struct jv v, struct jv name, struct jv *out);
int jx_getitem(struct jx *x, struct jv v, struct jv key, struct jv *out);
int jx_slice(struct jx *x, struct jv v, const struct jv part[3],
             struct jv *out);
/* Markup: str(v) with the five characters of HTML escaped. */
int jx_escape(struct jx *x, struct jv v, struct jv *out);
int jx_negate(struct jx *x, struct jv v, struct jv *out);
int jx_percent(struct jx *x, struct jv fmt, struct jv arg, struct jv *out);
int jx_format(struct jx *x, struct jv fmt, const struct jargs *a,
              struct jv *out);

/* ---- strings (jinja_unicode.c) ---- */

/* Decode; what is not UTF-8 counts as one byte. n > 0. */
size_t ju_get(const char *s, size_t n, uint32_t *cp);
size_t ju_len(struct jv s);                    /* in characters */
size_t ju_offset(struct jv s, size_t chars);   /* bytes of so many */
bool ju_space(uint32_t cp);
bool ju_printable(uint32_t cp);
enum { JU_UPPER, JU_LOWER, JU_TITLE, JU_CAPITALIZE, JU_SWAP };
int jx_case(struct jx *x, struct jv s, int how, struct jv *out);
/* All cased characters are of that case and there is one. */
bool ju_is_upper(struct jv s);
bool ju_is_lower(struct jv s);
bool ju_alpha(uint32_t cp);
bool ju_decimal(uint32_t cp);
enum { JU_LEFT = 1, JU_RIGHT = 2, JU_BOTH = 3 };
/* The length of the first line of 's' without its end; '*end' gets the
 * length of that (0 at the end of the text). As str.splitlines. */
size_t ju_line(struct jv s, size_t *end);
/* int(s, base) and float(s); false if the text is no such number. A value
 * over 64 bits is an error. */
int jx_parse_int(struct jx *x, struct jv s, int base, int64_t *out,
                 bool *ok);
bool ju_parse_float(struct jv s, double *out);
struct jv ju_strip(struct jv s, int sides, const struct jv *chars);

/* ---- calls ---- */

/* Sort a call's arguments into v[0..] by 'params' ("old,new,count"); what
 * is not given is JV_ABSENT. 'min' of them are needed. 'what' is for
 * messages. */
int jx_bind(struct jx *x, const char *what, const struct jargs *a,
            const char *params, size_t min, struct jv *v);
int jx_want_int(struct jx *x, struct jv v, const char *what, int64_t *out);

int jx_want_str(struct jx *x, struct jv v, const char *what);

/* Filters, and methods: of the value 'v'. */
typedef int jfilter_f(struct jx *x, struct jv v, const struct jargs *a,
                      struct jv *out);
struct jfilter {
    const char *name;
    jfilter_f *f;
};
typedef int jtest_f(struct jx *x, struct jv v, const struct jargs *a,
                    bool *out);
struct jtest {
    const char *name;
    jtest_f *f;
};
const struct jfilter *jfilter_find(const char *s, size_t n);
const struct jfilter *jfilter_seq_find(const char *s, size_t n);
/* str.replace; count < 0: all. str.join. */
int jx_replace(struct jx *x, struct jv s, struct jv from, struct jv to,
               int64_t count, struct jv *out);
int jx_join(struct jx *x, struct jv sep, struct jv seq, bool convert,
            struct jv *out);
int jx_center(struct jx *x, struct jv s, int64_t width, struct jv fill,
              int side, struct jv *out);
const struct jtest *jtest_find(const char *s, size_t n);

/* Whether any type has a method of that name, or Python hides it. */
bool jmethod_exists(struct jv name);
/* item.a.0.b for attribute "a.0.b"; the item itself for none. 'otherwise',
 * if given, stands in for what is undefined on the way. */
int jx_attribute(struct jx *x, struct jv item, struct jv attr,
                 struct jv otherwise, struct jv *out);
/* Filters of jinja_sort.c. */
jfilter_f jf_sort, jf_dictsort, jf_unique, jf_min, jf_max;
/* Methods of jinja_search.c. */
jfilter_f jm_split, jm_rsplit, jm_splitlines, jm_partition, jm_rpartition,
    jm_find, jm_rfind, jm_rindex, jm_index, jm_count, jm_replace, jm_join;
/* The method 'name' of a value of v's type as JV_METHOD; found says if the
 * type has it. unsafe: it would change the value. */
int jx_method(struct jx *x, struct jv v, struct jv name, struct jv *out,
              bool *found);
int jx_call_method(struct jx *x, struct jv m, const struct jargs *a,
                   struct jv *out);
int jx_call_func(struct jx *x, struct jv f, const struct jargs *a,
                 struct jv *out);

/* ---- evaluation ---- */

struct jloop {
    struct jx *x;
    struct jcursor cur;
    const struct jnode *node;
    struct jframe *test_frame; /* of the loop's filter; NULL: none */
    int64_t index0, length; /* length: -1 not known yet */
    struct jv before, now, after; /* JV_ABSENT: none */
    struct jv changed;
};
enum { JLOOP_CYCLE = 200, JLOOP_CHANGED }; /* aux of JV_FUNC with u.loop */
/* The next element in 'now'; false at the end. -1 on error. */
int jloop_next(struct jx *x, struct jloop *l, bool *more);
int jx_args(struct jx *x, const struct jcall *c, struct jargs *out);
int jx_assign(struct jx *x, struct jframe *f, const struct jnode *target,
              struct jv v);
int jx_eval(struct jx *x, const struct jnode *n, struct jv *out);
int jx_call(struct jx *x, struct jv f, const struct jargs *a, struct jv *out);
enum { JFLOW_ON, JFLOW_BREAK, JFLOW_CONTINUE };
int jx_run(struct jx *x, const struct jnode *body, int *flow);
int jx_macro(struct jx *x, const struct jmacro *m, const struct jargs *a,
             struct jv *out);
/* The filters of a block (innermost NULL) applied to 'v'. */
int jx_apply(struct jx *x, const struct jnode *filters, struct jv v,
             struct jv *out);
int jx_loop_attr(struct jx *x, struct jloop *l, struct jv name,
                 struct jv *out, bool *found);
struct jframe *jx_push(struct jx *x, struct jframe *up);
/* Bind what a scope starts with as undefined. */
void jx_hide(struct jx *x, struct jframe *f, const struct jhidden *h);
void jx_bind_name(struct jx *x, struct jframe *f, const struct jname *name,
                  struct jv v);
int jx_lookup(struct jx *x, const struct jname *name, struct jv *out);

#endif
