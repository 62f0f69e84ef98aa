/* store_folder.c: where the cache lives: missing, odd, untrusted, read-only and failing folders. */
#include "store_kit.h"

enum { IMAGE = 300, NOBODY = 65534, STRANGER = 12345 };

/* Opens the folder, publishes two kernels and finds them; what was said goes to `said`. Whether all
 * of it went well. */
static bool use_store(const char *dir, char *said, size_t room)
{
    const int old = begin_capture();
    lt_store *s = open_store(dir);
    bool well = s != NULL;
    for (int i = 0; i < 2 && well; i++)
        well = publish(s, "k", i, IMAGE) && look(s, "k", i, IMAGE) == LT_STORE_HIT;
    lt_store_close(s);
    end_capture(old, said, room);
    return well;
}

/* The folder is no use, which one line says, and everything works in memory. */
static void check_in_memory(const char *dir, const char *why)
{
    char said[8192];
    assert_true(use_store(dir, said, sizeof said));
    if (count_lines(said) != 1 || !strstr(said, why) || !strstr(said, "stays in memory"))
        fail_msg("'%s' was not said once of '%s', but '%s'", why, dir, said);
}

static void check_on_disk(const char *dir)
{
    char said[8192];
    assert_true(use_store(dir, said, sizeof said));
    assert_string_equal(said, "");
    lt_store *s = open_store(dir);
    assert_int_equal(look(s, "k", 0, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
}

static mode_t mode_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : st.st_mode & 07777;
}

/* ---- places ---- */

static void three_missing_levels_are_made_for_this_user_alone(void **state)
{
    const scratch *x = *state;
    char path[256];
    const mode_t old = umask(0);
    snprintf(path, sizeof path, "%s/a/b/c", x->root);
    check_on_disk(path);
    umask(old);
    for (int level = 0; level < 3; level++) {
        assert_int_equal(mode_of(path), 0700);
        *strrchr(path, '/') = 0;
    }
    snprintf(path, sizeof path, "%s/a/b/c", x->root);
    lt_store *s = open_store(path);
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
}

static void odd_paths_work_and_impossible_ones_leave_it_in_memory(void **state)
{
    const scratch *x = *state;
    static const char *const odd[] = {"with a space", "sch\xc3\xb6n/\xe6\x97\xa5\xe6\x9c\xac",
                                      "slashes///",   "a//b",
                                      "100%s",        "./dot/../dot"};
    char path[1024], part[400];
    for (size_t i = 0; i < lt_countof(odd); i++) {
        snprintf(path, sizeof path, "%s/%s", x->root, odd[i]);
        check_on_disk(path);
    }
    memset(part, 'x', sizeof part);
    snprintf(path, sizeof path, "%s/%.150s/%.149s", x->root, part, part);
    check_on_disk(path);
    snprintf(path, sizeof path, "%s/%.300s", x->root, part);
    check_in_memory(path, "File name too long");
    snprintf(path, sizeof path, "%s/file", x->root);
    write_file(path, "mine", 4);
    check_in_memory(path, "Not a directory");
    snprintf(path, sizeof path, "%s/file/below", x->root);
    check_in_memory(path, "Not a directory");
    snprintf(path, sizeof path, "%s/file", x->root);
    assert_int_equal(read_file(path, part, sizeof part), 4);
}

static void the_folder_comes_from_the_setting_else_from_the_home_else_there_is_none(void **state)
{
    const scratch *x = *state;
    char path[256], said[1024];
    lt_err err;
    const char *home = getenv("HOME"), *xdg = getenv("XDG_CACHE_HOME");
    char *old_home = home ? strdup(home) : NULL, *old_xdg = xdg ? strdup(xdg) : NULL;
    unsetenv("XDG_CACHE_HOME");
    unsetenv("LATHE_CACHE_DIR");
    setenv("HOME", x->root, 1);
    assert_int_equal(lt_config_read(&err), 0);
    check_on_disk(NULL);
    snprintf(path, sizeof path, "%s/.cache/lathe", x->root);
    assert_int_equal(count_files(path, "k."), 2);
    assert_int_equal(lt_config_set("cache_dir", x->cache, &err), 0);
    check_on_disk(NULL);
    check_on_disk("");
    assert_int_equal(count_files(x->cache, "k."), 2);
    unsetenv("HOME");
    assert_int_equal(lt_config_read(&err), 0);
    assert_int_equal(lt_config_set("cache_dir", "", &err), 0);
    assert_true(use_store(NULL, said, sizeof said));
    assert_int_equal(count_lines(said), 1);
    assert_non_null(strstr(said, "set LATHE_CACHE_DIR"));
    lt_store *s = open_store(NULL);
    assert_string_equal(lt_store_dir(s), "");
    assert_false(lt_store_is_writable(s));
    lt_store_close(s);
    if (old_home) setenv("HOME", old_home, 1);
    if (old_xdg) setenv("XDG_CACHE_HOME", old_xdg, 1);
    free(old_home);
    free(old_xdg);
    assert_int_equal(lt_config_read(&err), 0);
}

static void without_a_folder_memory_does_all_that_a_folder_does(void **state)
{
    const scratch *x = *state;
    char path[256], key[65];
    lt_err err;
    lt_entry e, got;
    lt_bytes text = {0};
    size_t removed, bytes;
    int lock;
    snprintf(path, sizeof path, "%s/file", x->root);
    write_file(path, "mine", 4);
    const int old = begin_capture();
    lt_store *s = open_store(path);
    end_capture(old, path, sizeof path);
    assert_true(publish(s, "k", 1, IMAGE));
    assert_true(publish(s, "k", 1, IMAGE)); /* again */
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT);
    assert_int_equal(look(s, "k", 2, IMAGE), LT_STORE_MISS);
    make_entry(1, IMAGE, &e, key);
    assert_int_equal(lt_store_find_nearest(s, "k", e.key_text.ptr, "compiler", &got, &err),
                     LT_STORE_HIT);
    assert_true(same_entry(&e, &got));
    assert_int_equal(lt_store_lock(s, "k", key, 0, &lock, &err), 0);
    assert_int_equal(lock, -1);
    lt_store_unlock(s, lock);
    assert_int_equal(lt_store_note_read(s, "n", &text, &err), LT_STORE_MISS);
    assert_int_equal(lt_store_note_write(s, "n", lt_span_text("one"), &err), 0);
    assert_int_equal(lt_store_note_write(s, "n", lt_span_text("two"), &err), 0);
    assert_int_equal(lt_store_note_read(s, "n", &text, &err), LT_STORE_HIT);
    assert_string_equal(text.ptr, "two");
    assert_int_equal(lt_store_gc(s, 0, &removed, &bytes, &err), 0);
    assert_int_equal(removed, 0);
    assert_int_equal(lt_store_clear(s, &removed, &err), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_MISS);
    lt_bytes_clear(&text);
    lt_entry_clear(&e);
    lt_entry_clear(&got);
    lt_store_close(s);
}

