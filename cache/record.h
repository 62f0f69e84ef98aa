/* record.h: a file of lines that several processes append to and that outlives them: what tuning
 * found, one file a device. Knows bytes and names, nothing of what a line says.
 *
 * Each line is sealed: it ends in a check of its own bytes, so that a torn, a mixed and a foreign
 * line are told from a whole one. A line is there whole or not at all, and stays whatever happens
 * to later ones. */
#ifndef LT_RECORD_H
#define LT_RECORD_H

#include "../runtime/lathe.h"

typedef struct lt_record lt_record;

/* Can a file be named so? */
bool lt_record_is_name(const char *name);
/* The file <cache>/tuned/<name>.tuned, which need not be there. A folder or a file that cannot be
 * used is no error before something is written: nothing is read then, which is said where there is
 * one. */
int lt_record_open(lt_record **out, const char *name, lt_err *err);
void lt_record_close(lt_record *r); /* lets go what is held */
const char *lt_record_path(const lt_record *r);
/* 0, or -1 with the reason why nothing can be written. */
int lt_record_check(const lt_record *r, lt_err *err);

/* Appends to lines all whole lines of the file, without their seals, each with its newline; bad:
 * how many others there are. A file that is not there has none; one that is held is there. */
int lt_record_read(lt_record *r, lt_bytes *lines, size_t *bad, lt_err *err);
/* The same for the text of any file. */
int lt_record_unseal(lt_span text, lt_bytes *lines, size_t *bad, lt_err *err);
/* Seals a line, which has no newline, and appends it; on the disk when this returns. -1: the file
 * is as it was. */
int lt_record_append(lt_record *r, lt_span line, lt_err *err);

/* Until it is replaced or closed no other process writes the file; waits for one that does. */
int lt_record_hold(lt_record *r, lt_err *err);
/* Puts these lines, each with its newline, in the place of all and lets go; the record must be
 * held. Readers see the old file or the new one. -1: the old one is as it was, and still held. */
int lt_record_replace(lt_record *r, lt_span lines, lt_err *err);

#endif
