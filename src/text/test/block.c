/* Starts of words in blocks of 64 bytes against the matchers of scan.h. */
#include "config.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/tap.h"
#include "text/hot_block.h"
#include "text/simd.h"

#include <string.h>

static uint64_t draw(uint64_t below)
{
    static uint64_t index;

    return bn_rng_u64(3, 1, index++) % below;
}

/* Text in which rules meet: of few different things, so that runs are long
 * and every two of them become neighbours at the end of some block. */
static void block_text(struct bn_str *s)
{
    static const char *const parts[] = {
        " ", "\n", "\t", "\r\n", "     ", "\n\n\n", "\t \t \t", ".", "(", "--",
        "a", "B", "word", "'", "'s", "'LL", "'\xc5\xbf", "7", "42", "123456",
        "\xed\x95\x9c\xea\xb5\xad", "\xe4\xb8\xad", "\xed\x9e\xb0",
        "\xc3\xa9", "\xc2\xbd", "\xc2\xa0", "\xe3\x80\x80", "\xe2\x80\xa6",
        "\xf0\x9f\x99\x82", "\xcc\x81"};
    uint64_t few[6];

    for (int i = 0; i < 6; i++)
        few[i] = draw(BN_COUNT(parts));
    bn_str_clear(s);
    while (s->len < 80 || draw(8) > 0)
        bn_str_adds(s, parts[few[draw(6)]]);
}

/* Every bit of the block is the start of the next word; true if there was
 * one behind the first. */
static bool check_block(enum bn_scan kind, const char *s, const char *end)
{
    const struct bn_uclass_table *t = bn_uclass_table();
    uint64_t bits = block_words(kind, t, s, end);
    const char *at = s;

    assert_true(bits & 1);
    for (uint64_t left = bits & ~(uint64_t)1; left != 0; left &= left - 1) {
        at = bn_scan_next(kind, t, at, end);
        if (at != s + __builtin_ctzll(left))
            fail_msg("family %d, '%.*s': a word at %d, not %d", kind,
                     (int)(end - s), s, (int)(at - s), __builtin_ctzll(left));
    }
    return bits > 1;
}

static void test_block(void **state)
{
    struct bn_str s = {0};
    size_t found = 0, n = 0;

    (void)state;
    if (!bn_has_v3())
        skip();
    for (int i = 0; i < 30000; i++) {
        block_text(&s);
        size_t text = s.len;
        bn_str_add(&s, (char[BLOCK_READ]){0}, BLOCK_READ);
        for (int kind = BN_SCAN_GPT2; kind <= BN_SCAN_QWEN2; kind++)
            for (const char *p = s.s; p < s.s + text; n++) {
                found += check_block(kind, p, s.s + text);
                p = bn_scan_next(kind, bn_uclass_table(), p, s.s + text);
            }
    }
    bn_str_release(&s);
    /* Giving up is for what is rare, also in this text. */
    assert_true(found > n / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_block)};

    return BN_TAP_RUN(tests);
}
