/* added.h: tokens that are cut out of a text before anything else happens to it. */
#ifndef LT_ADDED_H
#define LT_ADDED_H

#include "tokenizer.h"

typedef struct {
    lt_added *at; /* their texts are ours */
    size_t count, cap;
    bool begins[256]; /* does one begin with this byte? */
} lt_added_set;       /* all zero is empty */

typedef struct {
    const lt_added *token; /* NULL: none */
    size_t from, to;       /* with the white space that it takes */
} lt_added_match;

int lt_added_set_add(lt_added_set *s, const lt_added *a, lt_err *err);
int lt_added_set_sort(lt_added_set *s, lt_err *err); /* before the first search; no text twice */
/* The first token in text at or behind `from`; of several at one place the longest. */
lt_added_match lt_added_set_search(const lt_added_set *s, lt_span text, size_t from);
const lt_added *lt_added_set_find(const lt_added_set *s, lt_span text); /* that is text; or NULL */
void lt_added_set_clear(lt_added_set *s);

#endif
