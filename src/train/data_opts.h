/* From a run file to the options of the data layer; without a device, for the
 * login tool too. */
#ifndef BN_TRAIN_DATA_OPTS_H
#define BN_TRAIN_DATA_OPTS_H

#include "conf/conf.h"
#include "data/data.h"

/* The data options of a run; 'chat_template' is the text of the template
 * that the run names, or NULL. Strings are borrowed from 'run'. */
void bn_session_data_opts(struct bn_data_opts *o, const struct bn_run *run,
                          const char *chat_template);

#endif
