/* weights.c: many files as one table: what two files share is refused and changes nothing; data are
 * the same at any address, in any pieces; a large tensor is looked at without staying in memory. */
#include "runtime/weights.h"

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

static char folder[256];

static const char *path_of(const char *name)
{
    static char paths[4][400];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/weights-test-XXXXXX", base && *base ? base : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    lt_bytes names = {0};
    lt_err err = {{0}};
    if (lt_weights_list(folder, &names, &err)) return -1;
    for (char *name = names.ptr ? strtok(names.ptr, "\n") : NULL; name; name = strtok(NULL, "\n"))
        unlink(path_of(name));
    lt_bytes_clear(&names);
    return rmdir(folder);
}

static void write_file(const char *name, const lt_tensor *list, size_t count)
{
    lt_err err = {{0}};
    lt_whole w;
    if (lt_whole_open(&w, path_of(name), &err) || lt_tensors_write(&w, list, count, &err) ||
        lt_whole_keep(&w, &err))
        fail_msg("%s", err.text);
}

/* A header as it is, and data that count up: for places that our own writer never makes. */
static void write_raw(const char *name, const char *header, size_t data_bytes)
{
    FILE *f = fopen(path_of(name), "wb");
    assert_non_null(f);
    for (size_t i = 0; i < 8; i++) fputc((int)(strlen(header) >> 8 * i & 0xff), f);
    fputs(header, f);
    for (size_t i = 0; i < data_bytes; i++) fputc((int)(i & 0xff), f);
    assert_int_equal(fclose(f), 0);
}

static lt_tensor bytes_tensor(const char *name, const char *dtype, const uint8_t *data, size_t n)
{
    return (lt_tensor){
        .name = name, .dtype = dtype, .rank = 1, .shape = {(int64_t)n}, .data = {data, n}};
}

static lt_weights *empty(void)
{
    lt_weights *w = NULL;
    lt_err err = {{0}};
    if (lt_weights_new(&w, &err)) fail_msg("%s", err.text);
    return w;
}

static void added(lt_weights *w, const char *name)
{
    lt_err err = {{0}};
    if (lt_weights_add(w, path_of(name), &err)) fail_msg("%s", err.text);
}

static void refused(lt_weights *w, const char *name, const char *reason)
{
    lt_err err = {{0}};
    const size_t before = lt_weights_count(w);
    assert_int_equal(lt_weights_add(w, path_of(name), &err), -1);
    if (!strstr(err.text, path_of(name)) || !strstr(err.text, reason))
        fail_msg("'%s' does not say '%s'", err.text, reason);
    assert_int_equal(lt_weights_count(w), before);
}

static void files_become_one_table_by_name(void **state)
{
    (void)state;
    const uint8_t x[4] = {1, 2, 3, 4};
    const lt_tensor first[] = {bytes_tensor("b", "U8", x, 4), bytes_tensor("d", "U8", x, 2)};
    const lt_tensor second[] = {bytes_tensor("a", "U8", x, 1), bytes_tensor("c", "U8", x, 3),
                                bytes_tensor("e", "U8", x, 4)};
    write_file("1.safetensors", first, 2);
    write_file("2.safetensors", second, 3);
    lt_weights *w = empty();
    assert_int_equal(lt_weights_count(w), 0);
    assert_null(lt_weights_find(w, "a"));
    added(w, "1.safetensors");
    added(w, "2.safetensors");
    assert_int_equal(lt_weights_count(w), 5);
    for (size_t i = 0; i < 5; i++) {
        const lt_weight *at = lt_weights_at(w, i);
        const char name[] = {(char)('a' + i), 0};
        assert_string_equal(at->tensor->name, name);
        assert_ptr_equal(lt_weights_find(w, name), at);
        assert_int_equal(at->file, i % 2 == 0);
    }
    assert_int_equal(lt_weights_find(w, "c")->tensor->data.len, 3);
    assert_null(lt_weights_find(w, "cc"));
    lt_weights_free(w);
    lt_weights_free(NULL);
}

