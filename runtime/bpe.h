/* bpe.h: byte pair encoding: which two neighbours become one token, and in which order.
 *
 * An lt_bpe owns its table and the memory that merging needs. */
#ifndef LT_BPE_H
#define LT_BPE_H

#include "lathe.h"

typedef struct lt_bpe lt_bpe;

int lt_bpe_new(lt_bpe **out, lt_err *err);
void lt_bpe_free(lt_bpe *b);
/* left and right become id. What is added earlier is merged earlier; of a pair that is added twice
 * the later one counts. */
int lt_bpe_add(lt_bpe *b, int32_t left, int32_t right, int32_t id, lt_err *err);
/* Merges ids[0..*count) in place: the earliest pair of the table first, of equal ones the leftmost.
 * Time: count * log(count). */
int lt_bpe_merge(lt_bpe *b, int32_t *ids, size_t *count, lt_err *err);

#endif
