/* weights.h: the tensors of a checkpoint: one table by name over any number of safetensors files.
 *
 * A lt_weights owns its files, which stay mapped: what lt_weights_at and _find give is valid
 * until lt_weights_free. Data may begin at any address, and there is more of it than memory: take
 * it through the functions below, which go piece by piece and give the pages back. */
#ifndef LT_WEIGHTS_H
#define LT_WEIGHTS_H

#include "tensor.h"

typedef struct lt_weights lt_weights;

typedef struct {
    const lt_tensor *tensor;
    size_t file; /* in the order of lt_weights_add, from 0 */
} lt_weight;

int lt_weights_new(lt_weights **out, lt_err *err);
void lt_weights_free(lt_weights *w);
/* Maps one more file. Refused, with nothing added: what lt_tensors_open refuses, and a name that
 * another file has already. */
int lt_weights_add(lt_weights *w, const char *path, lt_err *err);
size_t lt_weights_count(const lt_weights *w);
const lt_weight *lt_weights_at(const lt_weights *w, size_t i);           /* sorted by name */
const lt_weight *lt_weights_find(const lt_weights *w, const char *name); /* NULL: none */

/* Appends the names of the folder's *.safetensors files, sorted, one a line. */
int lt_weights_list(const char *folder, lt_bytes *names, lt_err *err);

/* A piece of a tensor's data; offset: from the data's begin. 0 goes on, anything else ends. */
typedef int lt_weights_take(void *ctx, size_t offset, lt_span piece);

/* Hands over bytes [offset, offset + bytes) of the data in order, at most piece_bytes at once, and
 * gives each piece's pages back after it. 0, or what take ended with. */
int lt_weights_each(const lt_tensor *t, size_t offset, size_t bytes, size_t piece_bytes,
                    lt_weights_take *take, void *ctx);
void lt_weights_read(const lt_tensor *t, size_t offset, void *to, size_t bytes);

/* Equal runs of bytes of a tensor's data: some columns of each of its rows. */
typedef struct {
    size_t offset, width, pitch, count; /* of the first; of each; from one to the next; how many */
} lt_weight_runs;

/* Do they lie apart and inside the data? */
bool lt_weights_hold(const lt_tensor *t, lt_weight_runs runs);
/* Copies them one behind the other. What lies between two of them is not asked for where it is two
 * pages or more: fewer may hold no whole one. */
void lt_weights_gather(const lt_tensor *t, lt_weight_runs runs, void *to);

bool lt_weights_equal(const lt_tensor *a, const lt_tensor *b); /* dtype, shape and every byte */

typedef struct {
    size_t nan, negative;             /* bytes that no scale can be: 0x7f or 0xff; a set sign */
    size_t first_nan, first_negative; /* elements; 0 where there is none */
} lt_scale_bytes;

/* Looks at every byte of an E4M3 tensor. */
void lt_weights_scan(const lt_tensor *t, lt_scale_bytes *out);

#endif