/* ---- trust ---- */

static void a_folder_that_others_can_write_is_not_used(void **state)
{
    const scratch *x = *state;
    static const mode_t modes[] = {0777, 0770, 0775, 01777, 0722, 0720};
    assert_int_equal(mkdir(x->cache, 0700), 0);
    for (size_t i = 0; i < lt_countof(modes); i++) {
        assert_int_equal(chmod(x->cache, modes[i]), 0);
        check_in_memory(x->cache, "others may write it; chmod go-w takes that away");
        assert_int_equal(count_files(x->cache, ""), 0);
        assert_int_equal(mode_of(x->cache), modes[i]);
    }
    assert_int_equal(chmod(x->cache, 0755), 0);
    check_on_disk(x->cache);
    assert_int_equal(chmod(x->cache, 0777), 0); /* what lies there is not run either */
    char said[2048];
    const int old = begin_capture();
    lt_store *s = open_store(x->cache);
    const lt_store_result got = look(s, "k", 1, IMAGE);
    lt_store_close(s);
    end_capture(old, said, sizeof said);
    assert_int_equal(got, LT_STORE_MISS);
}

static void a_folder_or_a_link_of_another_user_is_not_used(void **state)
{
    const scratch *x = *state;
    char link[256];
    snprintf(link, sizeof link, "%s/link", x->root);
    check_on_disk(x->cache);
    assert_int_equal(symlink(x->cache, link), 0);
    check_on_disk(link);
    if (geteuid() != 0) skip(); /* only root gives files away */
    assert_int_equal(lchown(link, STRANGER, STRANGER), 0);
    check_in_memory(link, "it belongs to user 12345");
    strcat(link, "/"); /* which would follow it */
    check_in_memory(link, "it belongs to user 12345");
    assert_int_equal(chown(x->cache, STRANGER, STRANGER), 0);
    check_in_memory(x->cache, "it belongs to user 12345");
    assert_int_equal(count_files(x->cache, ""), 2);
}

