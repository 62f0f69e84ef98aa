/* store_clock.c: a store where time is not what it should be: clocks that jump, and a file server
 * that shows a rename late or loses its answer. */
#include "store_kit.h"

#include <sys/file.h>

enum { IMAGE = 1000 };

/* ---- clocks ---- */

static void set_times(const char *dir, const char *file, double hours_ago, double used_hours_ago)
{
    char path[512];
    struct timespec now, t[2];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    clock_gettime(CLOCK_REALTIME, &now);
    t[0] = (struct timespec){now.tv_sec - (time_t)(used_hours_ago * 3600), 0};
    t[1] = (struct timespec){now.tv_sec - (time_t)(hours_ago * 3600), 0};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* The same of entry `seed` of kernel "k". */
static void set_entry_times(const char *dir, int seed, double hours_ago, double used_hours_ago)
{
    lt_entry e;
    char key[65], file[64];
    make_entry(seed, 0, &e, key);
    lt_entry_clear(&e);
    snprintf(file, sizeof file, "k.%.16s", key);
    set_times(dir, file, hours_ago, used_hours_ago);
}

static size_t gc(lt_store *s, size_t limit)
{
    lt_err err;
    size_t removed, bytes;
    assert_int_equal(lt_store_gc(s, limit, &removed, &bytes, &err), 0);
    return removed;
}

#define YEARS (24.0 * 365) /* hours */

static void an_entry_of_a_clock_that_was_ahead_does_not_outlive_those_in_use(void **state)
{
    const scratch *x = *state;
    lt_store *s = open_store(x->cache);
    for (int i = 0; i < 5; i++) assert_true(publish(s, "k", i, IMAGE));
    set_entry_times(x->cache, 0, -70 * YEARS, -70 * YEARS); /* the clock was set back since */
    set_entry_times(x->cache, 1, -2, -2);
    set_entry_times(x->cache, 2, 3, 2);
    set_entry_times(x->cache, 3, -70 * YEARS, 1); /* and used since */
    set_entry_times(x->cache, 4, -0.5, -0.5);     /* a file server's clock is ahead */
    assert_int_equal(gc(s, 3 * (IMAGE + 500)), 2);
    for (int i = 0; i < 5; i++)
        assert_int_equal(look(s, "k", i, IMAGE), i < 2 ? LT_STORE_MISS : LT_STORE_HIT);
    lt_store_close(s);
}

static void entries_of_the_year_1970_go_first_and_serve_until_then(void **state)
{
    const scratch *x = *state;
    struct timespec now;
    lt_store *s = open_store(x->cache);
    clock_gettime(CLOCK_REALTIME, &now);
    const double since_1970 = (double)now.tv_sec / 3600;
    for (int i = 0; i < 3; i++) assert_true(publish(s, "k", i, IMAGE));
    set_entry_times(x->cache, 0, 5, 5);
    set_entry_times(x->cache, 1, since_1970, since_1970);
    set_entry_times(x->cache, 2, since_1970 + 5, since_1970 + 5); /* before it, too */
    assert_int_equal(gc(s, IMAGE + 500), 2);
    assert_int_equal(look(s, "k", 0, IMAGE), LT_STORE_HIT);
    assert_true(publish(s, "k", 1, IMAGE));
    set_entry_times(x->cache, 1, since_1970, since_1970);
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT); /* which is a use, now */
    set_entry_times(x->cache, 0, 5, 5);
    assert_int_equal(gc(s, IMAGE + 500), 1);
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
}

static int sum_ages(void *ctx, const lt_store_item *item)
{
    assert_true(item->age_seconds >= 0);
    *(double *)ctx += item->age_seconds;
    return 0;
}

static void no_age_is_negative(void **state)
{
    const scratch *x = *state;
    lt_err err;
    double ages = 0;
    lt_store *s = open_store(x->cache);
    for (int i = 0; i < 2; i++) assert_true(publish(s, "k", i, IMAGE));
    for (int i = 0; i < 2; i++) set_entry_times(x->cache, i, -0.5, -0.5);
    assert_int_equal(lt_store_walk(s, false, sum_ages, &ages, &err), 0);
    assert_true(ages == 0.0);
    lt_store_close(s);
}

