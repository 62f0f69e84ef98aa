/* record.c: files of sealed lines: what is torn, mixed or foreign is told from what is whole, and
 * no reader, writer, crash or full disk costs a line that was there. */
#include "store_kit.h"

#include "cache/folder.h"
#include "cache/record.h"

#include <signal.h>

enum { NOBODY = 65534 };

static const char name[] = "nvidia-h200";

static void path_to(const scratch *x, char path[512])
{
    snprintf(path, 512, "%s/tuned/%s.tuned", x->cache, name);
}

static int begin(void **state)
{
    lt_err err;
    if (begin_scratch(state)) return -1;
    const scratch *x = *state;
    return lt_config_set("cache_dir", x->cache, &err);
}

#define in_cache(test) cmocka_unit_test_setup_teardown(test, begin, end_scratch)

static lt_record *open_record(void)
{
    lt_record *r = NULL;
    lt_err err;
    if (lt_record_open(&r, name, &err)) fail_msg("%s", err.text);
    return r;
}

static void append(lt_record *r, const char *line)
{
    lt_err err;
    if (lt_record_append(r, lt_span_text(line), &err)) fail_msg("%s", err.text);
}

/* What a fresh reader gets is `want`, and so many lines besides are none. */
static void check_lines(const char *want, size_t bad_wanted)
{
    lt_bytes lines = {0};
    lt_err err;
    size_t bad;
    lt_record *r = open_record();
    if (lt_record_read(r, &lines, &bad, &err)) fail_msg("%s", err.text);
    assert_string_equal(lines.ptr ? lines.ptr : "", want);
    assert_int_equal(bad, bad_wanted);
    lt_bytes_clear(&lines);
    lt_record_close(r);
}

static void what_is_appended_is_read_in_order_by_any_process(void **state)
{
    (void)state;
    check_lines("", 0);
    lt_record *r = open_record();
    append(r, "record=1\tus=1.5");
    check_lines("record=1\tus=1.5\n", 0);
    append(r, "record=1\tus=1.25");
    lt_record_close(r);
    r = open_record();
    append(r, "sch\xc3\xb6n");
    lt_record_close(r);
    check_lines("record=1\tus=1.5\nrecord=1\tus=1.25\nsch\xc3\xb6n\n", 0);
}

static void what_is_no_line_or_no_name_is_refused(void **state)
{
    (void)state;
    static const lt_span lines[] = {{"", 0}, {"a\nb", 3}, {"a\r", 2}, {"a\0b", 3}};
    static const char *const names[] = {"", ".x", "../x", "a/b", "A", "a b"};
    lt_err err;
    lt_record *r = open_record();
    for (size_t i = 0; i < lt_countof(lines); i++) {
        assert_int_equal(lt_record_append(r, lines[i], &err), -1);
        assert_non_null(strstr(err.text, "a record is one line of text"));
    }
    assert_int_equal(lt_record_replace(r, lt_span_text("a\n"), &err), -1);
    assert_non_null(strstr(err.text, "without being held"));
    lt_record_close(r);
    check_lines("", 0);
    assert_true(lt_record_is_name(name));
    for (size_t i = 0; i < lt_countof(names); i++) {
        assert_false(lt_record_is_name(names[i]));
        assert_int_equal(lt_record_open(&r, names[i], &err), -1);
        assert_non_null(strstr(err.text, "cannot name a file"));
    }
}

/* ---- damage ---- */

static void a_torn_end_costs_its_own_line_and_the_next_append_begins_a_new_one(void **state)
{
    char path[512], whole[256];
    path_to(*state, path);
    lt_record *r = open_record();
    append(r, "first");
    append(r, "second");
    const size_t len = read_file(path, whole, sizeof whole);
    for (size_t cut = strlen("first\tsum=01234567\n") + 1; cut < len; cut++) {
        const bool only_newline = cut == len - 1; /* the last line is whole without it */
        write_file(path, whole, cut);
        check_lines(only_newline ? "first\nsecond\n" : "first\n", only_newline ? 0 : 1);
        append(r, "third");
        check_lines(only_newline ? "first\nsecond\nthird\n" : "first\nthird\n",
                    only_newline ? 0 : 1);
    }
    lt_record_close(r);
}

static void a_flipped_bit_costs_one_line(void **state)
{
    char path[512], whole[256];
    path_to(*state, path);
    lt_record *r = open_record();
    append(r, "first");
    append(r, "second");
    append(r, "third");
    lt_record_close(r);
    const size_t len = read_file(path, whole, sizeof whole);
    const char *second = strstr(whole, "second");
    for (size_t i = 0; i < strlen("second\tsum=01234567"); i++) {
        char *at = whole + (second - whole) + i;
        *at = (char)(*at ^ 0x40);
        write_file(path, whole, len);
        *at = (char)(*at ^ 0x40);
        check_lines("first\nthird\n", 1);
    }
}

