/* tokenizer.h: text <-> ids by byte-level BPE.
 *
 * A tokenizer is filled, in this order: the vocabulary, the merges, the added tokens; steps and
 * settings at any time. lt_tokenizer_ready ends that: before it nothing is encoded, behind it
 * nothing is added. It owns copies of all that it was given; spans that it gives are valid until it
 * is freed.
 *
 * Encoding: added tokens are cut out first, the longest where several begin at one place; what
 * stands between them goes through the steps in the order of their adding; the bytes of each piece
 * are merged. Nothing is put around the text: no template of a post-processor, no token of begin.
 */
#ifndef LT_TOKENIZER_H
#define LT_TOKENIZER_H

#include "lathe.h"
#include "utf8.h"

typedef struct lt_tokenizer lt_tokenizer;

typedef struct {
    int32_t *at;
    size_t count, cap;
} lt_ids; /* owned; all zero is empty */

typedef struct {
    int id;
    lt_span text;        /* as it stands in a prompt */
    bool special;        /* a control token: streams leave it out */
    bool normalized;     /* matched only where no added token without this mark is */
    bool lstrip, rstrip; /* takes the white space in front of it, behind it, too */
} lt_added;

typedef enum {
    LT_SPLIT_ALL,     /* matches and what lies between them are pieces */
    LT_SPLIT_MATCHES, /* only matches are, the rest is dropped */
    LT_SPLIT_GAPS     /* only what lies between */
} lt_split;

enum { LT_TOKENIZER_IDS = 1 << 22, LT_TOKENIZER_STEPS = 16 }; /* at most */

int lt_tokenizer_new(lt_tokenizer **out, lt_err *err);
void lt_tokenizer_free(lt_tokenizer *t);

/* text: in the alphabet of byte-level files, where a character stands for each byte (a space is
 * U+0120). With characters outside of that alphabet it is a token that only decodes: to itself. */
int lt_tokenizer_add_token(lt_tokenizer *t, int id, lt_span text, lt_err *err);
/* Both, and what they make together, must be in the vocabulary. Earlier merges go first. */
int lt_tokenizer_add_merge(lt_tokenizer *t, lt_span left, lt_span right, lt_err *err);
/* In the vocabulary with the same id, or in none. */
int lt_tokenizer_add_added(lt_tokenizer *t, const lt_added *a, lt_err *err);
int lt_tokenizer_add_split(lt_tokenizer *t, lt_span pattern, lt_split keep, lt_err *err);
/* A step: puts a space in front of each piece that begins with none. */
int lt_tokenizer_add_space(lt_tokenizer *t, lt_err *err);
/* A piece that is a token is that token, whatever the merges would make of it. */
void lt_tokenizer_set_ignore_merges(lt_tokenizer *t, bool on);
/* Unicode's NFC. It leaves all below U+0300 as it is; other text is refused, not normalized. */
void lt_tokenizer_set_nfc(lt_tokenizer *t, bool on);
int lt_tokenizer_ready(lt_tokenizer *t, lt_err *err);

/* Appends. text must be UTF-8. */
int lt_tokenizer_encode(lt_tokenizer *t, lt_span text, lt_ids *out, lt_err *err);
/* The bytes that id stands for: not always whole characters. */
int lt_tokenizer_bytes(const lt_tokenizer *t, int id, lt_span *out, lt_err *err);
/* Appends the bytes of all ids. */
int lt_tokenizer_decode(const lt_tokenizer *t, const int32_t *ids, size_t count, lt_bytes *out,
                        lt_err *err);
/* Appends the characters that id completes; nothing for a special token, U+FFFD for an id that is
 * none: a model may have more tokens than its tokenizer. */
int lt_tokenizer_push(const lt_tokenizer *t, lt_utf8_stream *s, int id, lt_bytes *out, lt_err *err);

int lt_tokenizer_count(const lt_tokenizer *t); /* the largest id + 1 */
bool lt_tokenizer_is_special(const lt_tokenizer *t, int id);
int lt_tokenizer_find(const lt_tokenizer *t, lt_span text); /* id of an added token; -1: none */

void lt_ids_clear(lt_ids *ids); /* frees and zeroes */

#endif
