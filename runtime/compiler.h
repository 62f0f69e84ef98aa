/* compiler.h: which compiler is here, without loading it. Its identity is part of every key, so it
 * is remembered in a note beside the cache, with the library's path, size and time. */
#ifndef LT_COMPILER_H
#define LT_COMPILER_H

#include "../cache/store.h"
#include "cuda/nvrtc.h"

/* From the note; where that is missing or the library has changed, from the compiler itself (a
 * child process and an empty compile), which renews the note. -1: no compiler, err says why. */
int lt_compiler_find(lt_store *s, lt_nvrtc_compiler *out, lt_err *err);
/* From the compiler itself; renews the note. */
int lt_compiler_ask(lt_store *s, lt_nvrtc_compiler *out, lt_err *err);

#endif
