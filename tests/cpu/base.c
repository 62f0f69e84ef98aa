/* base.c: errors, bytes, settings, the project's files. */
#include "runtime/embedded.h"
#include "runtime/lathe.h"

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

/* ---- errors ---- */

static void a_message_is_built_from_the_inside_out(void **state)
{
    (void)state;
    lt_err err;
    assert_int_equal(lt_fail(&err, "invalid device image (%d)", 200), -1);
    assert_int_equal(lt_wrap(&err, "module %s", "w8a8"), -1);
    assert_string_equal(err.text, "module w8a8: invalid device image (200)");
    assert_int_equal(lt_fail(NULL, "nobody listens"), -1);
    assert_int_equal(lt_wrap(NULL, "nobody listens"), -1);
}

static void a_message_that_is_too_long_is_cut_and_ended(void **state)
{
    (void)state;
    char *text = malloc(5000);
    assert_non_null(text);
    memset(text, 'x', 4999);
    text[4999] = 0;
    for (size_t front = 0; front < 1100; front++) {
        lt_err err;
        memset(&err, 'z', sizeof err);
        lt_fail(&err, "%s", text);
        assert_int_equal(strlen(err.text), sizeof err.text - 1);
        lt_wrap(&err, "%.*s", (int)front, text);
        assert_in_range(strlen(err.text), sizeof err.text - 2, sizeof err.text - 1);
    }
    free(text);
}

/* ---- bytes ---- */

static void bytes_grow_and_end_with_a_zero(void **state)
{
    (void)state;
    lt_err err;
    lt_bytes b = {0};
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(lt_bytes_append(&b, "a\0c", 3, &err), 0);
        assert_int_equal(lt_bytes_print(&b, &err, "%d", i % 10), 0);
        assert_int_equal(b.ptr[b.len], 0);
    }
    assert_int_equal(b.len, 20000);
    assert_memory_equal(b.ptr + 19996, "a\0c9", 4);
    assert_int_equal(lt_bytes_append(&b, NULL, 0, &err), 0);
    assert_int_equal(lt_bytes_append(&b, "x", SIZE_MAX - 8, &err), -1);
    assert_int_equal(b.len, 20000);
    const lt_span all = lt_bytes_view(&b);
    assert_ptr_equal(all.ptr, b.ptr);
    assert_int_equal(all.len, 20000);
    lt_bytes_clear(&b);
    assert_null(b.ptr);
    assert_int_equal(b.len + b.cap, 0);
}

