/* vocabulary.c: an array by id, a hash table by text, one run of bytes for all texts. */
#include "vocabulary.h"
#include "tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { IN_FILE = 1, LITERAL = 2, ADDED = 4, SPECIAL = 8 };

typedef struct {
    size_t key_at, at; /* offsets in `text`: as it is found, as it decodes */
    uint32_t key_bytes, bytes;
    unsigned marks; /* 0: no such id */
} token;

struct lt_vocabulary {
    token *tokens;
    size_t count, cap;
    uint32_t *slots; /* id + 1 of tokens of the file; 0 is free; at most half full */
    size_t used, slot_cap;
    lt_bytes text, scratch;
};

/* ---- the alphabet of bytes ---- */

static bool is_printable(uint32_t code)
{
    return (code >= 0x21 && code <= 0x7e) || (code >= 0xa1 && code <= 0xff && code != 0xad);
}

/* The byte that a character of the alphabet stands for; -1: it is none of them. */
static int byte_of(uint32_t code)
{
    if (is_printable(code)) return (int)code;
    const uint32_t n = code - 0x100; /* the others in order: 00-20, 7f-a0, ad */
    if (code < 0x100 || n > 67) return -1;
    return (int)(n <= 0x20 ? n : n == 67 ? 0xad : n - 0x21 + 0x7f);
}

/* Turns a file's text into bytes, in v->scratch, or, if it is literal, leaves it as it stands. */
static int translate(lt_vocabulary *v, lt_span text, bool *literal, lt_err *err)
{
    const char *ptr = text.ptr;
    char shown[LT_UTF8_SHOWN];
    size_t count = 0;
    *literal = false;
    v->scratch.len = 0;
    if (lt_bytes_append(&v->scratch, ptr, text.len, err)) return -1; /* room: bytes are no more */
    for (size_t i = 0; i < text.len;) {
        const lt_utf8 c = lt_utf8_read((lt_span){ptr + i, text.len - i});
        if (c.kind != LT_UTF8_WHOLE)
            return lt_fail(err, "token '%s': is not UTF-8", lt_utf8_show(shown, text));
        const int byte = byte_of(c.code);
        if (byte < 0) *literal = true;
        v->scratch.ptr[count++] = (char)byte;
        i += c.bytes;
    }
    if (*literal) memcpy(v->scratch.ptr, ptr, text.len);
    v->scratch.len = *literal ? text.len : count;
    return 0;
}

/* ---- the table ---- */

static lt_span view_key(const lt_vocabulary *v, const token *t)
{
    return (lt_span){v->text.ptr + t->key_at, t->key_bytes};
}

static uint64_t hash(lt_span key, bool literal)
{
    const unsigned char *ptr = key.ptr;
    uint64_t h = literal ? 0x84222325 : 0xcbf29ce484222325u; /* FNV-1a, 64 bits */
    for (size_t i = 0; i < key.len; i++) h = (h ^ ptr[i]) * 0x100000001b3u;
    return h ^ h >> 32;
}

static bool is_same(lt_span a, lt_span b)
{
    return a.len == b.len && (a.len == 0 || !memcmp(a.ptr, b.ptr, a.len));
}

static uint32_t *find_slot(const lt_vocabulary *v, lt_span key, bool literal)
{
    size_t i = hash(key, literal) & (v->slot_cap - 1);
    for (; v->slots[i]; i = (i + 1) & (v->slot_cap - 1)) {
        const token *t = &v->tokens[v->slots[i] - 1];
        if (literal == ((t->marks & LITERAL) != 0) && is_same(view_key(v, t), key)) break;
    }
    return &v->slots[i];
}

static int look_up(const lt_vocabulary *v, lt_span key, bool literal)
{
    return v->used ? (int)*find_slot(v, key, literal) - 1 : -1;
}

static int grow_table(lt_vocabulary *v, lt_err *err)
{
    if (2 * v->used < v->slot_cap) return 0;
    const size_t cap = v->slot_cap ? 2 * v->slot_cap : 1024;
    uint32_t *slots = calloc(cap, sizeof *slots);
    if (!slots) return lt_fail(err, "vocabulary: out of memory for %zu tokens", cap);
    free(v->slots);
    v->slots = slots;
    v->slot_cap = cap;
    for (size_t id = 0; id < v->count; id++) {
        const token *t = &v->tokens[id];
        if (t->marks & IN_FILE)
            *find_slot(v, view_key(v, t), t->marks & LITERAL) = (uint32_t)id + 1;
    }
    return 0;
}

/* ---- adding ---- */

