/* Where the time of a run goes. At any moment the thread that works is in one
 * activity, so the seconds of all of them add up to the time since the
 * beginning. Host time: a GPU is given the work of a step in forward,
 * backward and optimizer, and waited for in device. For the thread that works
 * alone.
 */
#ifndef BN_BASE_TIMES_H
#define BN_BASE_TIMES_H

enum bn_time {
    BN_TIME_START, /* until the first step: tokenization, boot, load */
    BN_TIME_DATA,  /* making the batches of a step */
    BN_TIME_FORWARD,
    BN_TIME_BACKWARD,
    BN_TIME_COMM, /* exposed: waiting for other ranks in a step */
    BN_TIME_OPTIMIZER,
    BN_TIME_DEVICE, /* until a GPU has done a step; on a CPU it has */
    BN_TIME_EVAL, /* with its own waiting */
    BN_TIME_SAVE, /* what training pauses for */
    BN_TIME_OTHER,
    BN_TIMES,
};

/* "start", "data", "forward", "backward", "comm", "optimizer",
 * "device", "eval", "save", "other" */
const char *bn_time_name(enum bn_time what);

/* All zero, in BN_TIME_START. */
void bn_times_begin(void);
/* Go on in 'what'; returns what it was, to go back to. */
enum bn_time bn_times_enter(enum bn_time what);
/* The same for waiting in collectives: start, eval and save keep theirs. */
enum bn_time bn_times_enter_comm(void);
/* seconds[BN_TIMES] so far; returns those since the beginning. */
double bn_times_get(double *seconds);

#endif
