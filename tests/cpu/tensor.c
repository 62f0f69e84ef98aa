/* tensor.c: safetensors files: every broken header is refused with its reason, every valid one
 * loads, and a file that is written appears whole or not at all. */
#include "runtime/tensor.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256], path[300];

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/tensor-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/t.safetensors", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

/* A file with this length field, header and data. */
static void write_raw(uint64_t length, const char *header, size_t header_bytes, size_t data_bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (int i = 0; i < 8; i++) fputc((int)(length >> 8 * i & 0xff), f);
    fwrite(header, 1, header_bytes, f);
    for (size_t i = 0; i < data_bytes; i++) fputc((int)(i & 0xff), f);
    assert_int_equal(fclose(f), 0);
}

static void write_header(const char *header, size_t data_bytes)
{
    write_raw(strlen(header), header, strlen(header), data_bytes);
}

static void refused(const char *reason)
{
    lt_tensors *t = NULL;
    lt_err err = {{0}};
    if (lt_tensors_open(&t, path, &err) == 0) {
        lt_tensors_close(t);
        fail_msg("accepted, but should say: %s", reason);
    }
    assert_null(t);
    if (strncmp(err.text, path, strlen(path)) || !strstr(err.text, reason))
        fail_msg("'%s' does not say '%s'", err.text, reason);
}

static lt_tensors *accepted(void)
{
    lt_tensors *t = NULL;
    lt_err err = {{0}};
    if (lt_tensors_open(&t, path, &err)) fail_msg("refused: %s", err.text);
    return t;
}

#define T(offsets) "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" offsets "}}"
#define SHAPE(dtype, shape)                                                                        \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[0,4]}}"
#define PAIR(a, b)                                                                                 \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" a "},"                              \
    "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" b "}}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *reason;
} broken[] = {
    {"[]", 0, "'{' expected"},
    {" {}", 0, "'{' expected"},
    {"{", 0, "'\"' expected"},
    {"{}x", 0, "something follows the header's object"},
    {"{\"t\"}", 0, "':' expected"},
    {"{\"t\":1}", 0, "'{' expected"},
    {"{\"t\":{}}", 0, "'\"' expected"},
    {"{\"t\":{{{{", 0, "'\"' expected"},
    {"{\"t\":[[[[[[[[", 0, "'{' expected"},
    {"{,}", 0, "'\"' expected"},
    {T("[0,4]") ",", 4, "something follows"},
    {T("[0,4") "", 4, "']' expected"},
    {T("[4,0]"), 4, "its data end before they begin"},
    {T("[-1,4]"), 4, "a whole number of 0 or more expected"},
    {T("[0,5]"), 5, "its data have 5 bytes, its dtype and shape need 4"},
    {T("[0,3]"), 3, "its data have 3 bytes, its dtype and shape need 4"},
    {T("[0,4]"), 3, "its data end at byte 4 of 3 (the file is incomplete)"},
    {T("[0,4]"), 5, "1 bytes at its end belong to no tensor"},
    {T("[1,5]"), 5, "1 bytes in front of it belong to no tensor"},
    {T("[0,18446744073709551615]"), 4, "the number is too large"},
    {T("[0,9223372036854775807]"), 4, "its data end at byte 9223372036854775807 of 4"},
    {T("[0,4,8]"), 4, "too many numbers"},
    {T("[0]"), 4, "data_offsets needs two numbers"},
    {T("[0,4.0]"), 4, "the number is not written as a whole one"},
    {T("[0,4e0]"), 4, "the number is not written as a whole one"},
    {T("[0,04]"), 4, "a number begins with 0"},
    {T("[0,]"), 4, "a whole number of 0 or more expected"},
    {SHAPE("U8", "[4294967296,4294967296]"), 4, "its shape is larger than any file"},
    {SHAPE("U8", "[9223372036854775807,2]"), 4, "its shape is larger than any file"},
    {SHAPE("F32", "[-1]"), 4, "a whole number of 0 or more expected"},
    {SHAPE("F32", "[1.5]"), 4, "the number is not written as a whole one"},
    {SHAPE("F32", "[1e2]"), 4, "the number is not written as a whole one"},
    {SHAPE("F32", "[1,1,1,1,1,1,1,1,1]"), 4, "too many numbers"},
    {SHAPE("F33", "[1]"), 4, "unknown dtype 'F33'"},
    {SHAPE("f32", "[1]"), 4, "unknown dtype 'f32'"},
    {SHAPE("", "[1]"), 4, "unknown dtype ''"},
    {"{\"t\":{\"dtype\":4}}", 0, "'\"' expected"},
    {"{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "a field is given twice"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, "data_offsets is missing"},
    {"{\"t\":{\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "dtype is missing"},
    {"{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,4]}}", 4, "shape is missing"},
    {"{\"t\":{\"dtype\":\"U8\",\"extra\":{}}}", 4, "not one of dtype, shape and data_offsets"},
    {PAIR("[0,4]", "[3,7]"), 7, "tensor 'b': shares bytes with 'a'"},
    {PAIR("[0,4]", "[0,4]"), 4, "shares bytes with"},
    {PAIR("[0,4]", "[5,9]"), 9, "tensor 'b': 1 bytes in front of it belong to no tensor"},
    {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
     "\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
     2, "tensor 't': is there twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ is given twice"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "'\"' expected"},
    {"{\"__metadata__\":[]}", 0, "'{' expected"},
    {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "'\"' expected"},
    {"{\"a\\u0000b\":{}}", 0, "a zero inside a name"},
    {"{\"a\\q\":{}}", 0, "no such escape"},
    {"{\"\\u12g4\":{}}", 0, "four hex digits expected"},
    {"{\"\\ud800\":{}}", 0, "half of a surrogate pair"},
    {"{\"\\ud800\\u0041\":{}}", 0, "half of a surrogate pair"},
    {"{\"\\udc00\":{}}", 0, "half of a surrogate pair"},
    {"{\"\xff\":{}}", 0, "not UTF-8"},
    {"{\"\xc0\x80\":{}}", 0, "not UTF-8"},
    {"{\"\xed\xa0\x80\":{}}", 0, "not UTF-8"},
    {"{\"\xf4\x90\x80\x80\":{}}", 0, "not UTF-8"},
    {"{\"\xe2\x82\":{}}", 0, "not UTF-8"},
    {"{\"a\nb\":{}}", 0, "a control character inside a string"},
    {"{\"abc", 0, "the string does not end"},
    {"{\"abc\\", 0, "no such escape"},
};

static void broken_headers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < lt_countof(broken); i++) {
        write_header(broken[i].header, broken[i].data_bytes);
        refused(broken[i].reason);
    }
}

