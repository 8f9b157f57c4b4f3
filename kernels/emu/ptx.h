/* Host meanings of kernels/cuda/ptx.h, whose contracts hold here. A copy that
 * was begun is done at once or when the thread waits for it, as the seed has
 * it, so that a wait or a barrier left out shows.
 */
#ifndef BN_KERNELS_EMU_PTX_H
#define BN_KERNELS_EMU_PTX_H

static inline float bn_emu_bf16_of(uint32_t pair, unsigned half)
{
    __nv_bfloat16 h = {(uint16_t)(pair >> 16 * half)};

    return __bfloat162float(h);
}

static inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4],
                            const uint32_t (&b)[2])
{
    struct {
        uint32_t a[4], b[2];
    } mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    const bn_emu_lane *all = bn_emu_give("mma", 0, 0xffffffffu, mine);
    unsigned lane = bn_emu_lane_id(), g = lane / 4, t = lane % 4;

    for (unsigned k = 0; k < 16; k++) {
        /* The lane with column k of a row: registers 2, 3 hold k >= 8. */
        unsigned owner = k % 8 / 2, part = k / 8, half = k % 2;
        uint32_t ra[4], rb0[2], rb1[2];

        memcpy(ra, &all[4 * g + owner], 16);
        memcpy(rb0, (const char *)&all[4 * (2 * t) + owner] + 16, 8);
        memcpy(rb1, (const char *)&all[4 * (2 * t + 1) + owner] + 16, 8);
        float up = bn_emu_bf16_of(ra[2 * part], half);
        float down = bn_emu_bf16_of(ra[2 * part + 1], half);
        float left = bn_emu_bf16_of(rb0[part], half);
        float right = bn_emu_bf16_of(rb1[part], half);
        c[0] += up * left;
        c[1] += up * right;
        c[2] += down * left;
        c[3] += down * right;
    }
}

template <int N>
static inline void bn_emu_ldmatrix(uint32_t *r, const void *p, bool trans,
                                   const char *what)
{
    const bn_emu_lane *all = bn_emu_give(what, 0, 0xffffffffu, p);
    unsigned lane = bn_emu_lane_id(), g = lane / 4, t = lane % 4;

    for (unsigned i = 0; i < N; i++) {
        uint16_t e[2];

        for (unsigned j = 0; j < 2; j++) {
            unsigned row = trans ? 2 * t + j : g;
            unsigned col = trans ? g : 2 * t + j;
            const char *at = bn_emu_take<const char *>(all, 8 * i + row);

            if ((uintptr_t)at % 16 != 0)
                bn_emu_fail("ldmatrix of a row at %p, not aligned to 16",
                            (const void *)at);
            memcpy(&e[j], at + 2 * col, 2);
        }
        r[i] = e[0] | (uint32_t)e[1] << 16;
    }
}
static inline void ldmatrix4(uint32_t (&r)[4], const void *p)
{
    bn_emu_ldmatrix<4>(r, p, false, "ldmatrix4");
}
static inline void ldmatrix4_trans(uint32_t (&r)[4], const void *p)
{
    bn_emu_ldmatrix<4>(r, p, true, "ldmatrix4_trans");
}
static inline void ldmatrix2(uint32_t (&r)[2], const void *p)
{
    bn_emu_ldmatrix<2>(r, p, false, "ldmatrix2");
}
static inline void ldmatrix2_trans(uint32_t (&r)[2], const void *p)
{
    bn_emu_ldmatrix<2>(r, p, true, "ldmatrix2_trans");
}

static inline void copy_async16(void *dst, const void *src, bool valid)
{
    if (valid)
        BN_ACCESS(src, 16, false);
    bn_emu_copy_begin(dst, src, valid);
}
static inline void copy_async_commit()
{
    bn_emu_copy_commit();
}
template <int N> static inline void copy_async_wait()
{
    bn_emu_copy_wait(N);
}

static inline uint32_t pack_bf16(float lo, float hi)
{
    return __float2bfloat16_rn(lo).bits
           | (uint32_t)__float2bfloat16_rn(hi).bits << 16;
}

#endif
