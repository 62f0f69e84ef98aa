/* pattern_translate.c: a pattern in Oniguruma's syntax -> the same in PCRE2's, or the reason why
 * not. Knows which constructs the two read alike; does not check the rest of the grammar, which
 * PCRE2 does. */
#include "pattern.h"
#include "utf8.h"

#include <string.h>

/* White_Space of Unicode, and all else. PCRE2's own \s has U+180E too. */
#define SPACES                                                                                     \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"
#define OTHERS                                                                                     \
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{"     \
    "1fff}"                                                                                        \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}"                 \
    "\\x{3001}-\\x{10ffff}"

typedef struct {
    const char *text;
    size_t len, at;
    bool in_class;
    bool follows_interval; /* {2,3} stands just before */
    lt_bytes *out;
    lt_err *err;
} reader;

static char peek(const reader *r, size_t ahead)
{
    return ahead < r->len - r->at ? r->text[r->at + ahead] : 0;
}

static int put(reader *r, const char *text)
{
    return lt_bytes_append(r->out, text, strlen(text), r->err);
}

/* Copies n bytes as they are. */
static int copy(reader *r, size_t n)
{
    r->at += n;
    return lt_bytes_append(r->out, r->text + r->at - n, n, r->err);
}

static int refuse(const reader *r, size_t bytes)
{
    const size_t rest = r->len - r->at;
    if (bytes > rest) bytes = rest;
    while (bytes < rest && (r->text[r->at + bytes] & 0xc0) == 0x80) bytes++; /* whole characters */
    return lt_fail(r->err, "'%.*s' at byte %zu is not supported", (int)bytes, r->text + r->at,
                   r->at);
}

static bool is_one_of(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_hex(char c)
{
    return is_digit(c) || is_one_of(c, "abcdefABCDEF");
}

static bool is_punct(char c)
{
    return c >= ' ' && c < 0x7f && !is_digit(c) && !is_upper(c) && !is_lower(c);
}

/* \p{Lu}, \P{N}, \p{^L}: general categories mean the same to both; a name is a script, which to
 * PCRE2 alone would mean script extensions too. */
static int read_property(reader *r)
{
    size_t n = 3 + (peek(r, 3) == '^'); /* \p{^ */
    const size_t name = n;
    while (is_upper(peek(r, n)) || is_lower(peek(r, n)) || peek(r, n) == '_') n++;
    const size_t length = n - name;
    if (peek(r, 2) != '{' || peek(r, n) != '}' || length == 0) return refuse(r, n + 1);
    const bool is_category = is_one_of(peek(r, name), "CLMNPSZ") &&
                             (length == 1 || (length == 2 && is_lower(peek(r, name + 1))));
    if (!is_category && length < 3) return refuse(r, n + 1);
    if (copy(r, name)) return -1;
    if (!is_category && put(r, "sc:")) return -1;
    return copy(r, length + 1);
}

/* \x41, \x{41}, \u0041 */
static int read_code(reader *r)
{
    const bool braces = peek(r, 1) == 'x' && peek(r, 2) == '{';
    const size_t from = braces ? 3 : 2;
    size_t n = from;
    while (is_hex(peek(r, n))) n++;
    if (braces && n > from && n - from <= 6 && peek(r, n) == '}') return copy(r, n + 1);
    /* \x80 and up would be a byte to the one, a character to the other */
    const size_t need = peek(r, 1) == 'u' ? 4 : 2;
    if (braces || n - from < need || (need == 2 && !is_one_of(peek(r, 2), "01234567")))
        return refuse(r, n + 1);
    if (put(r, "\\x{")) return -1;
    r->at += 2;
    if (copy(r, need)) return -1;
    return put(r, "}");
}

static int read_escape(reader *r)
{
    const char c = peek(r, 1);
    if (c == 'p' || c == 'P') return read_property(r);
    if (c == 'x' || c == 'u') return read_code(r);
    if (is_punct(c) || is_one_of(c, "nrtfaedD")) return copy(r, 2);
    if (c != 's' && c != 'S' && c != 'v') return refuse(r, 2);
    r->at += 2;
    if (c == 'v') return put(r, "\\x{b}"); /* PCRE2's \v is a class */
    if (r->in_class) return put(r, c == 's' ? SPACES : OTHERS);
    return put(r, c == 's' ? "[" SPACES "]" : "[^" SPACES "]");
}

static int read_in_class(reader *r)
{
    const char c = peek(r, 0);
    /* nested classes and intersections are Oniguruma's alone */
    if (c == '[' || (c == '&' && peek(r, 1) == '&')) return refuse(r, 2);
    if (c == ']') r->in_class = false;
    return copy(r, 1);
}

static int open_class(reader *r)
{
    const size_t n = 1 + (peek(r, 1) == '^');
    if (peek(r, n) == ']') return refuse(r, n + 1);
    r->in_class = true;
    return copy(r, n);
}

static int open_group(reader *r)
{
    static const char *const kinds[] = {
        "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"};
    if (peek(r, 1) != '?') return peek(r, 1) == '*' ? refuse(r, 2) : copy(r, 1);
    for (size_t i = 0; i < lt_countof(kinds); i++) {
        const size_t n = strlen(kinds[i]);
        if (n <= r->len - r->at && !memcmp(r->text + r->at, kinds[i], n)) return copy(r, n);
    }
    return refuse(r, 3);
}

/* {2}, {2,}, {2,3} */
static int read_interval(reader *r)
{
    size_t n = 1;
    while (is_digit(peek(r, n))) n++;
    const bool starts = n > 1;
    if (peek(r, n) == ',') n++;
    while (is_digit(peek(r, n))) n++;
    if (!starts || peek(r, n) != '}') return refuse(r, n + 1);
    r->follows_interval = true;
    return copy(r, n + 1);
}

static int read_item(reader *r)
{
    const char c = peek(r, 0);
    const bool after_interval = r->follows_interval;
    r->follows_interval = false;
    if (c == '\\') return read_escape(r);
    if (r->in_class) return read_in_class(r);
    switch (c) {
    case '[': return open_class(r);
    case '(': return open_group(r);
    case '{': return after_interval ? refuse(r, 1) : read_interval(r);
    case '.': return r->at++, put(r, "[^\\n]");
    case '^':
    case '$': return refuse(r, 1); /* of a line to the one, of the text to the other */
    case '?':
    case '+': /* lazy or possessive to the one, another repeat to the other */
        return after_interval ? refuse(r, 1) : copy(r, 1);
    default: return copy(r, 1);
    }
}

int lt_pattern_translate(lt_span text, lt_bytes *out, lt_err *err)
{
    reader r = {.text = text.ptr, .len = text.len, .out = out, .err = err};
    if (lt_utf8_prefix(text) != text.len || (text.len && memchr(text.ptr, 0, text.len)))
        return lt_fail(err, "is not UTF-8 text");
    while (r.at < r.len)
        if (read_item(&r)) return -1;
    return 0;
}
