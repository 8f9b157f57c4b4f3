/* Time: seconds since some fixed point (monotonic), and since 1970. */
#ifndef BN_BASE_CLOCK_H
#define BN_BASE_CLOCK_H

double bn_now(void);
double bn_wall_time(void);

/* For a loop that looks for something and has 'waited' seconds: let others
 * run, ever more. */
void bn_rest(double waited);

#endif
