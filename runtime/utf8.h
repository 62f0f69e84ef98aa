/* utf8.h: characters of UTF-8 text, whole and broken.
 *
 * What is not UTF-8 becomes U+FFFD, one for each longest run of bytes that begins like a character:
 * F0 9F 8E "x" is one mark and an x, C0 80 are two marks, ED A0 80 three. */
#ifndef LT_UTF8_H
#define LT_UTF8_H

#include "lathe.h"

typedef enum {
    LT_UTF8_WHOLE, /* a character */
    LT_UTF8_CUT,   /* the text ends inside of it: more bytes could complete it */
    LT_UTF8_WRONG  /* no bytes could */
} lt_utf8_kind;

typedef struct {
    lt_utf8_kind kind;
    size_t bytes;  /* of the character, or that one U+FFFD stands for: 1 to 4 */
    uint32_t code; /* of a whole character */
} lt_utf8;

typedef struct {
    unsigned char held[4]; /* the beginning of a character that is not whole yet */
    size_t count;
} lt_utf8_stream; /* bytes in any portions -> whole characters; all zero is a new one */

lt_utf8 lt_utf8_read(lt_span text);  /* the first character; text is not empty */
size_t lt_utf8_prefix(lt_span text); /* bytes in front of the first that is wrong or cut */
/* Text for a message: its beginning, with \x0a for bytes that are not printed. Gives out. */
enum { LT_UTF8_SHOWN = 48 };
const char *lt_utf8_show(char out[LT_UTF8_SHOWN], lt_span text);
/* Appends to out what is certain by now: valid UTF-8, whole characters only. */
int lt_utf8_push(lt_utf8_stream *s, lt_span bytes, lt_bytes *out, lt_err *err);
/* The text has ended: a character that is not whole becomes one U+FFFD. The stream is new again. */
int lt_utf8_finish(lt_utf8_stream *s, lt_bytes *out, lt_err *err);

#endif
