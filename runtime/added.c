/* added.c: a sorted list; what begins like the text at some place is a range of it, which each
 * further byte narrows. */
#include "added.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const lt_span x = ((const lt_added *)a)->text, y = ((const lt_added *)b)->text;
    const int order = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);
    return order ? order : (x.len > y.len) - (x.len < y.len);
}

int lt_added_set_add(lt_added_set *s, const lt_added *a, lt_err *err)
{
    if (s->count == s->cap) {
        const size_t cap = 2 * s->cap + 16;
        lt_added *at = realloc(s->at, cap * sizeof *at);
        if (!at) return lt_fail(err, "added tokens: out of memory for %zu", cap);
        s->at = at;
        s->cap = cap;
    }
    char *text = malloc(a->text.len + 1);
    if (!text) return lt_fail(err, "added tokens: out of memory");
    memcpy(text, a->text.ptr, a->text.len);
    s->at[s->count] = *a;
    s->at[s->count++].text.ptr = text;
    s->begins[(unsigned char)text[0]] = true;
    return 0;
}

int lt_added_set_sort(lt_added_set *s, lt_err *err)
{
    char shown[LT_UTF8_SHOWN];
    if (s->count) qsort(s->at, s->count, sizeof *s->at, compare);
    for (size_t i = 1; i < s->count; i++)
        if (!compare(&s->at[i - 1], &s->at[i]))
            return lt_fail(err, "added token '%s': is there twice",
                           lt_utf8_show(shown, s->at[i].text));
    return 0;
}

static unsigned char byte_at(const lt_added *a, size_t depth)
{
    return ((const unsigned char *)a->text.ptr)[depth];
}

/* The first in [low, high), all longer than depth, whose byte there is not smaller than `byte`. */
static size_t find_byte(const lt_added_set *s, size_t low, size_t high, size_t depth, int byte)
{
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (byte_at(&s->at[middle], depth) < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest token that text begins with. */
static const lt_added *match_here(const lt_added_set *s, lt_span text)
{
    const unsigned char *ptr = text.ptr;
    const lt_added *best = NULL;
    size_t low = 0, high = s->count;
    for (size_t depth = 0; depth < text.len && low < high; depth++) {
        low = find_byte(s, low, high, depth, ptr[depth]);
        high = find_byte(s, low, high, depth, ptr[depth] + 1);
        if (low < high && s->at[low].text.len == depth + 1) best = &s->at[low++];
    }
    return best;
}

/* White_Space of Unicode. */
static bool is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

/* Where the white space that ends at `to` begins, not in front of `from`. */
static size_t skip_back(lt_span text, size_t from, size_t to)
{
    const char *ptr = text.ptr;
    while (to > from) {
        size_t i = to - 1;
        while (i > from && (ptr[i] & 0xc0) == 0x80) i--;
        if (!is_space(lt_utf8_read((lt_span){ptr + i, to - i}).code)) break;
        to = i;
    }
    return to;
}

static size_t skip_forward(lt_span text, size_t from)
{
    const char *ptr = text.ptr;
    while (from < text.len) {
        const lt_utf8 c = lt_utf8_read((lt_span){ptr + from, text.len - from});
        if (!is_space(c.code)) break;
        from += c.bytes;
    }
    return from;
}

lt_added_match lt_added_set_search(const lt_added_set *s, lt_span text, size_t from)
{
    const char *ptr = text.ptr;
    for (size_t i = from; s->count && i < text.len; i++) {
        if (!s->begins[(unsigned char)ptr[i]]) continue;
        const lt_added *a = match_here(s, (lt_span){ptr + i, text.len - i});
        if (!a) continue;
        const size_t to = i + a->text.len;
        return (lt_added_match){a, a->lstrip ? skip_back(text, from, i) : i,
                                a->rstrip ? skip_forward(text, to) : to};
    }
    return (lt_added_match){NULL, text.len, text.len};
}

const lt_added *lt_added_set_find(const lt_added_set *s, lt_span text)
{
    const lt_added *a = match_here(s, text);
    return a && a->text.len == text.len ? a : NULL;
}

void lt_added_set_clear(lt_added_set *s)
{
    for (size_t i = 0; i < s->count; i++) free((void *)s->at[i].text.ptr);
    free(s->at);
    *s = (lt_added_set){0};
}
