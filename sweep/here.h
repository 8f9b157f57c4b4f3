/* Where this installation is. */
#ifndef BN_SWEEP_HERE_H
#define BN_SWEEP_HERE_H

/* The folder of the program that runs, malloc'ed. */
char *bn_program_dir(void);

#endif
