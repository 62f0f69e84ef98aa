/* whole.h: a file that appears whole or not at all: it is written under a private name beside its
 * own, then synced and renamed. What is there already and is no regular file, a pipe or a terminal,
 * is written as it is. */
#ifndef LT_WHOLE_H
#define LT_WHOLE_H

#include "lathe.h"

typedef struct {
    int fd;
    char *path;    /* NULL: it is not open */
    char *private; /* NULL: path itself is written */
} lt_whole;        /* the caller's; all zero is one that is not open */

/* Sentences begin with the path. */
int lt_whole_open(lt_whole *w, const char *path, lt_err *err);
int lt_whole_write(lt_whole *w, lt_span data, lt_err *err);
int lt_whole_keep(lt_whole *w, lt_err *err); /* now the file is there; on failure it is not */
void lt_whole_clear(lt_whole *w);            /* what was not kept is gone */

#endif
