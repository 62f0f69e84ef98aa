/* tensor_write.c: the bytes of a safetensors file. */
#include "tensor.h"

#include <string.h>

enum { ALIGN = 8 }; /* of the data's beginning, by spaces behind the header */

static int put_string(lt_bytes *b, const char *text, lt_err *err)
{
    if (lt_bytes_append(b, "\"", 1, err)) return -1;
    for (const char *c = text; *c; c++) {
        const bool quoted = *c == '"' || *c == '\\';
        if ((uint8_t)*c < 0x20) {
            if (lt_bytes_print(b, err, "\\u%04x", (unsigned)(uint8_t)*c)) return -1;
            continue;
        }
        if (quoted && lt_bytes_append(b, "\\", 1, err)) return -1;
        if (lt_bytes_append(b, c, 1, err)) return -1;
    }
    return lt_bytes_append(b, "\"", 1, err);
}

static int check_tensor(const lt_tensor *t, const lt_tensor *list, lt_err *err)
{
    size_t bytes = lt_tensor_dtype_bytes(t->dtype);
    if (!bytes) return lt_fail(err, "tensor '%s': unknown dtype '%s'", t->name, t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)t->shape[i], &bytes))
            return lt_fail(err, "tensor '%s': not a shape", t->name);
    if (bytes != t->data.len)
        return lt_fail(err, "tensor '%s': has %zu bytes, its dtype and shape need %zu", t->name,
                       t->data.len, bytes);
    for (; list < t; list++)
        if (!strcmp(list->name, t->name))
            return lt_fail(err, "tensor '%s': is there twice", t->name);
    return 0;
}

static int put_entry(lt_bytes *b, const lt_tensor *t, size_t *offset, lt_err *err)
{
    if (put_string(b, t->name, err) ||
        lt_bytes_print(b, err, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype))
        return -1;
    for (int i = 0; i < t->rank; i++)
        if (lt_bytes_print(b, err, "%s%lld", i ? "," : "", (long long)t->shape[i])) return -1;
    const size_t begin = *offset;
    *offset += t->data.len;
    return lt_bytes_print(b, err, "],\"data_offsets\":[%zu,%zu]}", begin, *offset);
}

static int put_header(lt_bytes *b, const lt_tensor *list, size_t count, lt_err *err)
{
    size_t offset = 0;
    if (lt_bytes_append(b, "{", 1, err)) return -1;
    for (size_t i = 0; i < count; i++) {
        if (i && lt_bytes_append(b, ",", 1, err)) return -1;
        if (check_tensor(&list[i], list, err) || put_entry(b, &list[i], &offset, err)) return -1;
    }
    if (lt_bytes_append(b, "}", 1, err)) return -1;
    while (b->len % ALIGN)
        if (lt_bytes_append(b, " ", 1, err)) return -1;
    return 0;
}

static int write_file(lt_whole *w, lt_span header, const lt_tensor *list, size_t count, lt_err *err)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header.len >> 8 * i);
    if (lt_whole_write(w, (lt_span){length, sizeof length}, err) || lt_whole_write(w, header, err))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (lt_whole_write(w, list[i].data, err)) return -1;
    return 0;
}

int lt_tensors_write(lt_whole *w, const lt_tensor *list, size_t count, lt_err *err)
{
    lt_bytes header = {0};
    int failed = put_header(&header, list, count, err) ? lt_wrap(err, "%s", w->path) : 0;
    failed = failed || write_file(w, lt_bytes_view(&header), list, count, err);
    lt_bytes_clear(&header);
    return failed ? -1 : 0;
}