static void foreign_lines_other_line_ends_and_none_at_the_end_do_no_harm(void **state)
{
    char path[512], whole[512];
    lt_bytes dos = {0};
    path_to(*state, path);
    lt_record *r = open_record();
    append(r, "first");
    append(r, "second");
    const size_t len = read_file(path, whole, sizeof whole);
    lt_bytes_print(&dos, NULL, "# a note\r\n\r\n");
    for (size_t i = 0; i < len; i++)
        lt_bytes_print(&dos, NULL, whole[i] == '\n' ? "\r\n" : "%c", whole[i]);
    lt_bytes_append(&dos, "\0\0\n\xff\xfe\n", 6, NULL);
    lt_bytes_append(&dos, whole, strlen("first\tsum=01234567"), NULL);
    write_file(path, dos.ptr, dos.len);
    check_lines("first\nsecond\nfirst\n", 3);
    append(r, "third");
    check_lines("first\nsecond\nfirst\nthird\n", 3);
    lt_bytes_clear(&dos);
    lt_record_close(r);
}

/* It is read as empty, which is said once, with why, and neither appended to nor held. */
static void check_unusable(const char *path, const char *why)
{
    char said[1000];
    lt_err err;
    lt_record *r = open_record();
    const int capture = begin_capture();
    check_lines("", 0);
    end_capture(capture, said, sizeof said);
    assert_int_equal(count_lines(said), 1);
    assert_non_null(strstr(said, path));
    assert_non_null(strstr(said, "(mend that or set LATHE_CACHE_DIR): "));
    assert_non_null(strstr(said, why));
    assert_non_null(strstr(said, ": none of them is used"));
    assert_int_equal(lt_record_check(r, &err), -1);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(lt_record_append(r, lt_span_text("a"), &err), -1);
    assert_non_null(strstr(err.text, path));
    assert_int_equal(lt_record_hold(r, &err), -1);
    assert_non_null(strstr(err.text, "(mend that or set LATHE_CACHE_DIR): "));
    lt_record_close(r);
}

static void
what_is_no_file_of_the_user_in_its_place_is_said_and_neither_read_nor_written(void **state)
{
    char path[512];
    path_to(*state, path);
    lt_record_close(open_record());
    assert_int_equal(symlink("nowhere", path), 0);
    check_unusable(path, "a symbolic link");
    assert_int_equal(unlink(path) || mkfifo(path, 0600), 0);
    check_unusable(path, "not a regular file");
    assert_int_equal(unlink(path) || mkdir(path, 0700), 0);
    check_unusable(path, "not a regular file");
    assert_int_equal(rmdir(path), 0);
    lt_record *r = open_record();
    append(r, "first");
    lt_record_close(r);
    assert_int_equal(chmod(path, 0666), 0);
    check_unusable(path, "others may write it");
    assert_int_equal(chmod(path, 0600), 0);
    check_lines("first\n", 0);
}

/* ---- places ---- */

/* In a child that may read but not write. */
static int use_read_only(void)
{
    lt_err err;
    lt_bytes lines = {0};
    size_t bad;
    lt_record *r = NULL;
    if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) return 2;
    if (lt_record_open(&r, name, &err)) return 3;
    bool well = !lt_record_read(r, &lines, &bad, &err) && !strcmp(lines.ptr, "first\n");
    well = well && lt_record_check(r, &err) && strstr(err.text, "cannot be written");
    well = well && lt_record_append(r, lt_span_text("second"), &err) &&
           strstr(err.text, "cannot be written");
    well = well && lt_record_hold(r, &err);
    lt_bytes_clear(&lines);
    lt_record_close(r);
    return well ? 0 : 1;
}

static void a_read_only_folder_is_read_and_says_why_nothing_is_appended(void **state)
{
    const scratch *x = *state;
    char folder[256];
    lt_record *r = open_record();
    append(r, "first");
    lt_record_close(r);
    snprintf(folder, sizeof folder, "%s/tuned", x->cache);
    assert_int_equal(chmod(x->root, 0755) || chmod(x->cache, 0755) || chmod(folder, 0555), 0);
    const pid_t child = fork();
    if (child == 0) _exit(use_read_only());
    const int status = wait_child(child);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(status, 0);
    check_lines("first\n", 0);
}

/* In a child that may not read the file. */
static int use_unreadable(void)
{
    lt_err err;
    lt_bytes lines = {0};
    size_t bad;
    lt_record *r = NULL;
    if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) return 2;
    if (lt_record_open(&r, name, &err)) return 3;
    const bool well = !lt_record_read(r, &lines, &bad, &err) && !lines.len;
    lt_record_close(r);
    return well ? 0 : 1;
}

