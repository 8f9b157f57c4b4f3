/* The commands of this folder, each with argv[0] its own name. They print
 * and return the exit status.
 */
#ifndef BN_SWEEP_CMD_H
#define BN_SWEEP_CMD_H

int bn_cmd_clean(int argc, char **argv);
int bn_cmd_mps(int argc, char **argv);
int bn_cmd_sweep(int argc, char **argv);

/* The folder of the program that runs, malloc'ed. */
char *bn_program_dir(void);

#endif