/* In a child that may read but not write: hits come from the folder, the rest stays in memory. */
static int use_read_only(const scratch *x)
{
    char said[4096], key[65];
    size_t removed;
    lt_entry e;
    lt_err err;
    int lock = 7;
    if (geteuid() == 0 && (setgid(NOBODY) || setuid(NOBODY))) return 2;
    const int old = begin_capture();
    lt_store *s = open_store(x->cache);
    make_entry(1, IMAGE, &e, key);
    lt_entry_clear(&e);
    bool well = !lt_store_is_writable(s) && look(s, "k", 1, IMAGE) == LT_STORE_HIT;
    well = well && lt_store_lock(s, "k", key, 10, &lock, &err) == 0 && lock == -1;
    for (int i = 5; i < 8; i++)
        well = well && look(s, "k", i, IMAGE) == LT_STORE_MISS && publish(s, "k", i, IMAGE) &&
               look(s, "k", i, IMAGE) == LT_STORE_HIT;
    well = well && look(s, "torn", 1, IMAGE) == LT_STORE_MISS && publish(s, "torn", 1, IMAGE) &&
           look(s, "torn", 1, IMAGE) == LT_STORE_HIT;
    well = well && lt_store_clear(s, &removed, &err) == -1 && strstr(err.text, "cannot be written");
    lt_store_close(s);
    end_capture(old, said, sizeof said);
    if (!well || count_lines(said) != 1 || !strstr(said, "it cannot be written")) {
        fprintf(stderr, "well %d, said '%s'\n", well, said);
        return 1;
    }
    return 0;
}

static void a_read_only_folder_serves_hits_and_keeps_the_rest_in_memory(void **state)
{
    const scratch *x = *state;
    char path[512], key[65];
    lt_entry e;
    check_on_disk(x->cache);
    lt_store *s = open_store(x->cache);
    assert_true(publish(s, "torn", 1, IMAGE));
    lt_store_close(s);
    make_entry(1, IMAGE, &e, key);
    lt_entry_clear(&e);
    path_of(path, x->cache, "torn", key);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(chmod(x->root, 0755), 0);
    assert_int_equal(chmod(x->cache, 0555), 0);
    const int files = count_files(x->cache, "");
    const pid_t child = fork();
    if (child == 0) _exit(use_read_only(x));
    const int status = wait_child(child);
    assert_int_equal(count_files(x->cache, ""), files);
    assert_int_equal(chmod(x->cache, 0700), 0);
    assert_int_equal(status, 0);
}

/* ---- failing calls ---- */

/* The n-th call from now on fails; what is counted is chosen by letters. */
static struct {
    const char *letters; /* o open, m mkdir, r read, w write, s sync, n rename */
    int calls, fail_at, code;
    bool for_ever;
    const char *winner; /* a whole entry's file: rename finds it in its place */
} fault;

static bool fails(char letter)
{
    if (!strchr(fault.letters, letter)) return false;
    fault.calls++;
    if (fault.calls != fault.fail_at && !(fault.for_ever && fault.calls > fault.fail_at))
        return false;
    errno = fault.code;
    return true;
}

static int fail_open(int folder, const char *name, int flags, mode_t mode)
{
    return fails('o') ? -1 : openat(folder, name, flags, mode);
}

static int fail_mkdir(const char *path, mode_t mode)
{
    return fails('m') ? -1 : mkdir(path, mode);
}

static ssize_t fail_read(int fd, void *to, size_t bytes)
{
    return fails('r') ? -1 : read(fd, to, bytes < 50 ? bytes : 50);
}

static ssize_t fail_write(int fd, const void *from, size_t bytes)
{
    return fails('w') ? -1 : write(fd, from, bytes < 100 ? bytes : 100);
}

