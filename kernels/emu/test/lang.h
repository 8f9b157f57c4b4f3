#ifndef BN_KERNELS_EMU_TEST_LANG_H
#define BN_KERNELS_EMU_TEST_LANG_H

#ifdef __cplusplus
extern "C" {
#endif
enum fault {
    HALF_BARRIER,
    TWO_BARRIERS,
    HALF_WARP,
    PAST_END,
    PAST_SHARED,
    TOO_LARGE,
    SHARED_LARGE,
    SHARED_BOTH,
    MISALIGNED
};
int try_reverse(float *y, const float *x, int n, int wrong);
int try_fault(enum fault which, float *y, int n);
int try_votes(int *out);
int try_product(float *c, const void *a, const void *b, const void *bt);
void try_convert(float *f, unsigned short *bf, unsigned short *h, float x);
#ifdef __cplusplus
}
#endif

#endif