static void a_file_that_cannot_be_used_changes_nothing(void **state)
{
    (void)state;
    const uint8_t x[4] = {1, 2, 3, 4};
    const lt_tensor first[] = {bytes_tensor("a", "U8", x, 4), bytes_tensor("m", "U8", x, 4),
                               bytes_tensor("z", "U8", x, 4)};
    const lt_tensor twice[] = {bytes_tensor("b", "U8", x, 4), bytes_tensor("m", "U8", x, 4),
                               bytes_tensor("z", "U8", x, 4)};
    write_file("first.safetensors", first, 3);
    write_file("twice.safetensors", twice, 3);
    write_raw("short.safetensors",
              "{\"s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 3);
    write_raw("overlap.safetensors",
              "{\"s\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
              "\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
              7);
    lt_weights *w = empty();
    refused(w, "short.safetensors", "(the file is incomplete)");
    added(w, "first.safetensors");
    refused(w, "twice.safetensors", "tensor 'm' is in ");
    refused(w, "twice.safetensors", "first.safetensors too, as are 1 more of its tensors");
    refused(w, "first.safetensors", "tensor 'a' is in "); /* itself */
    refused(w, "short.safetensors", "tensor 's': its data end at byte 4 of 3");
    refused(w, "overlap.safetensors", "tensor 't': shares bytes with 's'");
    refused(w, "none.safetensors", "cannot be opened: No such file or directory");
    assert_null(lt_weights_find(w, "b"));
    assert_int_equal(lt_weights_find(w, "m")->file, 0);
    lt_weights_free(w);
}

typedef struct {
    size_t next, pieces, most, stop_at;
} walk;

static int follow(void *ctx, size_t offset, lt_span piece)
{
    walk *x = ctx;
    assert_int_equal(offset, x->next);
    assert_in_range(piece.len, 1, x->most);
    for (size_t i = 0; i < piece.len; i++)
        assert_int_equal(((const uint8_t *)piece.ptr)[i], (offset + i) & 0xff);
    x->next += piece.len;
    return ++x->pieces == x->stop_at ? 7 : 0;
}

/* The data of `t` count up from 0 whatever their address. */
static void check_walks(const lt_tensor *t)
{
    static const size_t pieces[] = {1, 3, 4096, 5000, 1 << 20};
    for (size_t i = 0; i < lt_countof(pieces); i++) {
        walk x = {.next = 5, .most = pieces[i]};
        const size_t bytes = t->data.len - 7;
        assert_int_equal(lt_weights_each(t, 5, bytes, pieces[i], follow, &x), 0);
        assert_int_equal(x.next, 5 + bytes);
        assert_int_equal(x.pieces, (bytes + pieces[i] - 1) / pieces[i]);
    }
    walk x = {.most = 64, .stop_at = 3};
    assert_int_equal(lt_weights_each(t, 0, t->data.len, 64, follow, &x), 7);
    assert_int_equal(x.next, 192);
    assert_int_equal(lt_weights_each(t, 9, 0, 64, follow, &x), 0);
    assert_int_equal(x.pieces, 3);
    uint8_t some[300];
    lt_weights_read(t, 11, some, sizeof some);
    for (size_t i = 0; i < sizeof some; i++) assert_int_equal(some[i], (11 + i) & 0xff);
}

static void data_are_the_same_at_any_address(void **state)
{
    (void)state;
    char header[200];
    for (int pad = 0; pad < 8; pad++) {
        snprintf(header, sizeof header,
                 "{\"f\":{\"dtype\":\"F32\",\"shape\":[3000],\"data_offsets\":[0,12000]}}%*s", pad,
                 "");
        write_raw("odd.safetensors", header, 12000);
        lt_weights *w = empty();
        added(w, "odd.safetensors");
        check_walks(lt_weights_find(w, "f")->tensor);
        float value;
        lt_weights_read(lt_weights_find(w, "f")->tensor, 4, &value, sizeof value);
        const uint8_t want[4] = {4, 5, 6, 7};
        assert_memory_equal(&value, want, sizeof want);
        lt_weights_free(w);
    }
}

/* Runs of the data of `t`, which count up from 0. */
static void check_runs(const lt_tensor *t, lt_weight_runs r)
{
    uint8_t *got = malloc(r.count * r.width + 1);
    assert_non_null(got);
    got[r.count * r.width] = 0xa5;
    assert_true(lt_weights_hold(t, r));
    lt_weights_gather(t, r, got);
    for (size_t i = 0; i < r.count * r.width; i++)
        assert_int_equal(got[i], (r.offset + i / r.width * r.pitch + i % r.width) & 0xff);
    assert_int_equal(got[r.count * r.width], 0xa5);
    free(got);
}

static void some_columns_of_each_row_are_gathered(void **state)
{
    (void)state;
    enum { BYTES = 20 << 20 }; /* several pieces */
    static const lt_weight_runs fit[] = {
        {0, 1, 1, BYTES},          {3, 5, 7, 1000},        {0, 352, 1024, 20480},
        {672, 352, 1024, 20480},   {9, 20000, 70001, 299}, {1, BYTES - 1, BYTES, 1},
        {7, 9 << 20, 10 << 20, 2}, {BYTES, 1, 1, 0},       {BYTES - 1, 1, (size_t)-1, 1},
    };
    static const lt_weight_runs outside[] = {
        {0, 1, 1, BYTES + 1},  {1, 352, 1024, 20481},      {BYTES, 1, 1, 1},        {0, 8, 7, 2},
        {(size_t)-1, 1, 1, 1}, {0, 1, (size_t)1 << 62, 5}, {673, 352, 1024, 20480},
    };
    char header[120];
    snprintf(header, sizeof header,
             "{\"t\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}} ", BYTES, BYTES);
    write_raw("runs.safetensors", header, BYTES);
    lt_weights *w = empty();
    added(w, "runs.safetensors");
    const lt_tensor *t = lt_weights_find(w, "t")->tensor;
    for (size_t i = 0; i < lt_countof(fit); i++) check_runs(t, fit[i]);
    for (size_t i = 0; i < lt_countof(outside); i++) assert_false(lt_weights_hold(t, outside[i]));
    lt_weights_free(w);
}

static void scales_that_are_none_are_counted(void **state)
{
    (void)state;
    uint8_t bytes[256], good[5] = {0, 1, 0x7e, 1, 0};
    for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)(255 - i);
    const uint8_t late[6] = {3, 0x85, 0x7f, 0x80, 0x7f, 0xff};
    const lt_tensor list[] = {
        bytes_tensor("all", "F8_E4M3", bytes, 256), bytes_tensor("good", "F8_E4M3", good, 5),
        bytes_tensor("late", "F8_E4M3", late, 6), bytes_tensor("none", "F8_E4M3", good, 0)};
    write_file("scales.safetensors", list, 4);
    lt_weights *w = empty();
    added(w, "scales.safetensors");
    lt_scale_bytes s;
    lt_weights_scan(lt_weights_find(w, "all")->tensor, &s);
    assert_int_equal(s.nan, 2);
    assert_int_equal(s.first_nan, 0);
    assert_int_equal(s.negative, 127);
    assert_int_equal(s.first_negative, 1);
    lt_weights_scan(lt_weights_find(w, "good")->tensor, &s);
    assert_int_equal(s.nan + s.negative + s.first_nan + s.first_negative, 0);
    lt_weights_scan(lt_weights_find(w, "late")->tensor, &s);
    assert_int_equal(s.nan, 3);
    assert_int_equal(s.first_nan, 2);
    assert_int_equal(s.negative, 2);
    assert_int_equal(s.first_negative, 1);
    lt_weights_scan(lt_weights_find(w, "none")->tensor, &s);
    assert_int_equal(s.nan, 0);
    lt_weights_free(w);
}

