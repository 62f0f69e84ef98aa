/* utf8.c: reads UTF-8 a character at a time (Unicode 3.9, table 3-7). */
#include "utf8.h"

#include <stdio.h>
#include <string.h>

/* Bytes of a character that begins with `first`, and the range of its second byte, which excludes
 * overlong forms, surrogates and what lies beyond U+10FFFF. 0: nothing begins so. */
static size_t expect(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    *high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (first < 0x80) return 1;
    if (first < 0xc2) return 0;
    if (first < 0xe0) return 2;
    if (first < 0xf0) return 3;
    return first < 0xf5 ? 4 : 0;
}

lt_utf8 lt_utf8_read(lt_span text)
{
    const unsigned char *at = text.ptr;
    unsigned char low, high;
    const size_t need = expect(at[0], &low, &high);
    if (need < 2) return (lt_utf8){need ? LT_UTF8_WHOLE : LT_UTF8_WRONG, 1, at[0]};
    uint32_t code = at[0] & (0xffu >> (need + 1));
    for (size_t i = 1; i < need; i++) {
        if (i == text.len) return (lt_utf8){LT_UTF8_CUT, i, 0};
        if (at[i] < low || at[i] > high) return (lt_utf8){LT_UTF8_WRONG, i, 0};
        code = code << 6 | (at[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    return (lt_utf8){LT_UTF8_WHOLE, need, code};
}

size_t lt_utf8_prefix(lt_span text)
{
    const char *ptr = text.ptr;
    size_t i = 0;
    while (i < text.len) {
        const lt_utf8 c = lt_utf8_read((lt_span){ptr + i, text.len - i});
        if (c.kind != LT_UTF8_WHOLE) break;
        i += c.bytes;
    }
    return i;
}

const char *lt_utf8_show(char out[LT_UTF8_SHOWN], lt_span text)
{
    const unsigned char *ptr = text.ptr;
    size_t i = 0, n = 0;
    while (i < text.len && n + 8 < LT_UTF8_SHOWN) { /* room for a character, the dots and the end */
        const lt_utf8 c = lt_utf8_read((lt_span){ptr + i, text.len - i});
        if (c.kind == LT_UTF8_WHOLE && c.code >= ' ' && c.code != 0x7f) {
            memcpy(out + n, ptr + i, c.bytes);
            n += c.bytes;
            i += c.bytes;
        } else {
            n += (size_t)snprintf(out + n, LT_UTF8_SHOWN - n, "\\x%02x", ptr[i++]);
        }
    }
    memcpy(out + n, i < text.len ? "..." : "", i < text.len ? 4 : 1);
    return out;
}

static int append_mark(lt_bytes *out, lt_err *err)
{
    return lt_bytes_append(out, "\xef\xbf\xbd", 3, err);
}

/* Emits what the held bytes begin with, until none are left or the rest may become a character. */
static int settle(lt_utf8_stream *s, lt_bytes *out, lt_err *err)
{
    while (s->count) {
        const lt_utf8 c = lt_utf8_read((lt_span){s->held, s->count});
        if (c.kind == LT_UTF8_CUT) return 0;
        if (c.kind == LT_UTF8_WRONG && append_mark(out, err)) return -1;
        if (c.kind == LT_UTF8_WHOLE && lt_bytes_append(out, s->held, c.bytes, err)) return -1;
        s->count -= c.bytes;
        memmove(s->held, s->held + c.bytes, s->count);
    }
    return 0;
}

int lt_utf8_push(lt_utf8_stream *s, lt_span bytes, lt_bytes *out, lt_err *err)
{
    const unsigned char *ptr = bytes.ptr;
    for (size_t i = 0; i < bytes.len; i++) {
        s->held[s->count++] = ptr[i];
        if (settle(s, out, err)) return -1;
    }
    return 0;
}

int lt_utf8_finish(lt_utf8_stream *s, lt_bytes *out, lt_err *err)
{
    if (s->count && append_mark(out, err)) return -1;
    s->count = 0;
    return 0;
}
