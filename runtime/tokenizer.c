/* tokenizer.c: filling a tokenizer, and its two directions. What a file looks like is not known
 * here. */
#include "tokenizer.h"
#include "added.h"
#include "bpe.h"
#include "pattern.h"
#include "vocabulary.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    lt_pattern *pattern; /* NULL: the step that puts a space in front */
    lt_split keep;
} step;

enum { RAW, NORMALIZED, PASSES }; /* the two sets of added tokens, in the order of their search */

struct lt_tokenizer {
    lt_vocabulary *vocabulary;
    lt_bpe *merges;
    lt_added_set added[PASSES];
    step steps[LT_TOKENIZER_STEPS];
    int step_count;
    bool ignore_merges, nfc, ready;
    int32_t id_of_byte[256]; /* -1: none */
    lt_bytes joined;         /* scratch of add_merge */
    lt_ids piece;            /* scratch of encode */
};

/* ---- filling ---- */

int lt_tokenizer_add_token(lt_tokenizer *t, int id, lt_span text, lt_err *err)
{
    assert(!t->ready);
    return lt_vocabulary_add(t->vocabulary, id, text, err);
}

/* The id of one side of a merge, or of both together. */
static int find_part(lt_tokenizer *t, lt_span part, int *id, lt_err *err)
{
    char shown[LT_UTF8_SHOWN];
    if (lt_vocabulary_find(t->vocabulary, part, id, err)) return -1;
    if (*id >= 0) return 0;
    return lt_fail(err, "'%s' is not in the vocabulary", lt_utf8_show(shown, part));
}

int lt_tokenizer_add_merge(lt_tokenizer *t, lt_span left, lt_span right, lt_err *err)
{
    int a, b, both;
    char shown_a[LT_UTF8_SHOWN], shown_b[LT_UTF8_SHOWN];
    assert(!t->ready);
    t->joined.len = 0;
    if (lt_bytes_append(&t->joined, left.ptr, left.len, err) ||
        lt_bytes_append(&t->joined, right.ptr, right.len, err))
        return -1;
    if (find_part(t, left, &a, err) || find_part(t, right, &b, err) ||
        find_part(t, lt_bytes_view(&t->joined), &both, err))
        return lt_wrap(err, "merge of '%s' and '%s'", lt_utf8_show(shown_a, left),
                       lt_utf8_show(shown_b, right));
    return lt_bpe_add(t->merges, a, b, both, err);
}

int lt_tokenizer_add_added(lt_tokenizer *t, const lt_added *a, lt_err *err)
{
    assert(!t->ready);
    if (lt_vocabulary_add_literal(t->vocabulary, a->id, a->text, a->special, err)) return -1;
    return lt_added_set_add(&t->added[a->normalized ? NORMALIZED : RAW], a, err);
}

static int add_step(lt_tokenizer *t, step s, lt_err *err)
{
    assert(!t->ready);
    if (t->step_count == LT_TOKENIZER_STEPS)
        return lt_fail(err, "pre-tokenizer: has more than %d steps", LT_TOKENIZER_STEPS);
    t->steps[t->step_count++] = s;
    return 0;
}

int lt_tokenizer_add_split(lt_tokenizer *t, lt_span pattern, lt_split keep, lt_err *err)
{
    lt_pattern *p = NULL;
    if (lt_pattern_compile(&p, pattern, err)) return -1;
    if (add_step(t, (step){p, keep}, err) == 0) return 0;
    lt_pattern_free(p);
    return -1;
}

int lt_tokenizer_add_space(lt_tokenizer *t, lt_err *err)
{
    return add_step(t, (step){NULL, LT_SPLIT_ALL}, err);
}

void lt_tokenizer_set_ignore_merges(lt_tokenizer *t, bool on)
{
    t->ignore_merges = on;
}

void lt_tokenizer_set_nfc(lt_tokenizer *t, bool on)
{
    t->nfc = on;
}

/* NFC leaves all below U+0300 as it is. */
static int check_nfc(lt_span text, lt_err *err)
{
    const char *ptr = text.ptr;
    for (size_t i = 0; i < text.len;) {
        const lt_utf8 c = lt_utf8_read((lt_span){ptr + i, text.len - i});
        if (c.code >= 0x300)
            return lt_fail(err,
                           "normalizer NFC: '%.*s' (U+%04X) is beyond U+02FF, and normalizing is "
                           "not supported (use a model whose tokenizer has no normalizer)",
                           (int)c.bytes, ptr + i, c.code);
        i += c.bytes;
    }
    return 0;
}

