/* tensor.c: safetensors: eight bytes of header length, a JSON header, the data.
 *
 * The reader knows just the JSON that a header may hold: one object of tensors, each an object of
 * dtype, shape and data_offsets, and an optional __metadata__ of strings. Nothing is nested deeper,
 * so nothing here recurses. */
#include "tensor.h"
#include "utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_HEADER (100u << 20) /* bytes; the format's own limit */

struct lt_tensors {
    const uint8_t *map;
    size_t bytes;
    lt_tensor *list;
    size_t count, cap;
    char *names; /* zero-terminated, one after another; as large as the header, which is longer */
    size_t names_bytes;
};

typedef struct {
    const char *name;
    size_t bytes;
} dtype;

static const dtype dtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
    {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},     {"U32", 4},
    {"F32", 4},  {"I64", 8}, {"U64", 8}, {"F64", 8},
};

static const dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < lt_countof(dtypes); i++)
        if (!strcmp(name, dtypes[i].name)) return &dtypes[i];
    return NULL;
}

size_t lt_tensor_dtype_bytes(const char *name)
{
    const dtype *d = find_dtype(name);
    return d ? d->bytes : 0;
}

/* ---- the header's JSON ---- */

typedef struct {
    const uint8_t *at, *end, *begin;
    lt_bytes text; /* of the last string, zero-terminated */
    lt_err *err;
} reader;

static int bad(reader *r, const char *what)
{
    return lt_fail(r->err, "header byte %zu: %s", (size_t)(r->at - r->begin), what);
}

static void skip_space(reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

/* Takes c if it is next. */
static bool take(reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != (uint8_t)c) return false;
    r->at++;
    return true;
}

static int expect(reader *r, char c)
{
    const char what[] = {'\'', c, '\'', ' ', 'e', 'x', 'p', 'e', 'c', 't', 'e', 'd', 0};
    return take(r, c) ? 0 : bad(r, what);
}

static int append_utf8(reader *r, uint32_t code)
{
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    const int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    uint8_t out[4];
    for (int i = n - 1; i > 0; i--, code >>= 6) out[i] = (uint8_t)(0x80 | (code & 63));
    out[0] = (uint8_t)(lead[n - 1] | code);
    return lt_bytes_append(&r->text, out, (size_t)n, r->err);
}

/* Four hex digits behind \u. */
static int read_hex(reader *r, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const int c = r->at < r->end ? *r->at : 0;
        const int lower = c | 32;
        if (c >= '0' && c <= '9')
            *out = *out * 16 + (uint32_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            *out = *out * 16 + (uint32_t)(lower - 'a' + 10);
        else
            return bad(r, "four hex digits expected");
    }
    return 0;
}

/* Behind a backslash. */
static int read_escape(reader *r)
{
    static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    const uint8_t c = r->at < r->end ? *r->at++ : 0;
    const char *place = c ? strchr(plain, c) : NULL;
    if (place) return lt_bytes_append(&r->text, &means[place - plain], 1, r->err);
    if (c != 'u') return bad(r, "no such escape");
    uint32_t code, low;
    if (read_hex(r, &code)) return -1;
    if (code == 0) return bad(r, "a zero inside a name");
    if (code < 0xd800 || code > 0xdfff) return append_utf8(r, code);
    if (code > 0xdbff || r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
        return bad(r, "half of a surrogate pair");
    r->at += 2;
    if (read_hex(r, &low)) return -1;
    if (low < 0xdc00 || low > 0xdfff) return bad(r, "half of a surrogate pair");
    return append_utf8(r, 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00));
}

static int read_string(reader *r)
{
    r->text.len = 0;
    if (expect(r, '"')) return -1;
    for (;;) {
        if (r->at == r->end) return bad(r, "the string does not end");
        if (*r->at == '"') break;
        if (*r->at == '\\') {
            r->at++;
            if (read_escape(r)) return -1;
            continue;
        }
        const lt_utf8 c = lt_utf8_read((lt_span){r->at, (size_t)(r->end - r->at)});
        if (c.kind != LT_UTF8_WHOLE) return bad(r, "not UTF-8");
        if (c.code < 0x20) return bad(r, "a control character inside a string");
        if (lt_bytes_append(&r->text, r->at, c.bytes, r->err)) return -1;
        r->at += c.bytes;
    }
    r->at++;
    return lt_bytes_append(&r->text, "", 0, r->err); /* so that an empty one ends in a zero too */
}

/* A whole number from 0 to 2^63 - 1, without sign, fraction or exponent. */
static int read_number(reader *r, int64_t *out)
{
    skip_space(r);
    const uint8_t *first = r->at;
    uint64_t value = 0;
    for (; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        const uint64_t digit = *r->at - '0';
        if (value > (INT64_MAX - digit) / 10) return bad(r, "the number is too large");
        value = value * 10 + digit;
    }
    if (r->at == first) return bad(r, "a whole number of 0 or more expected");
    if (*first == '0' && r->at - first > 1) return bad(r, "a number begins with 0");
    if (r->at < r->end && (*r->at == '.' || (*r->at | 32) == 'e'))
        return bad(r, "the number is not written as a whole one");
    *out = (int64_t)value;
    return 0;
}

