/* logits.h: what an array of numbers says about a run of the model: how likely a token is, and what
 * is no number. */
#ifndef LT_LOGITS_H
#define LT_LOGITS_H

#include "ctype.h"

#include <stddef.h>

/* -log(softmax(row)[target]) in double, the terms added in order. NaN where a logit is not finite
 * or target is outside. */
double lt_logits_nll(const float *row, size_t count, size_t target);
/* Elements that are infinite or NaN; those whose bytes equal before's do not count. before: NULL,
 * or an array of the same type and count. A type of whole numbers has none. */
size_t lt_logits_nonfinite(lt_ctype type, const void *data, const void *before, size_t count);

#endif