static void broken_lengths_are_refused(void **state)
{
    (void)state;
    const char *header = "{}      ";
    const uint64_t lengths[] = {9,
                                UINT64_C(1) << 31,
                                UINT64_C(1) << 63,
                                UINT64_MAX,
                                UINT64_MAX - 7,
                                UINT64_MAX - 15,
                                UINT64_C(104857601)};
    for (size_t i = 0; i < lt_countof(lengths); i++) {
        write_raw(lengths[i], header, 8, 0);
        refused("says its header has");
    }
    write_raw(UINT64_C(104857601), header, 8, 0);
    assert_int_equal(truncate(path, 200 << 20), 0); /* sparse: long enough for it */
    refused("says its header has 104857601 bytes");
    write_raw(0, header, 0, 0);
    refused("'{' expected");
    write_raw(1, header, 8, 0);
    refused("'\"' expected");
    assert_int_equal(truncate(path, 7), 0);
    refused("has 7 bytes, a header needs 8 or more");
    assert_int_equal(truncate(path, 0), 0);
    refused("has 0 bytes, a header needs 8 or more");
}

static void what_is_no_file_is_refused(void **state)
{
    (void)state;
    lt_tensors *t = NULL;
    lt_err err = {{0}};
    assert_int_equal(lt_tensors_open(&t, folder, &err), -1);
    assert_non_null(strstr(err.text, "is not a file"));
    unlink(path);
    refused("cannot be opened: No such file or directory");
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(10);
    refused("is not a file");
    alarm(0);
    unlink(path);
}

static void valid_headers_load(void **state)
{
    (void)state;
    static const char *const valid[] = {
        "{}",
        "{}   ",
        "{ }\n",
        "{\"__metadata__\":{}}",
        "{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\u00e9\\n\"}}",
        "{\"e\":{\"dtype\":\"BF16\",\"shape\":[0,4096],\"data_offsets\":[0,0]}}",
        "{\"e\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4,0],\"data_offsets\":[0,0]}}",
        "{ \"e\" : { \"data_offsets\" : [ 0 , 0 ] , \"shape\" : [ 0 ] , \"dtype\" : \"F8_E4M3\" } "
        "}",
    };
    for (size_t i = 0; i < lt_countof(valid); i++) {
        write_header(valid[i], 0);
        lt_tensors_close(accepted());
    }
    write_header(SHAPE("F32", "[]"), 4); /* a scalar */
    lt_tensors *t = accepted();
    assert_int_equal(lt_tensors_at(t, 0)->rank, 0);
    lt_tensors_close(t);
}

static void order_in_the_header_and_in_the_file_are_free(void **state)
{
    (void)state;
    write_header("{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[4,7]},"
                 "\"z\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},"
                 "\"a\":{\"dtype\":\"F16\",\"shape\":[2,1],\"data_offsets\":[0,4]}}",
                 7);
    lt_tensors *t = accepted();
    assert_int_equal(lt_tensors_count(t), 3);
    assert_string_equal(lt_tensors_at(t, 0)->name, "a");
    assert_string_equal(lt_tensors_at(t, 2)->name, "z");
    const lt_tensor *b = lt_tensors_find(t, "b");
    assert_non_null(b);
    assert_string_equal(b->dtype, "U8");
    assert_int_equal(b->data.len, 3);
    assert_int_equal(((const uint8_t *)b->data.ptr)[0], 4);
    assert_null(lt_tensors_find(t, "c"));
    lt_tensors_close(t);
}