/* Tokens that are searched for in normalized text get normalized themselves. */
static int check_normalized(const lt_tokenizer *t, lt_err *err)
{
    const lt_added_set *s = &t->added[NORMALIZED];
    for (size_t i = 0; t->nfc && i < s->count; i++)
        if (check_nfc(s->at[i].text, err)) return lt_wrap(err, "added token %d", s->at[i].id);
    return 0;
}

int lt_tokenizer_ready(lt_tokenizer *t, lt_err *err)
{
    assert(!t->ready);
    if (lt_vocabulary_count(t->vocabulary) == 0) return lt_fail(err, "vocabulary: is empty");
    for (int i = 0; i < PASSES; i++)
        if (lt_added_set_sort(&t->added[i], err)) return -1;
    if (check_normalized(t, err)) return -1;
    for (int i = 0; i < 256; i++) {
        const unsigned char byte = (unsigned char)i;
        t->id_of_byte[i] = lt_vocabulary_find_bytes(t->vocabulary, (lt_span){&byte, 1});
    }
    t->ready = true;
    return 0;
}

/* ---- text -> ids ---- */

typedef struct {
    lt_tokenizer *t;
    lt_ids *out;
    lt_err *err;
} run;

static int reserve(lt_ids *ids, size_t count, lt_err *err)
{
    if (count <= ids->cap) return 0;
    const size_t cap = count + count / 2 + 16;
    int32_t *at = realloc(ids->at, cap * sizeof *at);
    if (!at) return lt_fail(err, "ids: out of memory for %zu", cap);
    ids->at = at;
    ids->cap = cap;
    return 0;
}

static int emit(run *r, const int32_t *ids, size_t count)
{
    if (reserve(r->out, r->out->count + count, r->err)) return -1;
    memcpy(r->out->at + r->out->count, ids, count * sizeof *ids);
    r->out->count += count;
    return 0;
}

static int encode_piece(run *r, lt_span piece)
{
    lt_tokenizer *t = r->t;
    const unsigned char *bytes = piece.ptr;
    const int whole = t->ignore_merges ? lt_vocabulary_find_bytes(t->vocabulary, piece) : -1;
    if (whole >= 0) return emit(r, &(int32_t){whole}, 1);
    if (reserve(&t->piece, piece.len, r->err)) return -1;
    for (size_t i = 0; i < piece.len; i++) {
        const int32_t id = t->id_of_byte[bytes[i]];
        if (id < 0)
            return lt_fail(r->err, "text: byte 0x%02x has no token in the vocabulary", bytes[i]);
        t->piece.at[i] = id;
    }
    size_t count = piece.len;
    if (lt_bpe_merge(t->merges, t->piece.at, &count, r->err)) return -1;
    return emit(r, t->piece.at, count);
}

static int run_steps(run *r, int i, lt_span piece);

static int run_split(run *r, int i, lt_span piece)
{
    const step *s = &r->t->steps[i];
    const char *ptr = piece.ptr;
    size_t at = 0;
    while (at < piece.len) {
        lt_match m;
        if (lt_pattern_find(s->pattern, piece, at, &m, r->err)) return -1;
        if (m.from == m.to) m = (lt_match){piece.len, piece.len};
        if (s->keep != LT_SPLIT_MATCHES && run_steps(r, i + 1, (lt_span){ptr + at, m.from - at}))
            return -1;
        if (s->keep != LT_SPLIT_GAPS && run_steps(r, i + 1, (lt_span){ptr + m.from, m.to - m.from}))
            return -1;
        at = m.to;
    }
    return 0;
}

static int run_space(run *r, int i, lt_span piece)
{
    lt_bytes spaced = {0};
    if (*(const char *)piece.ptr == ' ') return run_steps(r, i + 1, piece);
    int failed = lt_bytes_append(&spaced, " ", 1, r->err) ||
                 lt_bytes_append(&spaced, piece.ptr, piece.len, r->err) ||
                 run_steps(r, i + 1, lt_bytes_view(&spaced));
    lt_bytes_clear(&spaced);
    return failed ? -1 : 0;
}

