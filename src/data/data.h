/* Text files to token sets on disk: what a run trains on.
 *
 * bn_tokens_make finds the token set of some files, some options and a
 * tokenizer in the cache, or makes it: once, whoever asks, with all threads,
 * in bounded memory. Nothing here needs a communicator: it is done before
 * one exists. The rules by which text becomes tokens are in
 * doc/formats/tokens.md, as is the format on disk.
 */
#ifndef BN_DATA_DATA_H
#define BN_DATA_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "data/batch.h"
#include "text/tokenizer.h"

enum bn_data_task { BN_DATA_SFT, BN_DATA_PREFERENCE };

/* What a row looks like. */
enum bn_shape {
    BN_SHAPE_AUTO,              /* told from the first row */
    BN_SHAPE_TEXT,              /* text */
    BN_SHAPE_PROMPT_COMPLETION, /* prompt, completion: strings, lists of
                                   strings (turns), or messages */
    BN_SHAPE_ALPACA,            /* instruction, input (may lack), output */
    BN_SHAPE_MESSAGES,          /* messages: [{role, content}] */
    BN_SHAPE_SHAREGPT,          /* conversations: [{from, value}] */
    BN_SHAPE_PREFERENCE,        /* chosen, rejected and, but for whole
                                   transcripts, prompt or instruction */
};

/* The roles that columns play. */
enum bn_col {
    BN_COL_TEXT,
    BN_COL_PROMPT,
    BN_COL_COMPLETION,
    BN_COL_CHOSEN,
    BN_COL_REJECTED,
    BN_COL_MESSAGES,
    BN_COL_CONVERSATIONS,
    BN_COL_INSTRUCTION,
    BN_COL_INPUT,
    BN_COL_OUTPUT,
    BN_COL_SYSTEM,
    BN_COL_TOOLS,
    BN_COL_COUNT
};

/* no, yes, or as the data or the tokenizer suggests */
enum bn_choice { BN_CHOICE_NO, BN_CHOICE_YES, BN_CHOICE_AUTO };

struct bn_data_opts {
    /* Paths or globs (a glob's files in byte order of their names). Formats:
     * JSON array, JSON lines, CSV; plain, .gz or .zst. */
    const char *const *files;
    size_t nfiles;
    const char *const *eval_files; /* nfiles 0: none */
    size_t neval_files;
    double eval_split;  /* [0, 1): share of 'files' held out; 0: none */
    uint64_t split_seed;
    enum bn_data_task task;
    enum bn_shape shape;
    const char *column[BN_COL_COUNT]; /* the column's name; NULL: its own */
    const char *chat_template; /* text; NULL: the tokenizer's, if any */
    const char *chat_template_name; /* its file, for messages; may be NULL */
    int64_t max_length;        /* tokens; 0: no limit */
    int64_t max_prompt_length; /* tokens; 0: no limit */
    bool keep_start;           /* of a prompt that is cut; else its end */
    enum bn_choice completion_only_loss; /* auto: where there is a prompt */
    bool assistant_only_loss;  /* messages: only what the assistant wrote */
    bool last_turn_only;       /* and of that only the last turn */
    enum bn_choice add_bos;    /* auto: as the tokenizer's post-processor */
    bool add_eos;              /* after plain text, never after a template */
    double max_dropped_fraction; /* more is an error */
    int threads;                 /* 0: bn_cpu_count() */
    const char *cache_dir;       /* NULL: bn_cache_dir's default */
    double wait_seconds; /* for another process at the same work */
    bool quiet;          /* no progress bar */
};

/* All defaults: task sft, max_length 1024, add_bos auto, add_eos, 0.05,
 * 7200 s. No files. */
void bn_data_opts_init(struct bn_data_opts *o);

/* "text", "prompt_completion", ... as in the run file. */
const char *bn_shape_name(enum bn_shape s);
/* The default name of a column: "text", "prompt", ... */
const char *bn_col_name(enum bn_col c);

/* Malloc'ed: 'configured', else $BURNISH_CACHE, else $XDG_CACHE_HOME/burnish,
 * else ~/.cache/burnish, else /tmp/burnish-UID. */
char *bn_cache_dir(const char *configured);

/* Why a row is not in the set. */
enum bn_drop {
    BN_KEPT,
    BN_DROP_BAD_ROW,     /* not JSON, not UTF-8, a column missing or of the
                            wrong type, an error of the template */
    BN_DROP_EMPTY_PROMPT, /* a pair without prompt tokens */
    BN_DROP_NO_ANSWER,   /* an answer without text */
    BN_DROP_EQUAL,       /* chosen equals rejected, perhaps after the cut */
    BN_DROP_OVER_LONG,   /* the prompt alone fills max_length */
    BN_DROP_NO_TARGET,   /* sft: no token to learn, perhaps after the cut */
    BN_DROP_TWO_BOS,     /* the text brings a second BOS */
    BN_DROP_HELD,        /* an example of eval_files, too */
    BN_DROP_COUNT
};
/* "bad row", "no answer", ...: for tables and JSON keys. */
const char *bn_drop_name(enum bn_drop d);

