/* tb-write DIR STEP: an event file whose content t/ knows, for readers that
 * share no code with the writer.
 */
#include "config.h"
#include "train/tb.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    struct bn_err err;

    if (argc != 3)
        return 64;
    int64_t from = atoll(argv[2]);
    struct bn_tb *tb = bn_tb_open(argv[1], from, &err);
    if (tb == NULL) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int64_t step = from + 1; step <= from + 3; step++) {
        const char *const tags[] = {"train/loss", "train/rewards/chosen"};
        double v[] = {1.0 / (double)step, -0.5 * (double)step};

        if (bn_tb_scalars(tb, 1e9 + (double)step, step, tags, v, 2, &err) < 0)
            return 1;
    }
    bn_tb_close(tb);
    return 0;
}
