/* entry.c: an entry as bytes, and the names of files. */
#include "entry.h"

#include <stdio.h>
#include <string.h>

enum {
    NAME_LIMIT = 200, /* leaves room for ".<16 hex>.lock" in the 255 bytes of a file's name */
    LENGTH_BYTES = 8,
};

static bool is_hex(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") >= n;
}

static int check_name(const char *name, lt_err *err)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    const size_t n = strlen(name);
    if (n == 0 || n > NAME_LIMIT || name[0] == '.' || strspn(name, legal) != n)
        return lt_fail(err, "cache: '%s' cannot name an entry (letters, digits, _ - . only)", name);
    return 0;
}

int lt_entry_name_file(const char *name, const char *key, char file[LT_FILE_BYTES], lt_err *err)
{
    if (check_name(name, err)) return -1;
    if (strlen(key) != 64 || !is_hex(key, 64))
        return lt_fail(err, "cache: '%s' is no key (64 hex digits)", key);
    snprintf(file, LT_FILE_BYTES, "%s.%.*s", name, LT_ENTRY_DIGITS, key);
    return 0;
}

int lt_entry_name_note(const char *name, char file[LT_FILE_BYTES], lt_err *err)
{
    if (check_name(name, err)) return -1;
    snprintf(file, LT_FILE_BYTES, "%s.note", name);
    return 0;
}

bool lt_entry_is_file(const char *file)
{
    const char *dot = strrchr(file, '.');
    return dot && file[0] != '.' && strlen(dot) == 1 + LT_ENTRY_DIGITS &&
           is_hex(dot + 1, LT_ENTRY_DIGITS);
}

static int add_part(lt_bytes *body, lt_span part, lt_err *err)
{
    unsigned char length[LENGTH_BYTES];
    for (int i = 0; i < LENGTH_BYTES; i++) length[i] = (unsigned char)(part.len >> (8 * i));
    if (lt_bytes_append(body, length, sizeof length, err)) return -1;
    return lt_bytes_append(body, part.ptr, part.len, err);
}

int lt_entry_encode(const char *name, const lt_entry *e, lt_bytes *body, lt_err *err)
{
    const lt_span parts[LT_PARTS] = {lt_span_text(name), lt_bytes_view(&e->key_text),
                                     lt_bytes_view(&e->text), lt_bytes_view(&e->log),
                                     lt_bytes_view(&e->image)};
    for (int i = 0; i < LT_PARTS; i++)
        if (add_part(body, parts[i], err)) return -1;
    return 0;
}

static int split(lt_span body, lt_span parts[LT_PARTS])
{
    const unsigned char *at = body.ptr;
    size_t left = body.len;
    for (int i = 0; i < LT_PARTS; i++) {
        uint64_t length = 0;
        if (left < LENGTH_BYTES) return -1;
        for (int b = 0; b < LENGTH_BYTES; b++) length |= (uint64_t)at[b] << (8 * b);
        at += LENGTH_BYTES;
        left -= LENGTH_BYTES;
        if (length > left) return -1;
        parts[i] = (lt_span){at, (size_t)length};
        at += length;
        left -= (size_t)length;
    }
    return left ? -1 : 0;
}

int lt_entry_check(lt_span body, const char *file, lt_span parts[LT_PARTS], char key[65],
                   lt_err *err)
{
    if (split(body, parts)) return lt_fail(err, "its parts do not fill it");
    lt_sha256_hex(parts[LT_PART_KEY], key);
    const lt_span name = parts[LT_PART_NAME];
    const bool same = strlen(file) == name.len + 1 + LT_ENTRY_DIGITS &&
                      memcmp(file, name.ptr, name.len) == 0 && file[name.len] == '.' &&
                      memcmp(file + name.len + 1, key, LT_ENTRY_DIGITS) == 0;
    if (same) return 0;
    return lt_fail(err, "it holds '%.*s.%.*s'", name.len < NAME_LIMIT ? (int)name.len : NAME_LIMIT,
                   (const char *)name.ptr, LT_ENTRY_DIGITS, key);
}

int lt_entry_copy(const lt_span parts[LT_PARTS], lt_entry *out, lt_err *err)
{
    lt_entry e = {0};
    lt_bytes *const to[LT_PARTS] = {NULL, &e.key_text, &e.text, &e.log, &e.image};
    for (int i = LT_PART_KEY; i < LT_PARTS; i++)
        if (lt_bytes_append(to[i], parts[i].ptr, parts[i].len, err)) {
            lt_entry_clear(&e);
            return -1;
        }
    *out = e;
    return 0;
}

void lt_entry_clear(lt_entry *e)
{
    lt_bytes_clear(&e->key_text);
    lt_bytes_clear(&e->text);
    lt_bytes_clear(&e->log);
    lt_bytes_clear(&e->image);
}