static void tensors_are_equal_when_dtype_shape_and_bytes_are(void **state)
{
    (void)state;
    const uint8_t x[4] = {1, 2, 3, 4}, y[4] = {1, 2, 3, 5};
    const lt_tensor list[] = {
        bytes_tensor("a", "U8", x, 4),
        bytes_tensor("b", "U8", x, 4),
        bytes_tensor("bytes", "U8", y, 4),
        bytes_tensor("dtype", "I8", x, 4),
        bytes_tensor("length", "U8", x, 3),
        {.name = "rank", .dtype = "U8", .rank = 2, .shape = {2, 2}, .data = {x, 4}},
        {.name = "turned", .dtype = "U8", .rank = 2, .shape = {4, 1}, .data = {x, 4}}};
    write_file("equal.safetensors", list, lt_countof(list));
    lt_weights *w = empty();
    added(w, "equal.safetensors");
    const lt_tensor *a = lt_weights_find(w, "a")->tensor;
    assert_true(lt_weights_equal(a, a));
    assert_true(lt_weights_equal(a, lt_weights_find(w, "b")->tensor));
    static const char *const others[] = {"bytes", "dtype", "length", "rank"};
    for (size_t i = 0; i < lt_countof(others); i++)
        assert_false(lt_weights_equal(a, lt_weights_find(w, others[i])->tensor));
    assert_false(
        lt_weights_equal(lt_weights_find(w, "rank")->tensor, lt_weights_find(w, "turned")->tensor));
    lt_weights_free(w);
}

