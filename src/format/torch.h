/* PyTorch checkpoints (torch.save since 1.6): a zip archive of data.pkl and
 * one entry a storage. Nothing of the pickle is executed (pickle.h): tensors,
 * parameters, numbers, text and plain containers are understood, and any
 * other object is refused by the name of its class.
 */
#ifndef BN_FORMAT_TORCH_H
#define BN_FORMAT_TORCH_H

#include "format/tensors.h"

/* Read a .pt, .pth or .bin file. A tensor's name is its path through the
 * containers, joined by dots: {"model": {"a.weight": T}} is
 * "model.a.weight"; one saved by itself has the name "". Numbers and text
 * outside tensors are in ts->meta under such names (numbers that JSON lacks,
 * and bytes, are left out). Tensors that are no contiguous run of their
 * storage are copied. Complex and quantised tensors are refused. '*ts' must
 * be empty; on failure it still is. Local.
 */
int bn_torch_open(struct bn_tensors *ts, const char *path,
                  struct bn_err *err);
/* The same of bytes in memory named 'name'; they must outlive the set. */
int bn_torch_parse(struct bn_tensors *ts, const void *data, size_t len,
                   const char *name, struct bn_err *err);

#endif
