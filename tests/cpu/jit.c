/* jit.c: from text to image through a real cache folder and, where it is installed, the real NVRTC.
 * The device is a fake that remembers what it was given. */
#include "jit_kit.h"

#include <sys/stat.h>

static lt_source simple(void)
{
    return source("simple__n1__one", ONE("simple__n1__one", "y[threadIdx.x] = 1.0f;"));
}

/* ---- the key ---- */

static void the_key_is_five_lines_and_their_digest(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_bytes text = {0};
    char key[65], hex[65], expected[1000];
    lt_nvrtc_compiler compiler;
    const lt_source s = simple();
    assert_int_equal(lt_jit_key(&s, &text, key, &err), 0);
    assert_int_equal(lt_nvrtc_identity(&compiler, NULL, &err), 0);
    lt_sha256_hex(s.plain, hex);
    snprintf(expected, sizeof expected,
             "format   1\narch     sm_90a\ncompiler %s\noptions  %s\ntext     %s\n",
             compiler.identity, lt_nvrtc_options(), hex);
    assert_string_equal(text.ptr, expected);
    lt_sha256_hex(lt_bytes_view(&text), hex);
    assert_string_equal(key, hex);
    lt_bytes_clear(&text);
}

static void key_of(const lt_source *s, char key[65])
{
    lt_err err;
    lt_bytes text = {0};
    if (lt_jit_key(s, &text, key, &err)) fail_msg("%s", err.text);
    lt_bytes_clear(&text);
}

static void what_changes_the_image_changes_the_key_and_nothing_else_does(void **state)
{
    (void)state;
    char key[65], other[65];
    lt_err err;
    lt_source s = simple();
    key_of(&s, key);
    s.text = lt_span_text("#line 7 \"elsewhere.cut\"\n");
    key_of(&s, other);
    assert_string_equal(key, other);
    s.arch = "sm_121a";
    key_of(&s, other);
    assert_string_not_equal(key, other);
    s = simple();
    s.plain.len--;
    key_of(&s, other);
    assert_string_not_equal(key, other);
    s = simple();
    lt_config_set("dump", scratch, &err); /* adds an option */
    key_of(&s, other);
    assert_string_not_equal(key, other);
    lt_config_set("dump", "", &err);
    lt_config_set("debug", "1", &err);
    key_of(&s, other);
    assert_string_equal(key, other);
}

/* ---- hits and misses ---- */

static void a_text_is_compiled_once(void **state)
{
    (void)state;
    need_nvrtc();
    const lt_source s = simple();
    load_from(&s, LT_FROM_COMPILER);
    assert_int_equal(count_entries(NULL), 1);
    load_from(&s, LT_FROM_CACHE);
    lt_source other = s;
    other.plain = lt_span_text("another text");
    load_from(&other, LT_FROM_COMPILER);
    assert_int_equal(count_entries(NULL), 2);
}

static void a_damaged_entry_is_compiled_again_and_replaced(void **state)
{
    (void)state;
    need_nvrtc();
    const lt_source s = simple();
    char path[800];
    struct stat st;
    load_from(&s, LT_FROM_COMPILER);
    assert_int_equal(count_entries(path), 1);
    assert_int_equal(stat(path, &st), 0);
    const long at[] = {0, 40, st.st_size / 2, st.st_size - 1};
    for (size_t i = 0; i < lt_countof(at); i++) {
        FILE *f = fopen(path, "r+b");
        assert_non_null(f);
        fseek(f, at[i], SEEK_SET);
        const int was = fgetc(f);
        fseek(f, at[i], SEEK_SET);
        fputc(was ^ 1, f);
        fclose(f);
        load_from(&s, LT_FROM_COMPILER);
        load_from(&s, LT_FROM_CACHE);
    }
    assert_int_equal(truncate(path, st.st_size / 3), 0);
    load_from(&s, LT_FROM_COMPILER);
    load_from(&s, LT_FROM_CACHE);
    assert_int_equal(count_entries(NULL), 1);
}

