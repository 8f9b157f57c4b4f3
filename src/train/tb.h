/* TensorBoard event files: framed protocol buffers (train/event.proto). */
#ifndef BN_TRAIN_TB_H
#define BN_TRAIN_TB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct bn_tb;

/* Begin a new file in 'dir' (made if absent), named as TensorBoard expects.
 * step > 0: what was drawn after that step is dropped by the reader. */
struct bn_tb *bn_tb_open(const char *dir, int64_t step, struct bn_err *err);
/* One event of scalars: tags[i] takes values[i]. time: seconds since 1970.
 */
int bn_tb_scalars(struct bn_tb *tb, double time, int64_t step,
                  const char *const *tags, const double *values, size_t n,
                  struct bn_err *err);
void bn_tb_close(struct bn_tb *tb);

/* CRC-32C (Castagnoli) of 'len' bytes. */
uint32_t bn_crc32c(const void *data, size_t len);

#endif
