/* The printable stand-ins of bytes in byte-level vocabularies: printable
 * Latin-1 stands for itself, the others take U+0100 and up in order. */
#include "config.h"
#include "text/bpe.h"
#include "base/str.h"

static int plain(unsigned byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

uint32_t bn_byte_char(uint8_t byte)
{
    uint32_t n = 0;

    if (plain(byte))
        return byte;
    for (unsigned i = 0; i < byte; i++)
        n += !plain(i);
    return 256 + n;
}

int bn_char_byte(uint32_t cp)
{
    if (cp < 256)
        return plain(cp) ? (int)cp : -1;
    for (unsigned i = 0; i < 256; i++)
        if (bn_byte_char((uint8_t)i) == cp)
            return (int)i;
    return -1;
}

void bn_byte_names(struct bn_str *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char name[4];

        bn_str_add(out, name,
                   (size_t)bn_utf8_put(name, bn_byte_char((uint8_t)s[i])));
    }
}
