/* Signals only set a flag; loops look at it at safe points. */
#ifndef BN_BASE_SIGNAL_H
#define BN_BASE_SIGNAL_H

#include <stdbool.h>

/* Catch SIGTERM, SIGUSR1, SIGINT and, unless it was ignored, SIGHUP (stop),
 * and SIGUSR2 (report). A second SIGINT ends the process at once. SIGPIPE is
 * ignored. */
void bn_signals_catch(void);
/* The signal that asked this process to stop; 0 if none did. */
int bn_stop_signal(void);
/* When it came (bn_now); 0 if none did. */
double bn_stop_time(void);
/* True once for each SIGUSR2 that came. */
bool bn_report_asked(void);

#endif