struct bn_tokens_stats {
    uint64_t rows; /* read; kept + all drops */
    uint64_t drops[BN_DROP_COUNT]; /* [BN_KEPT]: kept */
    uint64_t cut;     /* kept rows that lost tokens to a length limit */
    uint64_t tokens;  /* of kept rows; a pair's prompt counts once */
    uint64_t targets; /* sft: masked tokens; pairs: answer tokens */
    uint64_t longest; /* tokens of the longest sequence, prompt included */
    uint64_t bytes;   /* of the files, decompressed */
};

/* A token set, or the part of one that is held out. Read-only, shared by
 * threads. */
struct bn_tokens;

/* Find or make the token sets of 'o'. '*eval' is NULL if 'o' asks for none,
 * '*train' if it names evaluation files alone; with eval_split the two share
 * one cache entry, with eval_files each has its own, and what both would have
 * is left out of '*train'. Waits for another
 * process that makes the same, saying for whom. Local (several ranks that
 * call it do the work once). On failure nothing is left behind and both are
 * NULL. Errors: class data with file and line of a
 * bad row, counts by reason; usage for options that clash; again when a
 * signal stopped it. Logs what it waits for. */
int bn_tokens_make(struct bn_tokens **train, struct bn_tokens **eval,
                   const struct bn_data_opts *o,
                   const struct bn_tokenizer *t, struct bn_err *err);
void bn_tokens_close(struct bn_tokens *ts);

uint64_t bn_tokens_count(const struct bn_tokens *ts);
/* 1 (sft) or 3 (pairs): 'group' of bn_batch_build. */
int bn_tokens_group(const struct bn_tokens *ts);
/* Example i < count, borrowed from 'ts'; ex->index is i. */
void bn_tokens_get(const struct bn_tokens *ts, uint64_t i,
                   struct bn_example *ex);
/* What a batch of example i alone, built with 'flags', has as seq[].ntok:
 * ntok[bn_tokens_group(ts)]. Reads the index alone, so that every rank can
 * count what the others have. */
void bn_tokens_targets(const struct bn_tokens *ts, uint64_t i, int flags,
                       int *ntok);
/* Tokens of example i in a packed batch (prompt + both answers). */
uint32_t bn_tokens_length(const struct bn_tokens *ts, uint64_t i);
/* The most that bn_tokens_length gives. */
uint32_t bn_tokens_longest(const struct bn_tokens *ts);
/* Append where example i came from, "data.jsonl:12" (for a JSON array or
 * CSV "data.json:40 (row 7)"). */
void bn_tokens_where(const struct bn_tokens *ts, uint64_t i,
                     struct bn_str *out);
/* Of all files read, before a split. */
const struct bn_tokens_stats *bn_tokens_stats(const struct bn_tokens *ts);
/* One line: the shape, its columns, how it was rendered, whether it was
 * detected. Borrowed. */
const char *bn_tokens_statement(const struct bn_tokens *ts);
/* What a person should look at, a line each (the first bad rows by file and
 * line, answers that end without a stop token); "" if nothing. Borrowed. */
const char *bn_tokens_notes(const struct bn_tokens *ts);
/* The cache entry's directory, borrowed. */
const char *bn_tokens_path(const struct bn_tokens *ts);
/* Names the bytes of the set (the cache key and which part): equal hashes
 * mean equal examples in equal order. */
struct bn_hash bn_tokens_hash(const struct bn_tokens *ts);
/* False if this call had to make it. */
bool bn_tokens_was_cached(const struct bn_tokens *ts);

/* What the first rows of some files are. */
struct bn_peek {
    struct bn_tokens_stats stats; /* rows, and what became of them */
    uint32_t longest; /* tokens of the longest example in a batch */
    bool whole;       /* these were all rows of all files */
    struct bn_str bad; /* the first bad rows, "FILE:LINE: why" a line */
    int nbad;
};
/* Read, parse and tokenize the first rows of each of o->files (not of
 * o->eval_files), in memory: nothing is written, and no file is read further
 * than some megabytes. Local. What bn_tokens_make would refuse is an error
 * here if those rows show it: a file or a row that cannot be read, a shape
 * that is not known, too many rows that have to be dropped. On failure 'p' is
 * empty; else it is to be released. */
int bn_data_peek(struct bn_peek *p, const struct bn_data_opts *o,
                 const struct bn_tokenizer *t, struct bn_err *err);
void bn_peek_release(struct bn_peek *p);

/* Append example i as text with its targets marked: green on a terminal
 * ('colour'), else [[between brackets]]. */
int bn_tokens_show(const struct bn_tokens *ts, uint64_t i,
                   const struct bn_tokenizer *t, bool colour,
                   struct bn_str *out, struct bn_err *err);
/* Append statement, counts, drops by reason, notes and path: lines for a
 * person. */
void bn_tokens_report(const struct bn_tokens *ts, struct bn_str *out);

#endif
