/* frame.c: a word that no other program would say, the lengths, the texts. Both ends are the same
 * program on the same machine, so numbers stay as they are in memory. */
#include "frame.h"

#include <string.h>

static const char word[8] = "lathe:1\n";

typedef struct {
    char word[sizeof word];
    uint64_t bytes[LT_FRAME_PARTS];
} head;

_Static_assert((int)LT_ASK_TEXT + 1 == (int)LT_FRAME_PARTS, "ORDER FRAME");
_Static_assert((int)LT_ANSWER_LIBRARY + 1 == (int)LT_FRAME_PARTS, "ORDER FRAME");

int lt_frame_write(lt_bytes *out, const lt_span parts[LT_FRAME_PARTS], lt_err *err)
{
    head h;
    memcpy(h.word, word, sizeof word);
    for (int i = 0; i < LT_FRAME_PARTS; i++) h.bytes[i] = parts[i].len;
    if (lt_bytes_append(out, &h, sizeof h, err)) return -1;
    for (int i = 0; i < LT_FRAME_PARTS; i++)
        if (lt_bytes_append(out, parts[i].ptr, parts[i].len, err)) return -1;
    return 0;
}

bool lt_frame_read(lt_span data, lt_span parts[LT_FRAME_PARTS])
{
    head h;
    if (data.len < sizeof h) return false;
    memcpy(&h, data.ptr, sizeof h);
    if (memcmp(h.word, word, sizeof word)) return false;
    size_t at = sizeof h;
    for (int i = 0; i < LT_FRAME_PARTS; i++) {
        if (h.bytes[i] > data.len - at) return false;
        parts[i] = (lt_span){(const char *)data.ptr + at, (size_t)h.bytes[i]};
        at += parts[i].len;
    }
    return true;
}
