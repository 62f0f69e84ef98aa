/* tensor_write.c: a safetensors file that appears whole or not at all. */
#include "tensor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static int write_all(int fd, lt_span data, lt_err *err)
{
    const char *at = data.ptr;
    for (size_t left = data.len; left;) {
        const ssize_t n = write(fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return lt_fail(err, "cannot be written: %s", strerror(errno));
        at += n;
        left -= (size_t)n;
    }
    return 0;
}

static int write_file(int fd, lt_span header, const lt_tensor *list, size_t count, lt_err *err)
{
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)header.len >> 8 * i);
    if (write_all(fd, (lt_span){length, sizeof length}, err) || write_all(fd, header, err))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (write_all(fd, list[i].data, err)) return -1;
    return fsync(fd) ? lt_fail(err, "cannot be written: %s", strerror(errno)) : 0;
}

int lt_tensors_write(const char *path, const lt_tensor *list, size_t count, lt_err *err)
{
    lt_bytes header = {0}, private = {0};
    int fd = -1;
    if (put_header(&header, list, count, err)) goto fail;
    if (lt_bytes_print(&private, err, "%s.%ld.part", path, (long)getpid())) goto fail;
    fd = open(private.ptr, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        lt_fail(err, "cannot be made: %s", strerror(errno));
        goto fail;
    }
    if (write_file(fd, lt_bytes_view(&header), list, count, err)) goto fail;
    if (close(fd) || rename(private.ptr, path)) {
        lt_fail(err, "cannot be made: %s", strerror(errno));
        unlink(private.ptr);
        fd = -1;
        goto fail;
    }
    lt_bytes_clear(&header);
    lt_bytes_clear(&private);
    return 0;
fail:
    if (fd >= 0) {
        close(fd);
        unlink(private.ptr);
    }
    lt_bytes_clear(&header);
    lt_bytes_clear(&private);
    return lt_wrap(err, "%s", path);
}
