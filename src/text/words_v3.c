/* The hot path for newer x86-64 processors: see hot.h. */
#include "config.h"
#include "text/hot.h"

const struct bn_hot bn_hot_v3 = {hot_scan, hot_mark, hot_word};
