/* store_many.c: many processes share one cache; some of them die. */
#include "store_kit.h"

#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum { PROCESSES = 16, KEYS = 6, ROUNDS = 12, IMAGE = 20000 };

/* What the processes of a case tell each other. */
typedef struct {
    volatile int published, looks, stop;
} shared;

static shared *map_shared(void)
{
    void *at =
        mmap(NULL, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    return at;
}

/* ---- one cold cache, many processes ---- */

typedef struct {
    bool locks, gc; /* what the processes of a round do */
} plan;

static int write_all_keys(const char *dir, plan p, int first, shared *x)
{
    lt_store *s = open_store(dir);
    for (int i = 0; i < KEYS; i++) {
        const int seed = (first + i) % KEYS;
        lt_entry e;
        char key[65];
        lt_err err;
        int lock = -1;
        if (look(s, "k", seed, IMAGE) == LT_STORE_HIT) continue;
        make_entry(seed, 0, &e, key);
        lt_entry_clear(&e);
        if (p.locks && (lt_store_lock(s, "k", key, 60, &lock, &err) || lock < 0)) return 2;
        if (look(s, "k", seed, IMAGE) == LT_STORE_MISS) {
            if (!publish(s, "k", seed, IMAGE)) return 3;
            __atomic_fetch_add(&x->published, 1, __ATOMIC_RELAXED);
        }
        lt_store_unlock(s, lock);
        const lt_store_result got = look(s, "k", seed, IMAGE);
        if (got == LT_STORE_FAILED || (got == LT_STORE_MISS && !p.gc)) return 4;
    }
    lt_store_close(s);
    return 0;
}

static int count_damaged(void *ctx, const lt_store_item *item)
{
    int *damaged = ctx;
    *damaged += !item->whole;
    return 0;
}

static int verify_until_stop(const char *dir, shared *x)
{
    lt_err err;
    int damaged = 0;
    lt_store *s = open_store(dir);
    while (!x->stop && !damaged) {
        if (lt_store_walk(s, true, count_damaged, &damaged, &err)) return 2;
        for (int i = 0; i < KEYS; i++)
            if (look(s, "k", i, IMAGE) == LT_STORE_FAILED) return 3;
        x->looks++;
    }
    lt_store_close(s);
    return damaged ? 1 : 0;
}

static int gc_until_stop(const char *dir, const shared *x)
{
    lt_err err;
    size_t removed, bytes;
    lt_store *s = open_store(dir);
    while (!x->stop)
        if (lt_store_gc(s, 3 * IMAGE, &removed, &bytes, &err)) return 2;
    lt_store_close(s);
    return 0;
}

/* Starts the processes, kills one at some moment; the rest must end well and say nothing. */
static void run_round(const char *dir, plan p, int round, shared *x)
{
    char said[4096];
    pid_t writers[PROCESSES];
    *x = (shared){0};
    const int old = begin_capture();
    const pid_t reader = fork();
    if (reader == 0) _exit(verify_until_stop(dir, x));
    const pid_t collector = p.gc ? fork() : -1;
    if (collector == 0) _exit(gc_until_stop(dir, x));
    for (int i = 0; i < PROCESSES; i++) {
        writers[i] = fork();
        if (writers[i] == 0) _exit(write_all_keys(dir, p, p.locks ? 0 : i, x));
    }
    const int victim = (round * 7 + 3) % PROCESSES;
    usleep((useconds_t)(round * 2500));
    kill(writers[victim], SIGKILL);
    int status = 0;
    for (int i = 0; i < PROCESSES; i++) {
        const int got = wait_child(writers[i]);
        if (got && !(i == victim && got == 128 + SIGKILL)) status = got;
    }
    x->stop = 1;
    const int read = wait_child(reader), collected = p.gc ? wait_child(collector) : 0;
    end_capture(old, said, sizeof said);
    if (status || read || collected || *said)
        fail_msg("round %d: writer %d, reader %d, gc %d, '%s'", round, status, read, collected,
                 said);
    assert_true(x->looks > 0);
}

static void sixteen_processes_fill_a_cold_cache_and_no_reader_sees_a_torn_entry(void **state)
{
    const scratch *x = *state;
    static const plan plans[] = {{.locks = true}, {.locks = false}, {.locks = true, .gc = true}};
    shared *share = map_shared();
    for (int round = 0; round < ROUNDS; round++) {
        const plan p = plans[round % (int)lt_countof(plans)];
        char dir[256];
        size_t removed, bytes;
        lt_err err;
        snprintf(dir, sizeof dir, "%s/%d/missing/cache", x->root, round);
        run_round(dir, p, round, share);
        if (p.locks && !p.gc) /* the killed one may have died before it counted */
            assert_in_range(share->published, KEYS - 1, KEYS);
        lt_store *s = open_store(dir);
        assert_int_equal(lt_store_gc(s, SIZE_MAX, &removed, &bytes, &err), 0);
        assert_int_equal(count_files(dir, ".private"), 0);
        assert_int_equal(count_files(dir, ".lock"), 0);
        for (int i = 0; i < KEYS && !p.gc; i++)
            assert_int_equal(look(s, "k", i, IMAGE), LT_STORE_HIT);
        lt_store_close(s);
    }
    munmap(share, sizeof *share);
}

/* ---- locks ---- */

static void key_of(int seed, char key[65])
{
    lt_entry e;
    make_entry(seed, 0, &e, key);
    lt_entry_clear(&e);
}

/* Adds one to the number in a file, many times, in steps that another process could fall between.
 */
static int count_up(const char *dir, const char *file)
{
    char key[65];
    key_of(1, key);
    for (int i = 0; i < 40; i++) {
        lt_store *s = open_store(dir);
        int lock = -1, n = 0;
        lt_err err;
        if (lt_store_lock(s, "k", key, 60, &lock, &err) || lock < 0) return 2;
        const int fd = open(file, O_RDWR | O_CREAT, 0600);
        if (pread(fd, &n, sizeof n, 0) < 0) return 3;
        sched_yield();
        n++;
        if (pwrite(fd, &n, sizeof n, 0) != sizeof n) return 3;
        close(fd);
        lt_store_unlock(s, lock);
        lt_store_close(s);
    }
    return 0;
}

static void only_one_process_holds_a_lock_though_its_file_comes_and_goes(void **state)
{
    const scratch *x = *state;
    char file[256], bytes[8] = {0};
    pid_t children[6];
    int n = 0;
    snprintf(file, sizeof file, "%s/count", x->root);
    for (size_t i = 0; i < lt_countof(children); i++)
        if ((children[i] = fork()) == 0) _exit(count_up(x->cache, file));
    for (size_t i = 0; i < lt_countof(children); i++) assert_int_equal(wait_child(children[i]), 0);
    assert_int_equal(read_file(file, bytes, sizeof bytes), sizeof n);
    memcpy(&n, bytes, sizeof n);
    assert_int_equal(n, 40 * (int)lt_countof(children));
    assert_int_equal(count_files(x->cache, ""), 0);
}

/* A child that holds the lock of entry `seed` and, where asked for, has started a program that goes
 * on. */
static pid_t start_holder(const char *dir, int seed, bool program)
{
    int ready[2];
    char key[65];
    key_of(seed, key);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        lt_err err;
        int lock = -1;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the case fails */
        lt_store *s = open_store(dir);
        if (lt_store_lock(s, "k", key, 10, &lock, &err) || lock < 0) _exit(2);
        const pid_t started = program ? fork() : -1;
        if (started == 0) {
            close(ready[1]);
            execlp("sleep", "sleep", "20", (char *)NULL);
            _exit(2);
        }
        if (write(ready[1], &started, sizeof started) != sizeof started) _exit(2);
        pause();
        _exit(0);
    }
    pid_t started = 0;
    close(ready[1]);
    assert_int_equal(read(ready[0], &started, sizeof started), sizeof started);
    close(ready[0]);
    if (!program) return child;
    usleep(100000); /* until exec has closed what it closes */
    kill(child, SIGKILL);
    wait_child(child);
    return started;
}

