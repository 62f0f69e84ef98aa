/* whole.c: files that appear whole or not at all. */
#include "runtime/whole.h"

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

static char folder[200], path[260];

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/whole-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/page", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static int count_files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void holds(const char *text)
{
    char got[64] = "";
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    got[fread(got, 1, sizeof got - 1, f)] = 0;
    fclose(f);
    assert_string_equal(got, text);
}

static lt_whole written(const char *text)
{
    lt_whole w;
    lt_err err = {{0}};
    if (lt_whole_open(&w, path, &err) || lt_whole_write(&w, lt_span_text(text), &err))
        fail_msg("%s", err.text);
    return w;
}

static void a_file_is_there_once_it_is_kept(void **state)
{
    (void)state;
    lt_err err;
    lt_whole w = written("one");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(lt_whole_keep(&w, &err), 0);
    holds("one");
    w = written("two");
    holds("one");
    assert_int_equal(lt_whole_write(&w, lt_span_text(" more"), &err), 0);
    assert_int_equal(lt_whole_keep(&w, &err), 0);
    holds("two more");
    assert_int_equal(count_files(), 1);
    lt_whole_clear(&w); /* nothing is left to drop */
    holds("two more");
}

static void what_is_not_kept_leaves_the_old_file_and_nothing_else(void **state)
{
    (void)state;
    lt_err err;
    lt_whole w = written("old");
    assert_int_equal(lt_whole_keep(&w, &err), 0);
    w = written("new");
    lt_whole_clear(&w);
    holds("old");
    assert_int_equal(count_files(), 1);
}

static void what_another_process_of_this_id_left_is_in_no_ones_way(void **state)
{
    (void)state;
    lt_err err;
    lt_whole w = written("old");
    char *left = strdup(w.private);
    lt_whole_clear(&w);
    fclose(fopen(left, "wb"));
    w = written("new");
    assert_int_equal(lt_whole_keep(&w, &err), 0);
    holds("new");
    assert_int_equal(unlink(left), 0);
    free(left);
}

static void what_cannot_be_made_or_written_is_named(void **state)
{
    (void)state;
    lt_whole w;
    lt_err err;
    assert_int_equal(lt_whole_open(&w, "/nowhere/page", &err), -1);
    assert_string_equal(err.text, "/nowhere/page: cannot be made: No such file or directory");
    lt_whole_clear(&w);
    assert_int_equal(lt_whole_open(&w, "", &err), -1);
    assert_string_equal(err.text, "'' names no file");
    lt_whole_clear(&w);
    assert_int_equal(lt_whole_open(&w, folder, &err), -1);
    assert_non_null(strstr(err.text, ": cannot be made: Is a directory"));
    assert_int_equal(lt_whole_open(&w, "/dev/full", &err), 0);
    assert_int_equal(lt_whole_write(&w, lt_span_text("x"), &err), -1);
    assert_string_equal(err.text, "/dev/full: cannot be written: No space left on device");
    lt_whole_clear(&w);
}

static void a_device_is_written_and_stays_one(void **state)
{
    (void)state;
    struct stat st;
    lt_whole w;
    lt_err err;
    assert_int_equal(lt_whole_open(&w, "/dev/null", &err), 0);
    assert_int_equal(lt_whole_write(&w, lt_span_text("x"), &err), 0);
    assert_int_equal(lt_whole_keep(&w, &err), 0);
    assert_int_equal(stat("/dev/null", &st), 0);
    assert_true(S_ISCHR(st.st_mode));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_there_once_it_is_kept),
        cmocka_unit_test(what_is_not_kept_leaves_the_old_file_and_nothing_else),
        cmocka_unit_test(what_another_process_of_this_id_left_is_in_no_ones_way),
        cmocka_unit_test(what_cannot_be_made_or_written_is_named),
        cmocka_unit_test(a_device_is_written_and_stays_one),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
