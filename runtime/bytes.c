/* bytes.c: a growing run of bytes, borrowed spans, and their SHA-256. */
#include "lathe.h"

#include <sha2.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for len more bytes and a zero behind them. */
static int reserve(lt_bytes *b, size_t len, lt_err *err)
{
    if (len >= SIZE_MAX / 2 - b->len) return lt_fail(err, "bytes: %zu more are too many", len);
    const size_t need = b->len + len + 1;
    if (need <= b->cap) return 0;
    const size_t cap = need < 64 ? 64 : need + b->cap / 2;
    char *ptr = realloc(b->ptr, cap);
    if (!ptr) return lt_fail(err, "bytes: out of memory for %zu", cap);
    b->ptr = ptr;
    b->cap = cap;
    return 0;
}

/* ptr must not point into b. */
int lt_bytes_append(lt_bytes *b, const void *ptr, size_t len, lt_err *err)
{
    if (reserve(b, len, err)) return -1;
    if (len) memcpy(b->ptr + b->len, ptr, len);
    b->len += len;
    b->ptr[b->len] = 0;
    return 0;
}

int lt_bytes_print(lt_bytes *b, lt_err *err, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0) return lt_fail(err, "bytes: '%s' cannot be printed", fmt);
    if (reserve(b, (size_t)n, err)) return -1;
    va_start(args, fmt);
    vsnprintf(b->ptr + b->len, (size_t)n + 1, fmt, args);
    va_end(args);
    b->len += (size_t)n;
    return 0;
}

void lt_bytes_clear(lt_bytes *b)
{
    free(b->ptr);
    *b = (lt_bytes){0};
}

lt_span lt_bytes_view(const lt_bytes *b)
{
    return (lt_span){b->ptr, b->len};
}

lt_span lt_span_text(const char *text)
{
    return (lt_span){text, strlen(text)};
}

void lt_sha256_hex(lt_span data, char out[65])
{
    static const char hex[] = "0123456789abcdef";
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX ctx;
    SHA256Init(&ctx);
    if (data.len) SHA256Update(&ctx, data.ptr, data.len);
    SHA256Final(digest, &ctx);
    for (int i = 0; i < SHA256_DIGEST_LENGTH; i++) {
        out[2 * i] = hex[digest[i] >> 4];
        out[2 * i + 1] = hex[digest[i] & 15];
    }
    out[64] = 0;
}