static void only_safetensors_of_a_folder_are_listed(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_bytes names = {0};
    char inner[400];
    snprintf(inner, sizeof inner, "%s/listed", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(lt_weights_list(inner, &names, &err), 0);
    assert_int_equal(names.len, 0);
    static const char *const made[] = {"listed/b.safetensors",   "listed/B.safetensors",
                                       "listed/a.safetensors",   "listed/.safetensors",
                                       "listed/.h.safetensors",  "listed/x.safetensors.index.json",
                                       "listed/n\nn.safetensors"};
    for (size_t i = 0; i < lt_countof(made); i++) fclose(fopen(path_of(made[i]), "wb"));
    assert_int_equal(lt_weights_list(inner, &names, &err), 0);
    assert_string_equal(names.ptr, "B.safetensors\na.safetensors\nb.safetensors\n");
    lt_bytes_clear(&names);
    for (size_t i = 0; i < lt_countof(made); i++) unlink(path_of(made[i]));
    rmdir(inner);
    assert_int_equal(lt_weights_list(inner, &names, &err), -1);
    assert_non_null(strstr(err.text, "listed: cannot be listed: No such file or directory"));
}

/* KiB of mapped files that are in memory now. */
static long resident_file_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "RssFile: %ld kB", &kib);
    if (f) fclose(f);
    return kib;
}

static void a_large_tensor_does_not_stay_in_memory(void **state)
{
    (void)state;
    enum { MIB = 96, LATE = (50 << 20) + 3 };
    char header[120];
    snprintf(header, sizeof header,
             "{\"big\":{\"dtype\":\"F8_E4M3\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", MIB << 20,
             MIB << 20);
    write_raw("big.safetensors", header, 0);
    assert_int_equal(
        truncate(path_of("big.safetensors"), (off_t)(8 + strlen(header)) + (MIB << 20)), 0);
    FILE *f = fopen(path_of("big.safetensors"), "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)(8 + strlen(header)) + LATE, SEEK_SET), 0);
    fputc(0x7f, f);
    assert_int_equal(fclose(f), 0);
    lt_weights *w = empty();
    added(w, "big.safetensors");
    const long before = resident_file_kib();
    if (before < 0) skip();
    lt_scale_bytes s;
    lt_weights_scan(lt_weights_find(w, "big")->tensor, &s);
    assert_int_equal(s.first_nan, LATE);
    assert_in_range(resident_file_kib(), 0, before + (16 << 10));
    lt_weights_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_become_one_table_by_name),
        cmocka_unit_test(a_file_that_cannot_be_used_changes_nothing),
        cmocka_unit_test(data_are_the_same_at_any_address),
        cmocka_unit_test(some_columns_of_each_row_are_gathered),
        cmocka_unit_test(scales_that_are_none_are_counted),
        cmocka_unit_test(tensors_are_equal_when_dtype_shape_and_bytes_are),
        cmocka_unit_test(only_safetensors_of_a_folder_are_listed),
        cmocka_unit_test(a_large_tensor_does_not_stay_in_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
