/* entry.h: an entry as bytes, and the names of files. Only for cache/. */
#ifndef LT_ENTRY_H
#define LT_ENTRY_H

#include "store.h"

enum {
    LT_FILE_BYTES = 256,  /* a file's name with its zero */
    LT_ENTRY_DIGITS = 16, /* of the key in a file's name */
};

/* A part of an entry, in this order: 8 bytes of length, little-endian, then the bytes. */
enum { LT_PART_NAME, LT_PART_KEY, LT_PART_TEXT, LT_PART_LOG, LT_PART_IMAGE, LT_PARTS };

/* -1: the name cannot be a file's, or the key is no SHA-256. */
int lt_entry_name_file(const char *name, const char *key, char file[LT_FILE_BYTES], lt_err *err);
int lt_entry_name_note(const char *name, char file[LT_FILE_BYTES], lt_err *err);
bool lt_entry_is_file(const char *file); /* <name>.<16 hex> */

int lt_entry_encode(const char *name, const lt_entry *e, lt_bytes *body, lt_err *err);
/* The parts borrow from body; key: of its key text. -1: body is not what the file's name promises,
 * err says why. */
int lt_entry_check(lt_span body, const char *file, lt_span parts[LT_PARTS], char key[65],
                   lt_err *err);
int lt_entry_copy(const lt_span parts[LT_PARTS], lt_entry *out, lt_err *err);

#endif