/* An entry that is whole and has the key of s, with the image of `wrong`: compiled again. */
static void check_image_of(const lt_source *s, const lt_source *wrong)
{
    lt_err err;
    lt_store *store = NULL;
    lt_entry e = {0};
    lt_jit_report report;
    char key[65];
    assert_int_equal(load(wrong, &report, &err), 0);
    assert_int_equal(lt_store_open(&store, NULL, &err), 0);
    assert_int_equal(lt_store_find(store, wrong->name, report.key, &e, &err), LT_STORE_HIT);
    lt_bytes_clear(&e.key_text);
    assert_int_equal(lt_jit_key(s, &e.key_text, key, &err), 0);
    assert_int_equal(lt_store_publish(store, s->name, key, &e, &err), 0);
    load_from(s, LT_FROM_COMPILER);
    load_from(s, LT_FROM_CACHE);
    lt_entry_clear(&e);
    lt_store_close(store);
}

static void an_entry_with_another_kernels_image_is_compiled_again(void **state)
{
    (void)state;
    need_nvrtc();
    const lt_source s = simple();
    const lt_source wrong = source("wrong__n1__one", ONE("wrong__n1__one", "y[0] = 2.0f;"));
    lt_source other = s;
    other.arch = "sm_121a";
    check_image_of(&s, &wrong);
    check_image_of(&s, &other);
}

static void without_jit_a_miss_is_an_error_that_names_the_kernel(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    const lt_source s = simple();
    lt_config_set("jit", "off", &err);
    assert_int_equal(load(&s, &report, &err), -1);
    assert_string_equal(err.text,
                        "kernel simple__n1__one: it is not in the cache, and LATHE_JIT=off "
                        "forbids to compile it (run `lathe build` first)");
    lt_config_set("jit", "on", &err);
    load_from(&s, LT_FROM_COMPILER);
    lt_config_set("jit", "off", &err);
    load_from(&s, LT_FROM_CACHE);
}

static void without_a_compiler_the_image_of_another_one_is_used(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    const lt_source s = simple();
    load_from(&s, LT_FROM_COMPILER);
    lt_config_set("nvrtc", "/nowhere/libnvrtc.so", &err);
    load_from(&s, LT_FROM_OLDER_COMPILER);
    lt_source other = s;
    other.plain = lt_span_text("another text");
    assert_int_equal(load(&other, &report, &err), -1);
    assert_non_null(strstr(err.text, "kernel simple__n1__one: it is not in the cache, and there is "
                                     "no compiler: "));
    assert_non_null(strstr(err.text, "/nowhere/libnvrtc.so"));
}

/* Writes a note that says `identity` of the file `library`; `late` seconds are added to its time.
 */
static void write_note(const char *library, int late, const char *identity)
{
    lt_err err;
    lt_store *store = NULL;
    struct stat st;
    char name[32], hex[65], note[1500];
    assert_int_equal(lt_store_open(&store, NULL, &err), 0);
    assert_int_equal(stat(library, &st), 0);
    lt_sha256_hex(lt_span_text(lt_config_text(LT_SET_NVRTC)), hex);
    snprintf(name, sizeof name, "compiler.%.16s", hex);
    snprintf(note, sizeof note, "library %s\nstamp %lld bytes %lld.%09ld\nidentity %s\n", library,
             (long long)st.st_size, (long long)st.st_mtim.tv_sec + late, st.st_mtim.tv_nsec,
             identity);
    assert_int_equal(lt_store_note_write(store, name, lt_span_text(note), &err), 0);
    lt_store_close(store);
}

static void a_library_that_has_changed_is_asked_again(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_nvrtc_compiler compiler;
    char asked[65], noted[65], changed[65];
    const lt_source s = simple();
    assert_int_equal(lt_nvrtc_identity(&compiler, NULL, &err), 0);
    key_of(&s, asked);
    write_note(compiler.library, 0, "nvrtc 0.1 old");
    key_of(&s, noted);
    write_note(compiler.library, 1, "nvrtc 0.1 old");
    key_of(&s, changed);
    assert_string_not_equal(noted, asked);
    assert_string_equal(changed, asked);
}

/* A newer library in front of the one that the note is about. */
static void a_note_about_another_library_is_mended_by_the_first_compile(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    char before[65], after[65];
    const lt_source s = simple();
    write_note("/bin/sh", 0, "nvrtc 0.1 old");
    key_of(&s, before);
    assert_int_equal(load(&s, &report, &err), 0);
    key_of(&s, after);
    assert_string_not_equal(before, after);
    assert_string_equal(report.key, after);
    load_from(&s, LT_FROM_CACHE);
}