/* Makes tokens[id] exist. */
static int reach(lt_vocabulary *v, int id, lt_span text, lt_err *err)
{
    char shown[LT_UTF8_SHOWN];
    if (id < 0 || id >= LT_TOKENIZER_IDS)
        return lt_fail(err, "token '%s': id %d is not from 0 to %d", lt_utf8_show(shown, text), id,
                       LT_TOKENIZER_IDS - 1);
    if (text.len > 1 << 20) /* no vocabulary has words of 1 MiB */
        return lt_fail(err, "token '%s': has %zu bytes", lt_utf8_show(shown, text), text.len);
    const size_t need = (size_t)id + 1;
    if (need > v->cap) {
        const size_t cap = need + need / 2 + 256;
        token *tokens = realloc(v->tokens, cap * sizeof *tokens);
        if (!tokens) return lt_fail(err, "vocabulary: out of memory for %zu tokens", cap);
        memset(tokens + v->cap, 0, (cap - v->cap) * sizeof *tokens);
        v->tokens = tokens;
        v->cap = cap;
    }
    if (need > v->count) v->count = need;
    return 0;
}

/* Two texts of one id, in an order that does not depend on that of adding. */
static int refuse_id(int id, lt_span a, lt_span b, lt_err *err)
{
    char shown_a[LT_UTF8_SHOWN], shown_b[LT_UTF8_SHOWN];
    const int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    const bool turn = order > 0 || (order == 0 && a.len > b.len);
    return lt_fail(err, "vocabulary: id %d is both '%s' and '%s'", id,
                   lt_utf8_show(shown_a, turn ? b : a), lt_utf8_show(shown_b, turn ? a : b));
}

int lt_vocabulary_add(lt_vocabulary *v, int id, lt_span text, lt_err *err)
{
    bool literal;
    char shown[LT_UTF8_SHOWN];
    if (translate(v, text, &literal, err) || reach(v, id, text, err)) return -1;
    if (grow_table(v, err)) return -1;
    token *t = &v->tokens[id];
    const lt_span key = lt_bytes_view(&v->scratch);
    if (t->marks) return refuse_id(id, view_key(v, t), key, err);
    uint32_t *slot = find_slot(v, key, literal);
    if (*slot)
        return lt_fail(err, "vocabulary: '%s' has the ids %d and %d", lt_utf8_show(shown, text),
                       (int)*slot - 1, id);
    const size_t at = v->text.len;
    if (lt_bytes_append(&v->text, key.ptr, key.len, err)) return -1;
    *t = (token){at, at, (uint32_t)key.len, (uint32_t)key.len, IN_FILE | (literal ? LITERAL : 0)};
    *slot = (uint32_t)id + 1;
    v->used++;
    return 0;
}

int lt_vocabulary_add_literal(lt_vocabulary *v, int id, lt_span text, bool special, lt_err *err)
{
    int known;
    char shown[LT_UTF8_SHOWN];
    if (lt_vocabulary_find(v, text, &known, err) || reach(v, id, text, err)) return -1;
    lt_utf8_show(shown, text);
    if (text.len == 0) return lt_fail(err, "added token %d: is empty", id);
    if (known >= 0 && known != id)
        return lt_fail(err, "added token '%s': has id %d, but %d in the vocabulary", shown, id,
                       known);
    token *t = &v->tokens[id];
    if (t->marks & ADDED || (t->marks && known != id))
        return refuse_id(id, lt_vocabulary_bytes(v, id), text, err);
    const size_t at = v->text.len;
    if (lt_bytes_append(&v->text, text.ptr, text.len, err)) return -1;
    t->at = at;
    t->bytes = (uint32_t)text.len;
    t->marks |= special ? ADDED | SPECIAL : ADDED;
    return 0;
}

/* ---- asking ---- */

int lt_vocabulary_find(lt_vocabulary *v, lt_span text, int *id, lt_err *err)
{
    bool literal;
    if (translate(v, text, &literal, err)) return -1;
    *id = look_up(v, lt_bytes_view(&v->scratch), literal);
    return 0;
}

int lt_vocabulary_find_bytes(const lt_vocabulary *v, lt_span bytes)
{
    return look_up(v, bytes, false);
}

bool lt_vocabulary_has(const lt_vocabulary *v, int id)
{
    return id >= 0 && (size_t)id < v->count && v->tokens[id].marks;
}

bool lt_vocabulary_is_special(const lt_vocabulary *v, int id)
{
    return lt_vocabulary_has(v, id) && v->tokens[id].marks & SPECIAL;
}

lt_span lt_vocabulary_bytes(const lt_vocabulary *v, int id)
{
    return (lt_span){v->text.ptr + v->tokens[id].at, v->tokens[id].bytes};
}

int lt_vocabulary_count(const lt_vocabulary *v)
{
    return (int)v->count;
}

int lt_vocabulary_new(lt_vocabulary **out, lt_err *err)
{
    lt_vocabulary *v = calloc(1, sizeof *v);
    if (!v) return lt_fail(err, "vocabulary: out of memory");
    *out = v;
    return 0;
}

void lt_vocabulary_free(lt_vocabulary *v)
{
    if (!v) return;
    free(v->tokens);
    free(v->slots);
    lt_bytes_clear(&v->text);
    lt_bytes_clear(&v->scratch);
    free(v);
}
