/* One progress bar on standard error: redrawn in place on a terminal, a
 * plain line every 'interval' seconds otherwise. Log lines (log.h) and the
 * bar never overwrite each other. Thread safe. A bar may begin while another
 * is shown, which takes its place again when it ends; not a third one.
 */
#ifndef BN_BASE_PROGRESS_H
#define BN_BASE_PROGRESS_H

#include <stdint.h>

/* 'done': how much of 'total' was done before and takes no time now. 'total'
 * 0: unknown. 'label' is copied. interval: seconds between plain lines, 30 by
 * custom; 0 prints a line at every update. */
void bn_progress_begin(const char *label, uint64_t done, uint64_t total,
                       double interval);
/* 'done' of the total, and what else to say ("loss 2.31, 812 tok/s"). The
 * bar adds percentage and the time left, at the speed since it began; where
 * a terminal is too narrow, the picture goes before the numbers. Cheap to
 * call often. */
void bn_progress_update(uint64_t done, const char *detail);
/* Leave the last state on the screen and end the bar. */
void bn_progress_end(void);
/* Wipe the bar from the terminal until the next update. */
void bn_progress_hide(void);
/* "4:05", "2:03:09"; 'out' has 32 bytes. Returns 'out'. */
char *bn_progress_time(char *out, double seconds);

#endif
