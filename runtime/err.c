/* err.c: one sentence about what went wrong, built from the inside out. */
#include "lathe.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Writes the sentence into err, if there is one, and returns -1. */
int lt_fail(lt_err *err, const char *fmt, ...)
{
    if (!err) return -1;
    va_list args;
    va_start(args, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    return -1;
}

/* Puts "where: " in front of the sentence that err holds and returns -1. What does not fit is cut
 * off at the end. */
int lt_wrap(lt_err *err, const char *fmt, ...)
{
    if (!err) return -1;
    char inner[sizeof err->text];
    memcpy(inner, err->text, sizeof inner);
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n;
    if (used < sizeof err->text - 2) {
        err->text[used++] = ':';
        err->text[used++] = ' ';
        const size_t room = sizeof err->text - used - 1, len = strnlen(inner, sizeof inner);
        memcpy(err->text + used, inner, len < room ? len : room);
        err->text[used + (len < room ? len : room)] = 0;
    }
    return -1;
}
