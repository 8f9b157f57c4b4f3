/* From a run file to the options of the data layer; without a device, for the
 * login tool too. */
#ifndef BN_TRAIN_DATA_OPTS_H
#define BN_TRAIN_DATA_OPTS_H

#include "conf/conf.h"
#include "data/data.h"

/* The data options of a run. Strings are borrowed from 'run' and from
 * '*chat_template', the text of the template file that the run names
 * (malloc'ed; NULL if it names none). -1 if that cannot be read. */
int bn_session_data_opts(struct bn_data_opts *o, const struct bn_run *run,
                         char **chat_template, struct bn_err *err);

#endif