/* [1, 2, 3]: at most `most` numbers. */
static int read_numbers(reader *r, int64_t *out, int most, int *count)
{
    *count = 0;
    if (expect(r, '[')) return -1;
    if (take(r, ']')) return 0;
    do {
        if (*count == most) return bad(r, "too many numbers");
        if (read_number(r, &out[(*count)++])) return -1;
    } while (take(r, ','));
    return expect(r, ']');
}

/* ---- the entries ---- */

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4 };

/* One "key": value of a tensor. offsets: where its data lie, from the end of the header. */
static int read_field(reader *r, lt_tensor *t, int64_t offsets[2], unsigned *seen)
{
    unsigned field;
    int count;
    if (read_string(r)) return -1;
    if (!strcmp(r->text.ptr, "dtype"))
        field = HAS_DTYPE;
    else if (!strcmp(r->text.ptr, "shape"))
        field = HAS_SHAPE;
    else if (!strcmp(r->text.ptr, "data_offsets"))
        field = HAS_OFFSETS;
    else
        return bad(r, "not one of dtype, shape and data_offsets");
    if (*seen & field) return bad(r, "a field is given twice");
    *seen |= field;
    if (expect(r, ':')) return -1;
    if (field == HAS_SHAPE) return read_numbers(r, t->shape, LT_TENSOR_RANK, &t->rank);
    if (field == HAS_OFFSETS) {
        if (read_numbers(r, offsets, 2, &count)) return -1;
        return count == 2 ? 0 : bad(r, "data_offsets needs two numbers");
    }
    if (read_string(r)) return -1;
    const dtype *d = find_dtype(r->text.ptr);
    if (!d) return lt_fail(r->err, "unknown dtype '%.40s'", r->text.ptr);
    t->dtype = d->name;
    return 0;
}

/* The bytes of a tensor; -1 when they are more than a file can hold. */
static int64_t bytes_of(const lt_tensor *t)
{
    int64_t bytes = (int64_t)lt_tensor_dtype_bytes(t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0) return 0;
    for (int i = 0; i < t->rank; i++)
        if (__builtin_mul_overflow(bytes, t->shape[i], &bytes)) return -1;
    return bytes;
}

static int check_offsets(reader *r, const lt_tensor *t, const int64_t offsets[2], size_t data_bytes)
{
    if (offsets[1] < offsets[0]) return lt_fail(r->err, "its data end before they begin");
    if ((uint64_t)offsets[1] > data_bytes)
        return lt_fail(r->err, "its data end at byte %lld of %zu (the file is incomplete)",
                       (long long)offsets[1], data_bytes);
    const int64_t want = bytes_of(t);
    if (want < 0) return lt_fail(r->err, "its shape is larger than any file");
    if (want != offsets[1] - offsets[0])
        return lt_fail(r->err, "its data have %lld bytes, its dtype and shape need %lld",
                       (long long)(offsets[1] - offsets[0]), (long long)want);
    return 0;
}

/* The object behind a tensor's name. */
static int read_tensor(reader *r, lt_tensor *t, const uint8_t *data, size_t data_bytes)
{
    int64_t offsets[2] = {0};
    unsigned seen = 0;
    if (expect(r, '{')) return -1;
    do {
        if (read_field(r, t, offsets, &seen)) return -1;
    } while (take(r, ','));
    if (expect(r, '}')) return -1;
    if (seen != (HAS_DTYPE | HAS_SHAPE | HAS_OFFSETS))
        return lt_fail(r->err, "%s is missing",
                       !(seen & HAS_DTYPE)   ? "dtype"
                       : !(seen & HAS_SHAPE) ? "shape"
                                             : "data_offsets");
    if (check_offsets(r, t, offsets, data_bytes)) return -1;
    t->data = (lt_span){data + offsets[0], (size_t)(offsets[1] - offsets[0])};
    return 0;
}

static int read_metadata(reader *r)
{
    if (expect(r, '{')) return -1;
    if (take(r, '}')) return 0;
    do {
        if (read_string(r) || expect(r, ':') || read_string(r)) return -1;
    } while (take(r, ','));
    return expect(r, '}');
}

/* Adds the tensor whose name was just read. */
static int add_tensor(lt_tensors *t, reader *r, const uint8_t *data, size_t data_bytes)
{
    if (t->count == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 64;
        lt_tensor *list = realloc(t->list, cap * sizeof *list);
        if (!list) return lt_fail(r->err, "out of memory for %zu tensors", cap);
        t->list = list;
        t->cap = cap;
    }
    lt_tensor *entry = &t->list[t->count];
    *entry = (lt_tensor){.name = t->names + t->names_bytes};
    memcpy(t->names + t->names_bytes, r->text.ptr, r->text.len + 1);
    t->names_bytes += r->text.len + 1;
    if (expect(r, ':')) return -1;
    if (read_tensor(r, entry, data, data_bytes))
        return lt_wrap(r->err, "tensor '%.200s'", entry->name);
    t->count++;
    return 0;
}