/* Seconds that a lock took; *got says whether it is held. */
static double time_lock(lt_store *s, int seed, double seconds, int *lock)
{
    char key[65];
    lt_err err;
    key_of(seed, key);
    const double start = lt_now_us();
    assert_int_equal(lt_store_lock(s, "k", key, seconds, lock, &err), 0);
    return (lt_now_us() - start) * 1e-6;
}

static void a_killed_holder_gives_its_lock_up_at_once(void **state)
{
    const scratch *x = *state;
    lt_store *s = open_store(x->cache);
    for (int program = 0; program < 2; program++) {
        int lock = -1;
        const pid_t left = start_holder(x->cache, 1, program);
        if (!program) {
            assert_true(time_lock(s, 1, 0, &lock) < 1 && lock == -1);
            kill(left, SIGKILL);
        }
        if (!program) wait_child(left);
        assert_int_equal(count_files(x->cache, ".lock"), 1); /* its file is still there */
        assert_true(time_lock(s, 1, 30, &lock) < 2);
        assert_true(lock >= 0);
        lt_store_unlock(s, lock);
        assert_int_equal(count_files(x->cache, ""), 0);
        if (program) kill(left, SIGKILL); /* the compiler that outlived its parent */
    }
    lt_store_close(s);
}

static void a_lock_of_one_entry_says_nothing_about_another_and_closing_gives_it_up(void **state)
{
    const scratch *x = *state;
    int one, two, three;
    lt_store *s = open_store(x->cache), *other = open_store(x->cache);
    time_lock(s, 1, 0, &one);
    time_lock(s, 2, 0, &two);
    time_lock(other, 1, 0, &three);
    assert_true(one >= 0 && two >= 0 && three == -1);
    lt_store_unlock(s, two);
    time_lock(other, 2, 0, &two);
    assert_true(two >= 0);
    lt_store_close(s);
    time_lock(other, 1, 0, &one);
    assert_true(one >= 0);
    lt_store_close(other);
    assert_int_equal(count_files(x->cache, ""), 0);
}