/* ---- what must not be used ---- */

static void a_text_that_does_not_compile_leaves_nothing_in_the_cache(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    char path[400];
    struct stat st;
    const lt_source s = source("bad__n1__one", ONE("bad__n1__one", "y[0] = oops;"));
    lt_config_set("dump", scratch, &err);
    assert_int_equal(load(&s, &report, &err), -1);
    assert_non_null(strstr(err.text, "kernel bad__n1__one"));
    assert_non_null(strstr(err.text, "identifier \"oops\" is undefined"));
    assert_int_equal(count_entries(NULL), 0);
    snprintf(path, sizeof path, "%s/bad__n1__one.sm_90a.log", scratch);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > 20);
}

static void an_image_that_the_generator_did_not_mean_is_refused(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    const lt_param two[] = {{"y", true}, {"x", false}};
    lt_source s = simple();
    s.params = two;
    s.param_count = 2;
    assert_int_equal(load(&s, &report, &err), -1);
    s = simple();
    s.threads = 64;
    assert_int_equal(load(&s, &report, &err), -1);
    assert_int_equal(count_entries(NULL), 0);
}

/* 80 values that all stay alive, where 64 registers are allowed */
static const char spilling[] =
    "extern \"C\" __global__ void __launch_bounds__(1024) spill__n1__one(float *y)\n{\n"
    "    float a[80];\n"
    "    for (int i = 0; i < 80; i++) a[i] = y[i * 1024 + threadIdx.x];\n"
    "    __syncthreads();\n"
    "    for (int i = 0; i < 80; i++) y[i * 1024 + threadIdx.x] = a[79 - i] * a[(i * 7) % 80];\n"
    "}\n";

static void a_spill_is_an_error_where_that_is_asked_for(void **state)
{
    (void)state;
    need_nvrtc();
    lt_err err;
    lt_jit_report report;
    lt_source s = source("spill__n1__one", spilling);
    s.threads = 1024;
    assert_int_equal(load(&s, &report, &err), 0);
    assert_true(report.facts.spills > 0);
    lt_config_set("spill", "error", &err);
    assert_int_equal(load(&s, &report, &err), -1);
    assert_non_null(
        strstr(err.text, "kernel spill__n1__one: 64 registers of sm_90a do not suffice"));
    const lt_source fine = simple();
    load_from(&fine, LT_FROM_COMPILER);
}

/* ---- the CPU device ---- */

static void a_device_that_compiles_gets_the_text_and_no_image(void **state)
{
    (void)state;
    lt_err err;
    lt_jit_report report;
    lt_kernel *k = NULL;
    const lt_source s = simple();
    fake_device d = {.base = {.ops = &fake_ops, .compiles = true}, .image_bytes = 1};
    char path[400];
    struct stat st;
    lt_config_set("jit", "off", &err);
    lt_config_set("dump", scratch, &err);
    assert_int_equal(lt_jit_load(&d.base, &s, &k, &report, &err), 0);
    assert_int_equal(d.image_bytes, 0);
    snprintf(path, sizeof path, "%s/%s.%s.cu", scratch, s.name, s.arch);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, s.plain.len);
    assert_string_equal(report.key, "");
    assert_int_equal(count_entries(NULL), 0);
    free(k);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], LT_NVRTC_CHILD)) return lt_nvrtc_child();
    const struct CMUnitTest tests[] = {
        with_cache(the_key_is_five_lines_and_their_digest),
        with_cache(what_changes_the_image_changes_the_key_and_nothing_else_does),
        with_cache(a_text_is_compiled_once),
        with_cache(a_damaged_entry_is_compiled_again_and_replaced),
        with_cache(an_entry_with_another_kernels_image_is_compiled_again),
        with_cache(without_jit_a_miss_is_an_error_that_names_the_kernel),
        with_cache(without_a_compiler_the_image_of_another_one_is_used),
        with_cache(a_library_that_has_changed_is_asked_again),
        with_cache(a_note_about_another_library_is_mended_by_the_first_compile),
        with_cache(a_text_that_does_not_compile_leaves_nothing_in_the_cache),
        with_cache(an_image_that_the_generator_did_not_mean_is_refused),
        with_cache(a_spill_is_an_error_where_that_is_asked_for),
        with_cache(a_device_that_compiles_gets_the_text_and_no_image),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