static int read_header(lt_tensors *t, reader *r)
{
    const uint8_t *data = r->end;
    const size_t data_bytes = t->bytes - (size_t)(data - t->map);
    bool metadata = false;
    if (r->at == r->end || *r->at != '{') return bad(r, "'{' expected");
    r->at++;
    if (!take(r, '}')) {
        do {
            if (read_string(r)) return -1;
            if (strcmp(r->text.ptr, "__metadata__")) {
                if (add_tensor(t, r, data, data_bytes)) return -1;
                continue;
            }
            if (metadata) return bad(r, "__metadata__ is given twice");
            metadata = true;
            if (expect(r, ':') || read_metadata(r)) return -1;
        } while (take(r, ','));
        if (expect(r, '}')) return -1;
    }
    skip_space(r);
    return r->at == r->end ? 0 : bad(r, "something follows the header's object");
}

/* ---- what must hold between entries ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const lt_tensor *)a)->name, ((const lt_tensor *)b)->name);
}

static int by_place(const void *a, const void *b)
{
    const lt_span x = ((const lt_tensor *)a)->data, y = ((const lt_tensor *)b)->data;
    if (x.ptr != y.ptr) return (uintptr_t)x.ptr < (uintptr_t)y.ptr ? -1 : 1;
    return x.len < y.len ? -1 : x.len > y.len;
}

/* Every byte of data belongs to exactly one tensor. */
static int check_places(lt_tensors *t, const uint8_t *data, lt_err *err)
{
    const uint8_t *at = data;
    if (t->count) qsort(t->list, t->count, sizeof *t->list, by_place);
    for (size_t i = 0; i < t->count; i++) {
        const lt_tensor *x = &t->list[i];
        const uint8_t *begin = x->data.ptr;
        if (begin < at)
            return lt_fail(err, "tensor '%.200s': shares bytes with '%.200s'", x->name,
                           t->list[i - 1].name);
        if (begin > at)
            return lt_fail(err, "tensor '%.200s': %zu bytes in front of it belong to no tensor",
                           x->name, (size_t)(begin - at));
        at = begin + x->data.len;
    }
    const size_t left = (size_t)(t->map + t->bytes - at);
    return left ? lt_fail(err, "%zu bytes at its end belong to no tensor", left) : 0;
}

static int check_names(lt_tensors *t, lt_err *err)
{
    if (t->count) qsort(t->list, t->count, sizeof *t->list, by_name);
    for (size_t i = 1; i < t->count; i++)
        if (!strcmp(t->list[i].name, t->list[i - 1].name))
            return lt_fail(err, "tensor '%.200s': is there twice", t->list[i].name);
    return 0;
}

/* ---- the file ---- */

static int map_file(lt_tensors *t, const char *path, lt_err *err)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait here */
    if (fd < 0) return lt_fail(err, "cannot be opened: %s", strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return lt_fail(err, "is not a file");
    }
    t->bytes = (size_t)st.st_size;
    void *map = t->bytes ? mmap(NULL, t->bytes, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    const int reason = errno;
    close(fd);
    if (map == MAP_FAILED) return lt_fail(err, "cannot be mapped: %s", strerror(reason));
    t->map = map;
    return 0;
}

static int read_file(lt_tensors *t, lt_err *err)
{
    if (t->bytes < 8) return lt_fail(err, "has %zu bytes, a header needs 8 or more", t->bytes);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | t->map[i];
    if (length > MAX_HEADER || length > t->bytes - 8)
        return lt_fail(err, "says its header has %llu bytes, in a file of %zu",
                       (unsigned long long)length, t->bytes);
    const uint8_t *header = t->map + 8;
    t->names = malloc((size_t)length + 1);
    if (!t->names) return lt_fail(err, "out of memory for its header");
    reader r = {header, header + length, header, {0}, err};
    const int failed = read_header(t, &r);
    lt_bytes_clear(&r.text);
    if (failed) return -1;
    return check_places(t, header + length, err) ? -1 : check_names(t, err);
}

int lt_tensors_open(lt_tensors **out, const char *path, lt_err *err)
{
    lt_tensors *t = calloc(1, sizeof *t);
    if (!t) return lt_fail(err, "%s: out of memory", path);
    if (map_file(t, path, err) || read_file(t, err)) goto fail;
    *out = t;
    return 0;
fail:
    lt_tensors_close(t);
    return lt_wrap(err, "%s", path);
}

void lt_tensors_close(lt_tensors *t)
{
    if (!t) return;
    if (t->map) munmap((void *)(uintptr_t)t->map, t->bytes);
    free(t->list);
    free(t->names);
    free(t);
}

size_t lt_tensors_count(const lt_tensors *t)
{
    return t->count;
}

const lt_tensor *lt_tensors_at(const lt_tensors *t, size_t i)
{
    return &t->list[i];
}

const lt_tensor *lt_tensors_find(const lt_tensors *t, const char *name)
{
    const lt_tensor key = {.name = name};
    return t->count ? bsearch(&key, t->list, t->count, sizeof key, by_name) : NULL;
}
