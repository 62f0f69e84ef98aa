/* embedded.h: the project's own files inside the program; the table is written by tools/embed.lua
 * when the program is built. */
#ifndef LT_EMBEDDED_H
#define LT_EMBEDDED_H

#include <stddef.h>

typedef struct {
    const char *name; /* as in the repository; argparse is "lib/argparse.lua" */
    const void *ptr;
    size_t len;
} lt_embedded;

extern const lt_embedded lt_embedded_files[]; /* sorted by name */
extern const size_t lt_embedded_count;

#endif