/* ---- a holder that does not move, by a clock that the waiter's pauses turn ---- */

static double clock_seconds;

static double read_clock(void)
{
    return clock_seconds;
}

static void turn_clock(double seconds)
{
    clock_seconds += seconds;
}

static int plain_open(int folder, const char *name, int flags, mode_t mode)
{
    return openat(folder, name, flags, mode);
}

static int plain_rename(int folder, const char *from, const char *to)
{
    return renameat(folder, from, folder, to);
}

static const lt_store_io clocked = {plain_open, mkdir,        read,       write,
                                    fsync,      plain_rename, read_clock, turn_clock};

/* Waits for entry 1 for that many seconds by the clock; what was said. */
static void wait_by_clock(const char *dir, double seconds, char *said, size_t room)
{
    int lock = 7;
    lt_store_set_io(&clocked);
    const int old = begin_capture();
    lt_store *s = open_store(dir);
    clock_seconds = 100;
    time_lock(s, 1, seconds, &lock);
    const bool published = publish(s, "k", 1, IMAGE);
    lt_store_close(s);
    end_capture(old, said, room);
    lt_store_set_io(NULL);
    assert_int_equal(lock, -1);
    assert_true(published); /* compiled privately */
    assert_true(clock_seconds >= 100 + seconds && clock_seconds < 100.1 + seconds);
}

static void
a_waiter_says_after_five_seconds_who_holds_the_lock_and_gives_up_in_the_end(void **state)
{
    const scratch *x = *state;
    char said[1024], want[256];
    int lock = 7;
    const pid_t holder = start_holder(x->cache, 1, false);
    kill(holder, SIGSTOP);
    wait_by_clock(x->cache, 4.9, said, sizeof said);
    assert_string_equal(said, "");
    wait_by_clock(x->cache, 40, said, sizeof said);
    snprintf(want, sizeof want, "lathe: k: process %ld is compiling it (waits 40 s at most)\n",
             (long)holder);
    assert_string_equal(said, want);
    lt_store *s = open_store(x->cache); /* and by the real clock */
    const double took = time_lock(s, 1, 0.1, &lock);
    assert_int_equal(lock, -1);
    assert_true(took >= 0.1 && took < 3);
    kill(holder, SIGKILL);
    wait_child(holder);
    time_lock(s, 1, 30, &lock);
    assert_true(lock >= 0);
    lt_store_close(s);
}

/* ---- gc beside writers ---- */

static void gc_leaves_alone_what_is_locked_or_being_written(void **state)
{
    const scratch *x = *state;
    char path[512], name[64], key[65];
    size_t removed, bytes;
    lt_err err;
    lt_store *s = open_store(x->cache);
    assert_true(publish(s, "k", 1, IMAGE));
    assert_true(publish(s, "k", 2, IMAGE));
    assert_true(publish(s, "k", 3, IMAGE));
    key_of(2, key);
    path_of(path, x->cache, "k", key);
    assert_int_equal(truncate(path, 50), 0);
    const pid_t one = start_holder(x->cache, 1, false), two = start_holder(x->cache, 2, false);
    const pid_t dead = fork();
    if (dead == 0) _exit(0);
    wait_child(dead);
    snprintf(name, sizeof name, "/.%ld.0.private", (long)dead); /* a process of another container */
    snprintf(path, sizeof path, "%s%s", x->cache, name);
    write_file(path, "x", 1);
    const int writing = open(path, O_WRONLY);
    assert_int_equal(flock(writing, LOCK_EX), 0);
    assert_int_equal(lt_store_gc(s, 0, &removed, &bytes, &err), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT);
    assert_int_equal(count_files(x->cache, ""), 5); /* 1, 2, their locks, the private file */
    close(writing);
    kill(one, SIGKILL);
    kill(two, SIGKILL);
    wait_child(one);
    wait_child(two);
    assert_int_equal(lt_store_gc(s, 0, &removed, &bytes, &err), 0);
    assert_int_equal(removed, 2);
    assert_int_equal(count_files(x->cache, ""), 0);
    lt_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(sixteen_processes_fill_a_cold_cache_and_no_reader_sees_a_torn_entry),
        in_scratch(only_one_process_holds_a_lock_though_its_file_comes_and_goes),
        in_scratch(a_killed_holder_gives_its_lock_up_at_once),
        in_scratch(a_lock_of_one_entry_says_nothing_about_another_and_closing_gives_it_up),
        in_scratch(a_waiter_says_after_five_seconds_who_holds_the_lock_and_gives_up_in_the_end),
        in_scratch(gc_leaves_alone_what_is_locked_or_being_written),
    };
    alarm(100); /* a lock that is never given up is a failure too */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
