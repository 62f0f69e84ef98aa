/* frame.h: what the parent and the compiling child say to each other: a few texts, one after the
 * other, with their lengths in front. */
#ifndef LT_CUDA_FRAME_H
#define LT_CUDA_FRAME_H

#include "../lathe.h"

enum { LT_FRAME_PARTS = 5 };

/* ORDER FRAME: frame.c counts on LT_FRAME_PARTS of each */
enum { LT_ASK_LIBRARY, LT_ASK_ARCH, LT_ASK_OPTIONS, LT_ASK_NAME, LT_ASK_TEXT };
enum { LT_ANSWER_ERROR, LT_ANSWER_IMAGE, LT_ANSWER_LOG, LT_ANSWER_IDENTITY, LT_ANSWER_LIBRARY };

int lt_frame_write(lt_bytes *out, const lt_span parts[LT_FRAME_PARTS], lt_err *err);
/* True once data holds the whole frame: the parts then borrow from it. */
bool lt_frame_read(lt_span data, lt_span parts[LT_FRAME_PARTS]);

#endif