static void an_unreadable_file_is_said_and_read_as_empty(void **state)
{
    const scratch *x = *state;
    char path[512], said[1000], *slash;
    path_to(x, path);
    lt_record *r = open_record();
    append(r, "first");
    lt_record_close(r);
    assert_int_equal(chmod(path, 0), 0);
    *(slash = strrchr(path, '/')) = 0;
    assert_int_equal(chmod(x->root, 0755) || chmod(x->cache, 0755) || chmod(path, 0755), 0);
    *slash = '/';
    const int capture = begin_capture();
    const pid_t child = fork();
    if (child == 0) _exit(use_unreadable());
    const int status = wait_child(child);
    end_capture(capture, said, sizeof said);
    assert_int_equal(status, 0);
    assert_int_equal(count_lines(said), 1);
    assert_non_null(strstr(said, "Permission denied: none of them is used"));
    assert_int_equal(chmod(path, 0600), 0);
    check_lines("first\n", 0);
}

static void a_folder_that_cannot_be_made_holds_nothing_and_says_so_when_written(void **state)
{
    (void)state;
    lt_err err;
    assert_int_equal(lt_config_set("cache_dir", "/dev/null", &err), 0);
    check_lines("", 0);
    lt_record *r = open_record();
    assert_int_equal(lt_record_append(r, lt_span_text("a"), &err), -1);
    assert_non_null(strstr(err.text, "records '/dev/null/tuned/nvidia-h200.tuned'"));
    assert_non_null(strstr(err.text, "LATHE_CACHE_DIR"));
    lt_record_close(r);
}

static void a_folder_that_is_there_and_cannot_be_used_is_said_when_it_is_read(void **state)
{
    const scratch *x = *state;
    char folder[256], said[1000];
    lt_record *r = open_record();
    append(r, "first");
    lt_record_close(r);
    snprintf(folder, sizeof folder, "%s/tuned", x->cache);
    assert_int_equal(chmod(folder, 0777), 0); /* anyone could have written the records */
    const int capture = begin_capture();
    check_lines("", 0);
    end_capture(capture, said, sizeof said);
    assert_int_equal(chmod(folder, 0700), 0);
    assert_int_equal(count_lines(said), 1);
    assert_non_null(strstr(said, "others may write it"));
    assert_non_null(strstr(said, "none of them is used"));
}

/* ---- a full disk ---- */

static int short_by = -1; /* bytes that a write leaves out; -1: none */
static bool sync_fails;

static ssize_t write_short(int fd, const void *from, size_t bytes)
{
    if (short_by < 0) return write(fd, from, bytes);
    if ((size_t)short_by >= bytes) {
        errno = ENOSPC;
        return -1;
    }
    return write(fd, from, bytes - (size_t)short_by);
}

static int sync_or_fail(int fd)
{
    if (!sync_fails) return fsync(fd);
    errno = EIO;
    return -1;
}

static void check_append_fails(lt_record *r, const char *why)
{
    lt_err err;
    assert_int_equal(lt_record_append(r, lt_span_text("second"), &err), -1);
    if (!strstr(err.text, why)) fail_msg("'%s' is not said, but '%s'", why, err.text);
    check_lines("first\n", 0);
}

static void a_full_disk_takes_nothing_of_a_line_and_nothing_of_older_ones(void **state)
{
    (void)state;
    lt_store_io io = lt_folder_system_io;
    io.write = write_short;
    io.sync = sync_or_fail;
    lt_store_set_io(&io);
    lt_record *r = open_record();
    append(r, "first");
    for (short_by = 1; short_by < 24; short_by++) check_append_fails(r, "No space left");
    short_by = -1;
    sync_fails = true;
    check_append_fails(r, "Input/output error");
    lt_err err;
    assert_int_equal(lt_record_hold(r, &err), 0);
    assert_int_equal(lt_record_replace(r, lt_span_text("second\n"), &err), -1);
    sync_fails = false;
    append(r, "second");
    lt_record_close(r);
    check_lines("first\nsecond\n", 0);
}

/* ---- several processes ---- */

enum { WRITERS = 8, LINES = 60 };

static int write_many(int writer, int lines)
{
    lt_record *r = NULL;
    lt_err err;
    lt_bytes line = {0};
    if (lt_record_open(&r, name, &err)) return 1;
    for (int i = 0; i < lines; i++) {
        lt_bytes_clear(&line);
        lt_bytes_print(&line, NULL, "writer=%d\tline=%d\t%0*d", writer, i, 1 + writer * 200, 7);
        if (lt_record_append(r, lt_bytes_view(&line), &err)) return 2;
    }
    lt_record_close(r);
    lt_bytes_clear(&line);
    return 0;
}