static int fail_sync(int fd)
{
    return fails('s') || fd < 0 ? -1 : 0; /* a real one would take its time */
}

static int fail_rename(int folder, const char *from, const char *to)
{
    if (!fails('n')) return renameat(folder, from, folder, to);
    const int code = errno;
    if (fault.winner) linkat(AT_FDCWD, fault.winner, folder, to, 0);
    errno = code;
    return -1;
}

static double no_time(void)
{
    return 0;
}

static void no_pause(double seconds)
{
    (void)seconds;
}

static const lt_store_io failing = {fail_open, fail_mkdir,  fail_read, fail_write,
                                    fail_sync, fail_rename, no_time,   no_pause};

/* What a program does with the cache, from a missing folder on; whether the program noticed
 * nothing. */
static bool do_all(const char *dir)
{
    lt_err err;
    lt_bytes note = {0};
    lt_entry e;
    char key[65];
    int lock = -1;
    make_entry(1, IMAGE, &e, key);
    lt_store *s = open_store(dir);
    bool well = look(s, "k", 1, IMAGE) == LT_STORE_MISS;
    well = well && lt_store_lock(s, "k", key, 0, &lock, &err) == 0;
    well = well && lt_store_publish(s, "k", key, &e, &err) == 0;
    lt_store_unlock(s, lock);
    well = well && lt_store_note_write(s, "n", lt_span_text("text"), &err) == 0;
    /* What cannot be read is compiled again; only one call fails, so two of three looks find it. */
    int hits = 0;
    for (int i = 0; i < 3; i++) hits += look(s, "k", 1, IMAGE) == LT_STORE_HIT;
    well = well && hits >= 2;
    well = well && lt_store_note_read(s, "n", &note, &err) != LT_STORE_FAILED;
    lt_bytes_clear(&note);
    lt_entry_clear(&e);
    lt_store_close(s);
    return well;
}

/* Nothing half-written is left: what the folder holds is whole. */
static int reject_damaged(void *ctx, const lt_store_item *item)
{
    int *bad = ctx;
    *bad += !item->whole;
    return 0;
}

static void check_folder(const char *dir, int n)
{
    lt_err err;
    int bad = 0;
    if (count_files(dir, ".private") || count_files(dir, ".lock"))
        fail_msg("call %d failed and left files behind", n);
    if (access(dir, F_OK)) return;
    lt_store *s = open_store(dir);
    assert_int_equal(lt_store_walk(s, true, reject_damaged, &bad, &err), 0);
    if (bad) fail_msg("call %d failed and left %d damaged entries", n, bad);
    assert_true(publish(s, "k", 1, IMAGE));
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
}

/* Fails the n-th of the calls for n = 1.. until there are no more. */
static int fail_each(const scratch *x, const char *letters, int code)
{
    char dir[256], said[8192];
    for (int n = 1;; n++) {
        snprintf(dir, sizeof dir, "%s/a/b/%s%d", x->root, letters, n);
        fault.letters = letters;
        fault.calls = 0;
        fault.fail_at = n;
        fault.code = code;
        lt_store_set_io(&failing);
        const int fds = count_files("/proc/self/fd", ""), old = begin_capture();
        const bool well = do_all(dir);
        end_capture(old, said, sizeof said);
        lt_store_set_io(NULL);
        const bool failed = fault.calls >= n;
        if (!well || count_lines(said) > 1 || (*said && !strstr(said, dir)))
            fail_msg("%s call %d (%s): well %d, said '%s'", letters, n, strerror(code), well, said);
        if (count_files("/proc/self/fd", "") != fds) fail_msg("call %d leaks a descriptor", n);
        check_folder(dir, n);
        if (!failed) {
            assert_string_equal(said, "");
            return n - 1;
        }
    }
}

static void any_call_may_fail_once(void **state)
{
    const scratch *x = *state;
    static const int codes[] = {ENOSPC, EIO, EACCES, EROFS, EDQUOT, EMFILE, ENOENT};
    for (size_t i = 0; i < lt_countof(codes); i++) {
        char other[sizeof x->root];
        memcpy(other, x->root, sizeof other);
        assert_in_range(fail_each(x, "omrwsn", codes[i]), 25, 100);
        lt_bytes below = {0};
        lt_bytes_print(&below, NULL, "%s/a", other);
        remove_tree(below.ptr);
        lt_bytes_clear(&below);
    }
}

