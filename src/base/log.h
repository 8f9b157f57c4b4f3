/* What people read: lines on standard error. Message rules: lower case, no
 * full stop, failure first, subject in quotes.
 */
#ifndef BN_BASE_LOG_H
#define BN_BASE_LOG_H

enum bn_log_level { BN_LOG_ERROR, BN_LOG_WARN, BN_LOG_INFO, BN_LOG_DEBUG };

/* Print "level: text" (info: the text alone), after "rank R/N: " in a world
 * of several, if 'level' is enabled. Thread safe; one write a line. A line on
 * a terminal first clears a progress bar that is shown there (progress.h).
 */
void bn_log(enum bn_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Each line of 'text' by itself. */
void bn_log_lines(enum bn_log_level level, const char *text);

/* The level in force: BURNISH_LOG=error|warn|info|debug, else info. */
enum bn_log_level bn_log_level(void);
void bn_log_set_level(enum bn_log_level level);

/* Name the rank in every later line. size 1 prints no prefix. */
void bn_log_set_rank(int rank, int size);

#define bn_error(...) bn_log(BN_LOG_ERROR, __VA_ARGS__)
#define bn_warn(...) bn_log(BN_LOG_WARN, __VA_ARGS__)
#define bn_info(...) bn_log(BN_LOG_INFO, __VA_ARGS__)
#define bn_debug(...) bn_log(BN_LOG_DEBUG, __VA_ARGS__)

#endif
