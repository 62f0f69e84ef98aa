/* vocabulary.h: the tokens of a tokenizer, by id and by text.
 *
 * Files write a token in an alphabet of 256 characters, one for each byte: printable ones of
 * Latin-1 stand for themselves, U+0100 and up for the others in order. A token with any other
 * character is literal: its text is UTF-8 as it stands, and no bytes of a text ever lead to it.
 * Spans that are given are valid until the next token is added. */
#ifndef LT_VOCABULARY_H
#define LT_VOCABULARY_H

#include "lathe.h"

typedef struct lt_vocabulary lt_vocabulary;

int lt_vocabulary_new(lt_vocabulary **out, lt_err *err);
void lt_vocabulary_free(lt_vocabulary *v);
/* A token as it stands in the file. Its id and its text must be new. */
int lt_vocabulary_add(lt_vocabulary *v, int id, lt_span text, lt_err *err);
/* An added token, which decodes to its text as it stands. Its id is that of the token with the same
 * text in the file, or new, as the text then is. */
int lt_vocabulary_add_literal(lt_vocabulary *v, int id, lt_span text, bool special, lt_err *err);
/* *id of a token as it stands in the file; -1: none. */
int lt_vocabulary_find(lt_vocabulary *v, lt_span text, int *id, lt_err *err);
int lt_vocabulary_find_bytes(const lt_vocabulary *v, lt_span bytes); /* id; -1: none */
bool lt_vocabulary_has(const lt_vocabulary *v, int id);
bool lt_vocabulary_is_special(const lt_vocabulary *v, int id);
lt_span lt_vocabulary_bytes(const lt_vocabulary *v, int id); /* of an id that it has */
int lt_vocabulary_count(const lt_vocabulary *v);             /* the largest id + 1 */

#endif