static void names_are_read_as_they_were_meant(void **state)
{
    (void)state;
    write_header("{\"\\u0041\\\"\\\\\\/\\u00e9\\ud83d\\ude00\xc3\xa9\":"
                 "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                 1);
    lt_tensors *t = accepted();
    assert_string_equal(lt_tensors_at(t, 0)->name, "A\"\\/\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9");
    lt_tensors_close(t);
}

static void a_name_of_64_kib_loads(void **state)
{
    (void)state;
    lt_bytes header = {0};
    lt_err err = {{0}};
    assert_int_equal(lt_bytes_append(&header, "{\"", 2, &err), 0);
    for (int i = 0; i < 65536; i++) assert_int_equal(lt_bytes_append(&header, "n", 1, &err), 0);
    const char *rest = "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    assert_int_equal(lt_bytes_append(&header, rest, strlen(rest), &err), 0);
    write_header(header.ptr, 1);
    lt_tensors *t = accepted();
    assert_int_equal(strlen(lt_tensors_at(t, 0)->name), 65536);
    lt_tensors_close(t);
    lt_bytes_clear(&header);
}

/* Every byte of a valid header, changed: never more than a refusal. Sanitizers watch. */
static void a_changed_byte_never_reads_outside(void **state)
{
    (void)state;
    const char *header = PAIR("[0,4]", "[4,8]");
    const size_t n = strlen(header);
    char changed[512];
    assert_true(n < sizeof changed);
    for (size_t i = 0; i < n; i++)
        for (int b = 0; b < 256; b += 51) {
            memcpy(changed, header, n);
            changed[i] = (char)b;
            write_raw(n, changed, n, 8);
            lt_tensors *t = NULL;
            lt_err err = {{0}};
            if (lt_tensors_open(&t, path, &err)) assert_true(err.text[0] != 0);
            lt_tensors_close(t);
        }
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static int write_file(const char *to, const lt_tensor *list, size_t count, lt_err *err)
{
    lt_whole w;
    const int failed = lt_whole_open(&w, to, err) || lt_tensors_write(&w, list, count, err) ||
                       lt_whole_keep(&w, err);
    lt_whole_clear(&w);
    return failed ? -1 : 0;
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    lt_err err = {{0}};
    const float x[6] = {1, 2, 3, 4, 5, 6};
    const uint8_t b[3] = {7, 8, 9};
    const lt_tensor list[] = {
        {.name = "b", .dtype = "U8", .rank = 1, .shape = {3}, .data = {b, 3}},
        {.name = "x\"\\\n", .dtype = "F32", .rank = 2, .shape = {2, 3}, .data = {x, sizeof x}},
        {.name = "none", .dtype = "F32", .rank = 1, .shape = {0}, .data = {NULL, 0}},
    };
    assert_int_equal(write_file(path, list, 3, &err), 0);
    assert_int_equal(count_files(), 1);
    lt_tensors *t = accepted();
    const lt_tensor *got = lt_tensors_find(t, "x\"\\\n");
    assert_non_null(got);
    assert_int_equal(got->rank, 2);
    assert_int_equal(got->shape[1], 3);
    assert_memory_equal(got->data.ptr, x, sizeof x);
    assert_memory_equal(lt_tensors_find(t, "b")->data.ptr, b, 3);
    lt_tensors_close(t);
}

static void what_cannot_be_written_leaves_the_old_file(void **state)
{
    (void)state;
    lt_err err = {{0}};
    const uint8_t b[4] = {0};
    const lt_tensor good = {.name = "b", .dtype = "U8", .rank = 1, .shape = {4}, .data = {b, 4}};
    const lt_tensor twice[2] = {good, good};
    lt_tensor wrong = good;
    assert_int_equal(write_file(path, &good, 1, &err), 0);
    wrong.shape[0] = 5;
    assert_int_equal(write_file(path, &wrong, 1, &err), -1);
    assert_non_null(strstr(err.text, "has 4 bytes, its dtype and shape need 5"));
    wrong.dtype = "F33";
    assert_int_equal(write_file(path, &wrong, 1, &err), -1);
    assert_int_equal(write_file(path, twice, 2, &err), -1);
    assert_non_null(strstr(err.text, "is there twice"));
    assert_int_equal(write_file("/dev/null/t", &good, 1, &err), -1);
    assert_non_null(strstr(err.text, "/dev/null/t: cannot be made"));
    char inner[320];
    snprintf(inner, sizeof inner, "%s/inner", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(write_file(inner, &good, 1, &err), -1); /* a folder is in the way */
    assert_int_equal(count_files(), 2);
    assert_int_equal(rmdir(inner), 0);
    lt_tensors_close(accepted());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_headers_are_refused),
        cmocka_unit_test(broken_lengths_are_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(valid_headers_load),
        cmocka_unit_test(order_in_the_header_and_in_the_file_are_free),
        cmocka_unit_test(names_are_read_as_they_were_meant),
        cmocka_unit_test(a_name_of_64_kib_loads),
        cmocka_unit_test(a_changed_byte_never_reads_outside),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(what_cannot_be_written_leaves_the_old_file),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
