/* store_large.c: a cache of very many entries: STORE_ENTRIES of them, 2,000 where it is not set.
 * Prints how long each operation takes. */
#include "store_kit.h"

static int entries = 2000;

enum { IMAGE = 200, LOOKS = 200 };

static int skip_sync(int fd)
{
    return fd < 0 ? -1 : 0; /* a real one would take minutes */
}

static int plain_open(int folder, const char *name, int flags, mode_t mode)
{
    return openat(folder, name, flags, mode);
}

static int plain_rename(int folder, const char *from, const char *to)
{
    return renameat(folder, from, folder, to);
}

static double no_time(void)
{
    return 0;
}

static void no_pause(double seconds)
{
    (void)seconds;
}

static const lt_store_io unsynced = {plain_open, mkdir,        read,    write,
                                     skip_sync,  plain_rename, no_time, no_pause};

/* Seconds since the last call with this clock. */
static double lap(double *clock)
{
    const double now = lt_now_us(), passed = (now - *clock) * 1e-6;
    *clock = now;
    return passed;
}

/* An operation over all entries may take this long, on a machine that has other work. */
static void assert_quick(const char *what, double seconds, int count)
{
    print_message("%s: %.3f s for %d\n", what, seconds, count);
    if (seconds > 1 + count * 1e-3) fail_msg("%s took %.1f s", what, seconds);
}

static int count_whole(void *ctx, const lt_store_item *item)
{
    int *whole = ctx;
    *whole += item->whole;
    return 0;
}

static int count_item(void *ctx, const lt_store_item *item)
{
    (void)item;
    ++*(int *)ctx;
    return 0;
}

static void every_operation_on_very_many_entries_ends_soon(void **state)
{
    const scratch *x = *state;
    lt_err err;
    lt_entry e = {0};
    int listed = 0, whole = 0;
    size_t removed, bytes;
    double clock = lt_now_us();
    lt_store_set_io(&unsynced);
    lt_store *s = open_store(x->cache);
    for (int i = 0; i < entries; i++) assert_true(publish(s, "k", i, IMAGE));
    assert_quick("publish", lap(&clock), entries);
    for (int i = 0; i < LOOKS; i++)
        assert_int_equal(look(s, "k", i * (entries / LOOKS), IMAGE), LT_STORE_HIT);
    assert_quick("find", lap(&clock), LOOKS);
    assert_int_equal(lt_store_find_nearest(s, "other", "text", "compiler", &e, &err),
                     LT_STORE_MISS);
    assert_quick("find the nearest", lap(&clock), 1);
    assert_int_equal(lt_store_walk(s, false, count_item, &listed, &err), 0);
    assert_quick("list", lap(&clock), entries);
    assert_int_equal(lt_store_walk(s, true, count_whole, &whole, &err), 0);
    assert_quick("verify", lap(&clock), entries);
    assert_int_equal(listed, entries);
    assert_int_equal(whole, entries);
    assert_int_equal(lt_store_gc(s, SIZE_MAX, &removed, &bytes, &err), 0);
    assert_quick("gc that removes nothing", lap(&clock), entries);
    assert_int_equal(removed, 0);
    assert_int_equal(lt_store_gc(s, (size_t)entries / 2 * (IMAGE + 200), &removed, &bytes, &err),
                     0);
    assert_quick("gc", lap(&clock), entries);
    assert_in_range(removed, entries / 10, entries * 9 / 10);
    assert_int_equal(lt_store_clear(s, &removed, &err), 0);
    assert_quick("clear", lap(&clock), entries);
    assert_int_equal(count_files(x->cache, ""), 0);
    lt_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(every_operation_on_very_many_entries_ends_soon),
    };
    if (getenv("STORE_ENTRIES")) entries = atoi(getenv("STORE_ENTRIES"));
    if (entries < LOOKS) return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