/* Steps i and up; their number bounds the depth. */
static int run_steps(run *r, int i, lt_span piece)
{
    if (piece.len == 0) return 0;
    if (i == r->t->step_count) return encode_piece(r, piece);
    return r->t->steps[i].pattern ? run_split(r, i, piece) : run_space(r, i, piece);
}

/* Cuts out the added tokens of this pass; what is between them goes to the next. */
static int run_pass(run *r, int pass, lt_span text)
{
    const char *ptr = text.ptr;
    if (pass == NORMALIZED && r->t->nfc && check_nfc(text, r->err)) return -1;
    if (pass == PASSES) return run_steps(r, 0, text);
    for (size_t at = 0; at < text.len;) {
        const lt_added_match m = lt_added_set_search(&r->t->added[pass], text, at);
        if (run_pass(r, pass + 1, (lt_span){ptr + at, m.from - at})) return -1;
        if (m.token && emit(r, &(int32_t){m.token->id}, 1)) return -1;
        at = m.to;
    }
    return 0;
}

int lt_tokenizer_encode(lt_tokenizer *t, lt_span text, lt_ids *out, lt_err *err)
{
    assert(t->ready);
    run r = {t, out, err};
    const size_t before = out->count, valid = lt_utf8_prefix(text);
    if (valid < text.len) return lt_fail(err, "text: is not UTF-8 at byte %zu", valid);
    if (run_pass(&r, RAW, text) == 0) return 0;
    out->count = before;
    return -1;
}

/* ---- ids -> text ---- */

int lt_tokenizer_bytes(const lt_tokenizer *t, int id, lt_span *out, lt_err *err)
{
    if (!lt_vocabulary_has(t->vocabulary, id))
        return lt_fail(err, "token id %d: the tokenizer has none", id);
    *out = lt_vocabulary_bytes(t->vocabulary, id);
    return 0;
}

int lt_tokenizer_decode(const lt_tokenizer *t, const int32_t *ids, size_t count, lt_bytes *out,
                        lt_err *err)
{
    lt_span bytes;
    for (size_t i = 0; i < count; i++)
        if (lt_tokenizer_bytes(t, ids[i], &bytes, err) ||
            lt_bytes_append(out, bytes.ptr, bytes.len, err))
            return -1;
    return 0;
}

int lt_tokenizer_push(const lt_tokenizer *t, lt_utf8_stream *s, int id, lt_bytes *out, lt_err *err)
{
    lt_span bytes = {"\xff", 1}; /* no character has it */
    if (lt_vocabulary_has(t->vocabulary, id)) bytes = lt_vocabulary_bytes(t->vocabulary, id);
    return lt_tokenizer_is_special(t, id) ? 0 : lt_utf8_push(s, bytes, out, err);
}

int lt_tokenizer_count(const lt_tokenizer *t)
{
    return lt_vocabulary_count(t->vocabulary);
}

bool lt_tokenizer_is_special(const lt_tokenizer *t, int id)
{
    return lt_vocabulary_is_special(t->vocabulary, id);
}

int lt_tokenizer_find(const lt_tokenizer *t, lt_span text)
{
    assert(t->ready);
    for (int i = 0; i < PASSES; i++) {
        const lt_added *a = lt_added_set_find(&t->added[i], text);
        if (a) return a->id;
    }
    return -1;
}

/* ---- birth and end ---- */

int lt_tokenizer_new(lt_tokenizer **out, lt_err *err)
{
    lt_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return lt_fail(err, "tokenizer: out of memory");
    if (lt_vocabulary_new(&t->vocabulary, err) || lt_bpe_new(&t->merges, err)) goto fail;
    *out = t;
    return 0;
fail:
    lt_tokenizer_free(t);
    return lt_wrap(err, "tokenizer");
}

void lt_tokenizer_free(lt_tokenizer *t)
{
    if (!t) return;
    for (int i = 0; i < t->step_count; i++) lt_pattern_free(t->steps[i].pattern);
    for (int i = 0; i < PASSES; i++) lt_added_set_clear(&t->added[i]);
    lt_vocabulary_free(t->vocabulary);
    lt_bpe_free(t->merges);
    lt_bytes_clear(&t->joined);
    lt_ids_clear(&t->piece);
    free(t);
}

void lt_ids_clear(lt_ids *ids)
{
    free(ids->at);
    *ids = (lt_ids){0};
}