/* The lines that the file holds of each writer are 0, 1, .. in order; how many. */
static void count_by_writer(int counts[WRITERS], size_t *bad)
{
    lt_bytes lines = {0};
    lt_err err;
    lt_record *r = open_record();
    memset(counts, 0, WRITERS * sizeof *counts);
    if (lt_record_read(r, &lines, bad, &err)) fail_msg("%s", err.text);
    for (char *at = lines.ptr, *end; at && *at; at = end + 1) {
        int writer = -1, line = -1;
        end = strchr(at, '\n');
        assert_int_equal(sscanf(at, "writer=%d\tline=%d\t", &writer, &line), 2);
        assert_in_range(writer, 0, WRITERS - 1);
        assert_int_equal(line, counts[writer]++);
    }
    lt_bytes_clear(&lines);
    lt_record_close(r);
}

/* Holds the file and puts back what is there, as long as lines are still to come. */
static int rewrite_many(void)
{
    int all = 0;
    for (int i = 0; i < 1000 && all < WRITERS * LINES; i++) {
        lt_record *r = NULL;
        lt_err err;
        lt_bytes lines = {0};
        size_t bad;
        if (lt_record_open(&r, name, &err) || lt_record_hold(r, &err)) return 1;
        if (lt_record_read(r, &lines, &bad, &err) || bad) return 2;
        if (lt_record_replace(r, lt_bytes_view(&lines), &err)) return 3;
        all = count_lines(lines.ptr ? lines.ptr : "");
        lt_bytes_clear(&lines);
        lt_record_close(r);
        usleep(1000);
    }
    return 0;
}

static void appends_and_rewrites_of_several_processes_lose_and_mix_nothing(void **state)
{
    (void)state;
    pid_t children[WRITERS + 1];
    int counts[WRITERS];
    size_t bad;
    for (int i = 0; i <= WRITERS; i++) {
        children[i] = fork();
        if (children[i] == 0) _exit(i < WRITERS ? write_many(i, LINES) : rewrite_many());
    }
    for (int i = 0; i < 20; i++) {
        count_by_writer(counts, &bad);
        assert_int_equal(bad, 0); /* no reader sees half a line */
    }
    for (int i = 0; i <= WRITERS; i++) assert_int_equal(wait_child(children[i]), 0);
    count_by_writer(counts, &bad);
    assert_int_equal(bad, 0);
    for (int i = 0; i < WRITERS; i++) assert_int_equal(counts[i], LINES);
}

static void a_writer_that_is_killed_loses_no_line_that_it_finished(void **state)
{
    (void)state;
    int counts[WRITERS], before = 0;
    size_t bad;
    for (int i = 0; i < 20; i++) {
        lt_err err;
        lt_record *r = open_record();
        assert_int_equal(lt_record_hold(r, &err), 0);
        assert_int_equal(lt_record_replace(r, lt_span_text(""), &err), 0);
        lt_record_close(r);
        const pid_t child = fork();
        if (child == 0) _exit(write_many(i % WRITERS, 100000));
        do {
            count_by_writer(counts, &bad);
        } while (counts[i % WRITERS] < 3 + i);
        before = counts[i % WRITERS];
        kill(child, SIGKILL);
        assert_int_equal(wait_child(child), 128 + SIGKILL);
        count_by_writer(counts, &bad);
        assert_true(counts[i % WRITERS] >= before);
        assert_true(bad <= 1);
        r = open_record();
        append(r, "writer=0\tline=0\tafter");
        lt_record_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_cache(what_is_appended_is_read_in_order_by_any_process),
        in_cache(what_is_no_line_or_no_name_is_refused),
        in_cache(a_torn_end_costs_its_own_line_and_the_next_append_begins_a_new_one),
        in_cache(a_flipped_bit_costs_one_line),
        in_cache(foreign_lines_other_line_ends_and_none_at_the_end_do_no_harm),
        in_cache(what_is_no_file_of_the_user_in_its_place_is_said_and_neither_read_nor_written),
        in_cache(a_read_only_folder_is_read_and_says_why_nothing_is_appended),
        in_cache(an_unreadable_file_is_said_and_read_as_empty),
        in_cache(a_folder_that_cannot_be_made_holds_nothing_and_says_so_when_written),
        in_cache(a_folder_that_is_there_and_cannot_be_used_is_said_when_it_is_read),
        in_cache(a_full_disk_takes_nothing_of_a_line_and_nothing_of_older_ones),
        in_cache(appends_and_rewrites_of_several_processes_lose_and_mix_nothing),
        in_cache(a_writer_that_is_killed_loses_no_line_that_it_finished),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
