/* tensor.h: safetensors files: a strict reader over a mapping, a writer into a file that appears
 * whole or not at all.
 *
 * A reader owns its mapping and its names: what lt_tensors_at and lt_tensors_find give is valid
 * until lt_tensors_close. Data may begin at any address: read it by copying. */
#ifndef LT_TENSOR_H
#define LT_TENSOR_H

#include "whole.h"

enum { LT_TENSOR_RANK = 8 }; /* dimensions, at most */

typedef struct {
    const char *name;
    const char *dtype; /* as in the file: "BF16", "F8_E4M3" */
    int rank;
    int64_t shape[LT_TENSOR_RANK];
    lt_span data;
} lt_tensor;

typedef struct lt_tensors lt_tensors;

/* Refuses a file whose header says anything that its bytes do not bear out. */
int lt_tensors_open(lt_tensors **out, const char *path, lt_err *err);
void lt_tensors_close(lt_tensors *t);
size_t lt_tensors_count(const lt_tensors *t);
const lt_tensor *lt_tensors_at(const lt_tensors *t, size_t i);           /* sorted by name */
const lt_tensor *lt_tensors_find(const lt_tensors *t, const char *name); /* NULL: none */

/* Names must differ; data sizes must be those of the shapes. */
int lt_tensors_write(lt_whole *w, const lt_tensor *list, size_t count, lt_err *err);
/* Bytes of an element; 0 for a dtype that is none. */
size_t lt_tensor_dtype_bytes(const char *dtype);

#endif