static void sha256_is_that_of_the_standard(void **state)
{
    (void)state;
    char hex[65];
    lt_sha256_hex(lt_span_text("abc"), hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    lt_sha256_hex((lt_span){0}, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

/* ---- settings ---- */

static void clear_environment(void)
{
    for (lt_setting s = 0; s < LT_SETTINGS; s++) unsetenv(lt_config_info(s).env);
}

static int forget_settings(void **state)
{
    (void)state;
    lt_err err;
    clear_environment();
    return lt_config_read(&err);
}

/* Reads the environment with one variable set and gives the message. */
static const char *reading(const char *env, const char *value)
{
    static lt_err err;
    clear_environment();
    setenv(env, value, 1);
    err.text[0] = 0;
    const int failed = lt_config_read(&err);
    assert_int_equal(failed, *err.text ? -1 : 0);
    return err.text;
}

static void every_setting_has_a_name_and_a_legal_default(void **state)
{
    (void)state;
    lt_err err;
    for (lt_setting s = 0; s < LT_SETTINGS; s++) {
        const lt_setting_info i = lt_config_info(s);
        assert_non_null(i.name);
        assert_memory_equal(i.env, "LATHE_", 6);
        for (size_t c = 0; i.name[c]; c++)
            assert_int_equal(i.name[c] & ~32, i.env[6 + c] & ~32); /* letters, case apart */
        assert_true(strlen(i.help) > 10);
        assert_string_equal(i.source, "default");
        assert_int_equal(lt_config_set(i.name, i.value, &err), 0);
        assert_string_equal(lt_config_info(s).source, "flag");
    }
}

static void a_flag_wins_over_the_environment_and_that_over_the_default(void **state)
{
    (void)state;
    lt_err err;
    assert_int_equal(lt_config_int(LT_SET_CPU_ORDER), 0);
    assert_string_equal(reading("LATHE_CPU_ORDER", "7"), "");
    assert_int_equal(lt_config_int(LT_SET_CPU_ORDER), 7);
    assert_string_equal(lt_config_info(LT_SET_CPU_ORDER).source, "environment");
    assert_int_equal(lt_config_set("cpu_order", "9", &err), 0);
    assert_int_equal(lt_config_int(LT_SET_CPU_ORDER), 9);
    assert_string_equal(lt_config_info(LT_SET_CPU_ORDER).source, "flag");
    assert_string_equal(reading("LATHE_CPU_ORDER", ""), "");
    assert_string_equal(lt_config_info(LT_SET_CPU_ORDER).source, "default");
}

static void words_count_from_0(void **state)
{
    (void)state;
    assert_int_equal(lt_config_int(LT_SET_JIT), 1);
    assert_string_equal(reading("LATHE_JIT", "off"), "");
    assert_int_equal(lt_config_int(LT_SET_JIT), 0);
    assert_int_equal(lt_config_int(LT_SET_SPILL), 0);
    assert_string_equal(reading("LATHE_SPILL", "error"), "");
    assert_int_equal(lt_config_int(LT_SET_SPILL), 1);
}

static void a_bad_value_is_an_error_that_names_the_legal_ones(void **state)
{
    (void)state;
    lt_err err;
    assert_string_equal(reading("LATHE_DEBUG", "x"),
                        "LATHE_DEBUG: 'x' is not a number from 0 to 5 (unset it or give one)");
    assert_string_equal(reading("LATHE_JIT", "Off"),
                        "LATHE_JIT: 'Off' is neither off nor on (unset it or give one)");
    static const char *const bad[] = {"6", "-1", "1.0", "0x1", " 1", "1 ", "99999999999999999999"};
    for (size_t i = 0; i < lt_countof(bad); i++) assert_true(*reading("LATHE_DEBUG", bad[i]) != 0);
    assert_int_equal(lt_config_set("debug", "6", &err), -1);
    assert_string_equal(err.text, "debug: '6' is not a number from 0 to 5 (give one)");
    assert_int_equal(lt_config_set("colour", "red", &err), -1);
    assert_string_equal(err.text, "colour: no such setting (`lathe config` lists them)");
}

static void the_cache_is_under_xdg_or_home_if_they_are_absolute(void **state)
{
    (void)state;
    lt_err err;
    char *home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    setenv("HOME", "/h", 1);
    setenv("XDG_CACHE_HOME", "/x y", 1);
    lt_config_read(&err);
    assert_string_equal(lt_config_default_cache_dir(), "/x y/lathe");
    setenv("XDG_CACHE_HOME", "relative", 1);
    lt_config_read(&err);
    assert_string_equal(lt_config_default_cache_dir(), "/h/.cache/lathe");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "", 1);
    lt_config_read(&err);
    assert_null(lt_config_default_cache_dir());
    unsetenv("HOME");
    lt_config_read(&err);
    assert_null(lt_config_default_cache_dir());
    if (home) setenv("HOME", home, 1);
    free(home);
}

/* ---- files ---- */

typedef struct {
    char dir[300];
} scratch;

static void write_file(const scratch *s, const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", s->dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int make_scratch(void **state)
{
    static scratch s;
    char path[400];
    const char *tmp = getenv("TMPDIR");
    snprintf(s.dir, sizeof s.dir, "%s/lathe-base-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(s.dir)) return -1;
    snprintf(path, sizeof path, "%s/gen", s.dir);
    if (mkdir(path, 0700)) return -1;
    *state = &s;
    return forget_settings(NULL);
}

static int remove_scratch(void **state)
{
    char command[400];
    const scratch *s = *state;
    snprintf(command, sizeof command, "rm -rf '%s'", s->dir);
    return system(command) || forget_settings(NULL);
}

static void a_checkouts_own_file_wins_over_the_embedded_one(void **state)
{
    const scratch *s = *state;
    lt_err err;
    assert_true(lt_embedded_count > 0);
    const lt_embedded *e = &lt_embedded_files[0];
    lt_bytes b = {0};
    lt_config_set("root", s->dir, &err);
    assert_string_equal(lt_files_root(), s->dir);
    assert_int_equal(lt_files_read(e->name, &b, &err), 0);
    assert_int_equal(b.len, e->len);
    assert_memory_equal(b.ptr, e->ptr, e->len);
    lt_bytes_clear(&b);

    write_file(s, "gen/own.lua", "return 7\n");
    assert_int_equal(lt_files_read("gen/own.lua", &b, &err), 0);
    assert_string_equal(b.ptr, "return 7\n");
    lt_bytes_clear(&b);
    assert_int_equal(lt_files_read("gen/none.lua", &b, &err), -1);
    assert_non_null(strstr(err.text, "gen/none.lua: no such file in the program or in /"));
}

static void a_name_that_leaves_the_project_is_refused(void **state)
{
    const scratch *s = *state;
    lt_err err;
    lt_bytes b = {0};
    lt_config_set("root", s->dir, &err);
    static const char *const bad[] = {"/etc/passwd", "../x", "gen/../../x", "gen/..", "..", ""};
    for (size_t i = 0; i < lt_countof(bad); i++) {
        assert_int_equal(lt_files_read(bad[i], &b, &err), -1);
        assert_non_null(strstr(err.text, "names are relative"));
        assert_int_equal(lt_files_list(bad[i], &b, &err), -1);
    }
    write_file(s, "gen/..own", "fine");
    assert_int_equal(lt_files_read("gen/..own", &b, &err), 0);
    lt_bytes_clear(&b);
}

static void a_list_is_sorted_and_holds_both_places_once(void **state)
{
    const scratch *s = *state;
    lt_err err;
    lt_bytes b = {0};
    lt_config_set("root", s->dir, &err);
    write_file(s, "gen/zz.lua", "");
    write_file(s, "gen/0.lua", "");
    write_file(s, "gen/.hidden.lua", "");
    write_file(s, "gen/emit.lua", "");
    assert_int_equal(lt_files_list("gen", &b, &err), 0);
    assert_memory_equal(b.ptr, "0.lua\n", 6);
    assert_string_equal(b.ptr + b.len - 7, "zz.lua\n");
    assert_null(strstr(b.ptr, "hidden"));
    const char *once = strstr(b.ptr, "emit.lua\n");
    assert_non_null(once);
    assert_null(strstr(once + 1, "emit.lua\n"));
    lt_bytes_clear(&b);
    assert_int_equal(lt_files_list("nowhere", &b, &err), 0);
    assert_int_equal(b.len, 0);
}

static void a_root_that_is_no_folder_is_an_error(void **state)
{
    (void)state;
    lt_err err;
    lt_bytes b = {0};
    lt_config_set("root", "/nowhere/at/all", &err);
    assert_int_equal(lt_files_read("gen/emit.lua", &b, &err), -1);
    assert_string_equal(
        err.text, "LATHE_ROOT: '/nowhere/at/all' is not a folder (unset it or name a checkout)");
}

/* In the row of each setting: its variable, its default, and the words that it takes. */
static void the_docs_list_every_setting_and_its_default(void **state)
{
    (void)state;
    lt_err err;
    lt_bytes doc = {0};
    FILE *f = fopen("docs/env.md", "r");
    if (!f) skip(); /* not run from the root of a checkout */
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;)
        assert_int_equal(lt_bytes_append(&doc, block, n, &err), 0);
    fclose(f);
    for (lt_setting s = 0; s < LT_SETTINGS; s++) {
        char row[200];
        const lt_setting_info i = lt_config_info(s);
        if (*i.value)
            snprintf(row, sizeof row, "\n| `%s` | `%s` | ", i.env, i.value);
        else
            snprintf(row, sizeof row, "\n| `%s` | empty | ", i.env);
        if (!strstr(doc.ptr, row)) fail_msg("docs/env.md has no row '%s'", row + 1);
    }
    lt_bytes_clear(&doc);
}

static void the_clock_goes_forward(void **state)
{
    (void)state;
    const double a = lt_now_us();
    usleep(2000);
    assert_true(lt_now_us() - a >= 2000);
}

#define with_settings(f) cmocka_unit_test_setup_teardown(f, forget_settings, forget_settings)
#define with_files(f) cmocka_unit_test_setup_teardown(f, make_scratch, remove_scratch)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_built_from_the_inside_out),
        cmocka_unit_test(a_message_that_is_too_long_is_cut_and_ended),
        cmocka_unit_test(bytes_grow_and_end_with_a_zero),
        cmocka_unit_test(sha256_is_that_of_the_standard),
        with_settings(every_setting_has_a_name_and_a_legal_default),
        with_settings(a_flag_wins_over_the_environment_and_that_over_the_default),
        with_settings(words_count_from_0),
        with_settings(a_bad_value_is_an_error_that_names_the_legal_ones),
        with_settings(the_cache_is_under_xdg_or_home_if_they_are_absolute),
        with_settings(the_docs_list_every_setting_and_its_default),
        with_files(a_checkouts_own_file_wins_over_the_embedded_one),
        with_files(a_name_that_leaves_the_project_is_refused),
        with_files(a_list_is_sorted_and_holds_both_places_once),
        with_files(a_root_that_is_no_folder_is_an_error),
        cmocka_unit_test(the_clock_goes_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