/* A private file belongs to its writer as long as that locks it, whatever the clocks say. */
static void a_clock_that_jumps_takes_no_file_from_its_writer(void **state)
{
    const scratch *x = *state;
    static const double hours[] = {-70 * YEARS, 70 * YEARS};
    for (size_t i = 0; i < lt_countof(hours); i++) {
        char name[64], path[512];
        lt_store *s = open_store(x->cache);
        snprintf(name, sizeof name, ".%ld.0.private", (long)getpid());
        snprintf(path, sizeof path, "%s/%s", x->cache, name);
        write_file(path, "x", 1);
        set_times(x->cache, name, hours[i], hours[i]);
        const int fd = open(path, O_WRONLY);
        assert_int_equal(flock(fd, LOCK_EX), 0);
        assert_int_equal(gc(s, 0), 0);
        assert_int_equal(access(path, F_OK), 0);
        close(fd);
        assert_int_equal(gc(s, 0), 0);            /* no entry */
        assert_int_equal(access(path, F_OK), -1); /* nobody's: none takes that long to write */
        lt_store_close(s);
    }
}

/* ---- a file server ---- */

static struct {
    int late;     /* opens that do not see the renamed file yet */
    int code;     /* what they say */
    bool is_lost; /* the rename is done, and its answer lost: it was made again, and failed */
} server;

static int late_open(int folder, const char *name, int flags, mode_t mode)
{
    if (strncmp(name, "k.", 2) || server.late <= 0) return openat(folder, name, flags, mode);
    server.late--;
    errno = server.code;
    return -1;
}

static int lossy_rename(int folder, const char *from, const char *to)
{
    if (renameat(folder, from, folder, to)) return -1;
    errno = ENOENT;
    return server.is_lost ? -1 : 0;
}

static double no_time(void)
{
    return 0;
}

static void no_pause(double seconds)
{
    (void)seconds;
}

static const lt_store_io remote = {late_open, mkdir,        read,    write,
                                   fsync,     lossy_rename, no_time, no_pause};

static void a_rename_that_is_seen_late_costs_misses_and_nothing_else(void **state)
{
    const scratch *x = *state;
    static const int codes[] = {ENOENT, ESTALE};
    for (size_t i = 0; i < lt_countof(codes); i++) {
        char said[1024];
        lt_store_set_io(&remote);
        const int old = begin_capture();
        lt_store *writer = open_store(x->cache), *reader = open_store(x->cache);
        const bool first = publish(writer, "k", 1, IMAGE);
        server.late = 3;
        server.code = codes[i];
        int misses = 0;
        for (; look(reader, "k", 1, IMAGE) == LT_STORE_MISS; misses++)
            if (misses == 1 && !publish(reader, "k", 1, IMAGE)) break; /* compiled twice */
        const lt_store_result got = look(reader, "k", 1, IMAGE);
        lt_store_close(writer);
        lt_store_close(reader);
        end_capture(old, said, sizeof said);
        lt_store_set_io(NULL);
        assert_true(first);
        assert_int_equal(misses, 3);
        assert_int_equal(got, LT_STORE_HIT);
        assert_int_equal(count_lines(said), codes[i] == ESTALE); /* one line, not three */
        assert_int_equal(count_files(x->cache, ""), 1);
    }
}

static void a_rename_whose_answer_is_lost_is_success(void **state)
{
    const scratch *x = *state;
    char said[1024];
    server.is_lost = true;
    lt_store_set_io(&remote);
    const int old = begin_capture();
    lt_store *s = open_store(x->cache);
    const bool done = publish(s, "k", 1, IMAGE);
    lt_store_close(s);
    end_capture(old, said, sizeof said);
    server.is_lost = false;
    lt_store_set_io(NULL);
    assert_true(done);
    assert_string_equal(said, "");
    assert_int_equal(count_files(x->cache, ""), 1);
    s = open_store(x->cache);
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
}

/* What a file server calls a file that was removed while somebody reads it. */
static void a_file_that_the_server_keeps_for_a_reader_is_left_alone(void **state)
{
    const scratch *x = *state;
    char path[512];
    lt_store *s = open_store(x->cache);
    assert_true(publish(s, "k", 1, IMAGE));
    snprintf(path, sizeof path, "%s/.nfs0000000000a1b2c300000001", x->cache);
    write_file(path, "lathe entry 1\n", 14);
    assert_int_equal(gc(s, 0), 1);
    assert_int_equal(access(path, F_OK), 0);
    lt_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(an_entry_of_a_clock_that_was_ahead_does_not_outlive_those_in_use),
        in_scratch(entries_of_the_year_1970_go_first_and_serve_until_then),
        in_scratch(no_age_is_negative),
        in_scratch(a_clock_that_jumps_takes_no_file_from_its_writer),
        in_scratch(a_rename_that_is_seen_late_costs_misses_and_nothing_else),
        in_scratch(a_rename_whose_answer_is_lost_is_success),
        in_scratch(a_file_that_the_server_keeps_for_a_reader_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