static void an_interrupted_call_is_made_again(void **state)
{
    const scratch *x = *state;
    char said[4096];
    for (int i = 0; i < 2; i++) {
        fault.letters = i ? "r" : "w";
        fault.calls = 0;
        fault.fail_at = 2;
        fault.code = EINTR;
        lt_store_set_io(&failing);
        assert_true(use_store(x->cache, said, sizeof said));
        assert_true(fault.calls > 2);
        assert_string_equal(said, "");
    }
}

static void a_full_disk_is_said_once_and_what_is_compiled_is_kept(void **state)
{
    const scratch *x = *state;
    static const char *const letters[] = {"w", "s", "n"};
    char said[4096];
    for (size_t i = 0; i < lt_countof(letters); i++) {
        fault.letters = letters[i];
        fault.calls = 0;
        fault.fail_at = 1;
        fault.code = ENOSPC;
        fault.for_ever = true;
        lt_store_set_io(&failing);
        const int old = begin_capture();
        lt_store *s = open_store(x->cache);
        bool well = true;
        for (int k = 0; k < 5; k++)
            well = well && publish(s, "k", k, IMAGE) && look(s, "k", k, IMAGE) == LT_STORE_HIT;
        lt_store_close(s);
        end_capture(old, said, sizeof said);
        lt_store_set_io(NULL);
        fault.for_ever = false;
        assert_true(well);
        assert_int_equal(count_lines(said), 1);
        assert_non_null(strstr(said, "No space left on device (what is compiled stays in memory)"));
        assert_int_equal(count_files(x->cache, ""), 0);
    }
}

static void a_lost_race_is_success_if_the_winners_entry_is_whole(void **state)
{
    const scratch *x = *state;
    static const int codes[] = {EEXIST, ENOTEMPTY};
    char winner[512], other[512], key[65], said[4096], dir[256];
    lt_entry e;
    make_entry(1, IMAGE, &e, key);
    lt_entry_clear(&e);
    lt_store *s = open_store(x->cache);
    assert_true(publish(s, "k", 1, IMAGE));
    lt_store_close(s);
    path_of(winner, x->cache, "k", key);
    snprintf(other, sizeof other, "%s/torn", x->root);
    write_file(other, "lathe entry 1\n", 14);
    for (size_t i = 0; i < 2 * lt_countof(codes); i++) {
        const bool whole = i % 2 == 0;
        snprintf(dir, sizeof dir, "%s/race%zu", x->root, i);
        fault.letters = "n";
        fault.calls = 0;
        fault.fail_at = 1;
        fault.code = codes[i / 2];
        fault.winner = whole ? winner : other;
        lt_store_set_io(&failing);
        const int old = begin_capture();
        s = open_store(dir);
        const bool done = publish(s, "k", 1, IMAGE);
        const lt_store_result got = look(s, "k", 1, IMAGE);
        lt_store_close(s);
        end_capture(old, said, sizeof said);
        lt_store_set_io(NULL);
        fault.winner = NULL;
        assert_true(done);
        assert_int_equal(got, LT_STORE_HIT);
        assert_int_equal(count_lines(said), whole ? 0 : 1);
        assert_int_equal(count_files(dir, ".private"), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(three_missing_levels_are_made_for_this_user_alone),
        in_scratch(odd_paths_work_and_impossible_ones_leave_it_in_memory),
        in_scratch(the_folder_comes_from_the_setting_else_from_the_home_else_there_is_none),
        in_scratch(without_a_folder_memory_does_all_that_a_folder_does),
        in_scratch(a_folder_that_others_can_write_is_not_used),
        in_scratch(a_folder_or_a_link_of_another_user_is_not_used),
        in_scratch(a_read_only_folder_serves_hits_and_keeps_the_rest_in_memory),
        in_scratch(any_call_may_fail_once),
        in_scratch(an_interrupted_call_is_made_again),
        in_scratch(a_full_disk_is_said_once_and_what_is_compiled_is_kept),
        in_scratch(a_lost_race_is_success_if_the_winners_entry_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
