/* store.c: entries are whole or a miss, whatever the folder is like. */
#include "store_kit.h"

enum { IMAGE = 300 }; /* bytes */

/* ---- entries ---- */

static void an_entry_comes_back_as_it_was_published_and_is_one_file(void **state)
{
    const scratch *x = *state;
    lt_entry e;
    char key[65], path[512], bytes[2048];
    make_entry(1, IMAGE, &e, key);
    lt_entry_clear(&e);
    path_of(path, x->cache, "gemv__m1", key);
    lt_store *s = open_store(x->cache);
    assert_true(lt_store_is_writable(s));
    assert_string_equal(lt_store_dir(s), x->cache);
    assert_int_equal(look(s, "gemv__m1", 1, IMAGE), LT_STORE_MISS);
    assert_true(publish(s, "gemv__m1", 1, IMAGE));
    assert_int_equal(look(s, "gemv__m1", 1, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
    assert_int_equal(count_files(x->cache, ""), 1);
    const size_t len = read_file(path, bytes, sizeof bytes);
    assert_true(len > IMAGE && memcmp(bytes, "lathe entry 1\n", 14) == 0);
    s = open_store(x->cache);
    assert_int_equal(look(s, "gemv__m1", 1, IMAGE), LT_STORE_HIT);
    assert_int_equal(look(s, "gemv__m1", 2, IMAGE), LT_STORE_MISS);
    assert_int_equal(look(s, "gemv__m2", 1, IMAGE), LT_STORE_MISS);
    lt_store_close(s);
}

static void an_entry_may_be_empty_or_megabytes_long(void **state)
{
    const scratch *x = *state;
    static const size_t sizes[] = {0, 1, 65536, 3000000};
    lt_store *s = open_store(x->cache);
    for (int i = 0; i < (int)lt_countof(sizes); i++) {
        assert_true(publish(s, "k", i, sizes[i]));
        assert_int_equal(look(s, "k", i, sizes[i]), LT_STORE_HIT);
    }
    lt_store_close(s);
}

static void a_name_that_is_no_file_name_and_a_key_that_is_none_are_refused(void **state)
{
    const scratch *x = *state;
    static const char *const names[] = {"", ".", "../k", "a/b", "a b", ".k", "k\n"};
    lt_entry e, got;
    char key[65], longest[202];
    lt_err err;
    int lock;
    make_entry(1, IMAGE, &e, key);
    lt_store *s = open_store(x->cache);
    memset(longest, 'k', sizeof longest);
    longest[201] = 0;
    for (size_t i = 0; i < lt_countof(names); i++) {
        assert_int_equal(lt_store_find(s, names[i], key, &got, &err), LT_STORE_FAILED);
        assert_non_null(strstr(err.text, "cannot name an entry"));
        assert_int_equal(lt_store_publish(s, names[i], key, &e, &err), -1);
        assert_int_equal(lt_store_lock(s, names[i], key, 0, &lock, &err), -1);
        assert_int_equal(lt_store_note_write(s, names[i], lt_span_text("x"), &err), -1);
    }
    assert_int_equal(lt_store_publish(s, longest, key, &e, &err), -1);
    longest[200] = 0;
    assert_int_equal(lt_store_publish(s, longest, key, &e, &err), 0);
    assert_int_equal(lt_store_find(s, longest, key, &got, &err), LT_STORE_HIT);
    lt_entry_clear(&got);
    assert_int_equal(lt_store_lock(s, longest, key, 0, &lock, &err), 0);
    assert_true(lock >= 0);
    key[63] = 'g';
    assert_int_equal(lt_store_find(s, "k", key, &got, &err), LT_STORE_FAILED);
    key[63] = 0;
    assert_int_equal(lt_store_find(s, "k", key, &got, &err), LT_STORE_FAILED);
    key[63] = '0';
    key[5] = key[5] == '0' ? '1' : '0';
    assert_int_equal(lt_store_publish(s, "k", key, &e, &err), -1);
    assert_non_null(strstr(err.text, "its key text has key"));
    lt_entry_clear(&e);
    lt_store_close(s);
}

/* ---- damage ---- */

/* The file at path is a miss, said in one line that names it, and the next publish mends it. */
static void check_repair(const char *cache, const char *path, const char *why)
{
    char said[4096];
    const int old = begin_capture();
    lt_store *s = open_store(cache);
    const lt_store_result first = look(s, "k", 1, IMAGE), again = look(s, "k", 1, IMAGE);
    end_capture(old, said, sizeof said);
    assert_int_equal(first, LT_STORE_MISS);
    assert_int_equal(again, LT_STORE_MISS);
    if (count_lines(said) != 1 || !strstr(said, path) || !strstr(said, why))
        fail_msg("'%s' was not said of %s, but '%s'", why, path, said);
    assert_true(publish(s, "k", 1, IMAGE));
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
    s = open_store(cache);
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
    assert_int_equal(count_files(cache, ".private"), 0);
}

/* Publishes entry 1 as "k" and reads its file. */
static size_t make_whole(const char *cache, char path[512], char *bytes, size_t room)
{
    lt_entry e;
    char key[65];
    make_entry(1, IMAGE, &e, key);
    lt_entry_clear(&e);
    path_of(path, cache, "k", key);
    lt_store *s = open_store(cache);
    assert_true(publish(s, "k", 1, IMAGE));
    lt_store_close(s);
    return read_file(path, bytes, room);
}

static void a_torn_entry_is_a_miss_and_the_next_publish_mends_it(void **state)
{
    const scratch *x = *state;
    char path[512], whole[2048];
    const size_t len = make_whole(x->cache, path, whole, sizeof whole);
    const size_t lengths[] = {0, 1, 13, 14, 78, 79, 86, 87, len / 2, len - 1};
    for (size_t i = 0; i < lt_countof(lengths); i++) {
        write_file(path, whole, lengths[i]);
        check_repair(x->cache, path, lengths[i] < 79 ? "cut short" : "its digest is wrong");
    }
    whole[len] = 0;
    write_file(path, whole, len + 1);
    check_repair(x->cache, path, "its digest is wrong");
}

static void a_flipped_bit_anywhere_is_a_miss(void **state)
{
    const scratch *x = *state;
    char path[512], whole[2048], said[4096];
    const size_t len = make_whole(x->cache, path, whole, sizeof whole);
    for (size_t i = 0; i < len; i++) {
        whole[i] = (char)(whole[i] ^ (1 << (i % 8)));
        write_file(path, whole, len);
        const int old = begin_capture();
        lt_store *s = open_store(x->cache);
        const lt_store_result got = look(s, "k", 1, IMAGE);
        end_capture(old, said, sizeof said);
        lt_store_close(s);
        if (got != LT_STORE_MISS || count_lines(said) != 1)
            fail_msg("byte %zu of %zu: result %d, '%s'", i, len, got, said);
        whole[i] = (char)(whole[i] ^ (1 << (i % 8)));
    }
    whole[12] = '2'; /* another format */
    write_file(path, whole, len);
    check_repair(x->cache, path, "it does not begin with 'lathe entry 1'");
}

/* Puts a digest that agrees in front of what follows it. */
static void seal(char *file, size_t len)
{
    char digest[65];
    lt_sha256_hex((lt_span){file + 79, len - 79}, digest);
    memcpy(file + 14, digest, 64);
}

static void lengths_that_lie_are_a_miss_even_under_a_digest_that_agrees(void **state)
{
    const scratch *x = *state;
    char path[512], whole[2048], broken[2048];
    const size_t len = make_whole(x->cache, path, whole, sizeof whole);
    static const unsigned char lies[] = {0, 2, 255};
    for (size_t i = 0; i < lt_countof(lies); i++)
        for (size_t byte = 0; byte < 8; byte += 7) {
            memcpy(broken, whole, len);
            broken[79 + byte] = (char)lies[i];
            if (broken[79 + byte] == whole[79 + byte]) continue;
            seal(broken, len);
            write_file(path, broken, len);
            check_repair(x->cache, path, "");
        }
    memcpy(broken, whole, len);
    broken[len] = 'x';
    seal(broken, len + 1);
    write_file(path, broken, len + 1);
    check_repair(x->cache, path, "its parts do not fill it");
    memcpy(broken, whole, 79);
    seal(broken, 79);
    write_file(path, broken, 79);
    check_repair(x->cache, path, "its parts do not fill it");
}

static void a_renamed_file_and_another_kernels_entry_are_misses(void **state)
{
    const scratch *x = *state;
    char path[512], other[512], whole[2048], key[65];
    lt_entry e;
    const size_t len = make_whole(x->cache, path, whole, sizeof whole);
    make_entry(2, IMAGE, &e, key);
    lt_entry_clear(&e);
    lt_store *s = open_store(x->cache);
    assert_true(publish(s, "k", 2, IMAGE));  /* the same kernel, another key */
    assert_true(publish(s, "kk", 1, IMAGE)); /* the same key, another kernel */
    lt_store_close(s);
    path_of(other, x->cache, "k", key);
    assert_int_equal(rename(other, path), 0);
    check_repair(x->cache, path, "it holds 'k.");
    char kk[520];
    snprintf(kk, sizeof kk, "%s/kk%s", x->cache, strrchr(path, '.'));
    assert_int_equal(rename(kk, path), 0);
    check_repair(x->cache, path, "it holds 'kk.");
    assert_int_equal(read_file(path, whole, sizeof whole), len);
}

static void a_key_that_agrees_in_sixteen_digits_only_is_a_miss(void **state)
{
    const scratch *x = *state;
    lt_entry e, got;
    char key[65];
    lt_err err;
    lt_store *s = open_store(x->cache);
    make_entry(1, IMAGE, &e, key);
    assert_int_equal(lt_store_publish(s, "k", key, &e, &err), 0);
    key[16] = key[16] == 'a' ? 'b' : 'a';
    assert_int_equal(lt_store_find(s, "k", key, &got, &err), LT_STORE_MISS);
    lt_entry_clear(&e);
    lt_store_close(s);
}

/* What else can stand in an entry's place. */
static void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0700), 0);
}
static void make_dangling_link(const char *path)
{
    assert_int_equal(symlink("nowhere", path), 0);
}
static void make_link_to_itself(const char *path)
{
    assert_int_equal(symlink(path, path), 0);
}
static void make_pipe(const char *path)
{
    assert_int_equal(mkfifo(path, 0600), 0);
}

static void a_folder_a_link_or_a_pipe_in_its_place_is_a_miss_and_goes_away(void **state)
{
    const scratch *x = *state;
    static const struct {
        void (*make)(const char *path);
        const char *why;
    } odd[] = {{make_folder, "not a regular file"},
               {make_dangling_link, "a symbolic link"},
               {make_link_to_itself, "a symbolic link"},
               {make_pipe, "not a regular file"}};
    char path[512], whole[2048];
    make_whole(x->cache, path, whole, sizeof whole);
    for (size_t i = 0; i < lt_countof(odd); i++) {
        assert_int_equal(unlink(path), 0);
        odd[i].make(path);
        check_repair(x->cache, path, odd[i].why);
    }
}

static void a_folder_with_something_in_it_stays_and_the_entry_is_kept_in_memory(void **state)
{
    const scratch *x = *state;
    char path[512], inside[520], whole[2048], said[4096];
    make_whole(x->cache, path, whole, sizeof whole);
    assert_int_equal(unlink(path), 0);
    make_folder(path);
    snprintf(inside, sizeof inside, "%s/mine", path);
    write_file(inside, "x", 1);
    const int old = begin_capture();
    lt_store *s = open_store(x->cache);
    const lt_store_result first = look(s, "k", 1, IMAGE);
    const bool done = publish(s, "k", 1, IMAGE);
    const lt_store_result then = look(s, "k", 1, IMAGE);
    lt_store_close(s);
    end_capture(old, said, sizeof said);
    assert_int_equal(first, LT_STORE_MISS);
    assert_true(done);
    assert_int_equal(then, LT_STORE_HIT);
    assert_non_null(strstr(said, "Directory not empty (what is compiled stays in memory)"));
    assert_int_equal(access(inside, F_OK), 0);
}

static void an_entry_that_others_could_have_written_is_a_miss(void **state)
{
    const scratch *x = *state;
    static const mode_t modes[] = {0666, 0622, 0664, 0602};
    char path[512], whole[2048];
    make_whole(x->cache, path, whole, sizeof whole);
    for (size_t i = 0; i < lt_countof(modes); i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        check_repair(x->cache, path, "others may write it");
    }
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        check_repair(x->cache, path, "it belongs to user 12345");
    } else { /* root reads what nobody may */
        assert_int_equal(chmod(path, 0), 0);
        check_repair(x->cache, path, "Permission denied");
    }
}

/* ---- the nearest entry ---- */

static void the_nearest_entry_differs_in_the_compiler_line_only(void **state)
{
    const scratch *x = *state;
    static const struct {
        const char *name, *compiler, *text;
        int seconds; /* when it was written */
    } all[] = {{"k", "11", "a", 100},
               {"k", "13", "a", 300},
               {"k", "12", "a", 200},
               {"k", "14", "b", 400},
               {"kk", "15", "a", 500}};
    lt_err err;
    lt_store *s = open_store(x->cache);
    for (size_t i = 0; i < lt_countof(all); i++) {
        lt_entry e = {0};
        char key[65], path[512];
        lt_bytes_print(&e.key_text, NULL, "format 1\ncompiler nvrtc %s\ntext %s\n", all[i].compiler,
                       all[i].text);
        lt_sha256_hex(lt_bytes_view(&e.key_text), key);
        assert_int_equal(lt_store_publish(s, all[i].name, key, &e, &err), 0);
        path_of(path, x->cache, all[i].name, key);
        const struct timespec t[] = {{all[i].seconds, 0}, {all[i].seconds, 0}};
        assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
        lt_entry_clear(&e);
    }
    lt_entry got = {0};
    const char *asked = "format 1\ncompiler nvrtc 99\ntext a\n";
    char key[65];
    lt_sha256_hex(lt_span_text("format 1\ncompiler nvrtc 11\ntext a\n"), key);
    assert_int_equal(lt_store_find(s, "k", key, &got, &err), LT_STORE_HIT); /* makes it no newer */
    lt_entry_clear(&got);
    assert_int_equal(lt_store_find_nearest(s, "k", asked, "compiler ", &got, &err), LT_STORE_HIT);
    assert_string_equal(got.key_text.ptr, "format 1\ncompiler nvrtc 13\ntext a\n");
    lt_entry_clear(&got);
    static const char *const far[] = {"format 1\ncompiler nvrtc 13\ntext c\n",
                                      "format 2\ncompiler nvrtc 13\ntext a\n", "",
                                      "format 1\ncompiler nvrtc 13\ntext a\nmore\n"};
    for (size_t i = 0; i < lt_countof(far); i++)
        assert_int_equal(lt_store_find_nearest(s, "k", far[i], "compiler ", &got, &err),
                         LT_STORE_MISS);
    lt_store_close(s);
}

/* ---- notes ---- */

static void a_note_is_read_back_replaced_and_a_damaged_one_is_a_miss(void **state)
{
    const scratch *x = *state;
    char path[512], said[1024];
    lt_bytes text = {0};
    lt_err err;
    lt_store *s = open_store(x->cache);
    assert_int_equal(lt_store_note_read(s, "nvrtc", &text, &err), LT_STORE_MISS);
    assert_int_equal(lt_store_note_write(s, "nvrtc", lt_span_text("one"), &err), 0);
    assert_int_equal(lt_store_note_write(s, "nvrtc", lt_span_text("two"), &err), 0);
    assert_int_equal(lt_store_note_read(s, "nvrtc", &text, &err), LT_STORE_HIT);
    assert_string_equal(text.ptr, "two");
    lt_bytes_clear(&text);
    assert_int_equal(count_files(x->cache, ""), 1);
    snprintf(path, sizeof path, "%s/nvrtc.note", x->cache);
    write_file(path, "two", 3);
    const int old = begin_capture();
    const lt_store_result got = lt_store_note_read(s, "nvrtc", &text, &err);
    end_capture(old, said, sizeof said);
    assert_int_equal(got, LT_STORE_MISS);
    assert_non_null(strstr(said, path));
    assert_int_equal(lt_store_note_write(s, "nvrtc", lt_span_text("three"), &err), 0);
    assert_int_equal(lt_store_note_read(s, "nvrtc", &text, &err), LT_STORE_HIT);
    assert_string_equal(text.ptr, "three");
    lt_bytes_clear(&text);
    lt_store_close(s);
}

/* ---- the whole cache ---- */

typedef struct {
    char names[8][64], why[8][64];
    int count, stop_after;
} walked;

static int note_item(void *ctx, const lt_store_item *item)
{
    walked *w = ctx;
    snprintf(w->names[w->count], sizeof w->names[0], "%.60s", item->name);
    snprintf(w->why[w->count], sizeof w->why[0], "%.60s", item->whole ? "whole" : item->why);
    return ++w->count == w->stop_after;
}

static void a_walk_goes_by_name_and_says_what_is_damaged(void **state)
{
    const scratch *x = *state;
    char path[512], whole[2048];
    lt_err err;
    lt_store *s = open_store(x->cache);
    assert_true(publish(s, "m", 1, IMAGE));
    assert_true(publish(s, "a", 1, IMAGE));
    assert_int_equal(lt_store_note_write(s, "n", lt_span_text("x"), &err), 0);
    make_whole(x->cache, path, whole, sizeof whole);
    write_file(path, whole, 100);
    walked w = {.stop_after = 8};
    assert_int_equal(lt_store_walk(s, true, note_item, &w, &err), 0);
    assert_int_equal(w.count, 3);
    assert_memory_equal(w.names[0], "a.", 2);
    assert_memory_equal(w.names[1], "k.", 2);
    assert_memory_equal(w.names[2], "m.", 2);
    assert_string_equal(w.why[0], "whole");
    assert_string_equal(w.why[1], "its digest is wrong");
    assert_string_equal(w.why[2], "whole");
    lt_entry e = {0}; /* what a walk names can be read */
    assert_int_equal(lt_store_read(s, w.names[0], &e, &err), LT_STORE_HIT);
    assert_string_equal(e.text.ptr, "__global__ void k1(void) {}\n");
    lt_entry_clear(&e);
    assert_int_equal(lt_store_read(s, w.names[1], &e, &err), LT_STORE_MISS);
    assert_int_equal(lt_store_read(s, "n.note", &e, &err), LT_STORE_MISS);
    w = (walked){.stop_after = 2};
    assert_int_equal(lt_store_walk(s, false, note_item, &w, &err), 0);
    assert_int_equal(w.count, 2);
    assert_string_equal(w.why[0], "");
    lt_store_close(s);
}

/* Entry number i of kernel "k" was last used and written that many hours ago. */
static void set_age(const char *cache, int seed, long hours)
{
    lt_entry e;
    char key[65], path[512];
    make_entry(seed, 0, &e, key);
    lt_entry_clear(&e);
    path_of(path, cache, "k", key);
    struct timespec now, t[2];
    clock_gettime(CLOCK_REALTIME, &now);
    t[0] = t[1] = (struct timespec){now.tv_sec - hours * 3600, 0};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void gc_removes_the_least_recently_used_down_to_the_limit(void **state)
{
    const scratch *x = *state;
    size_t removed, bytes, ignored;
    lt_err err;
    lt_store *s = open_store(x->cache);
    for (int i = 0; i < 5; i++) {
        assert_true(publish(s, "k", i, 10000));
        set_age(x->cache, i, 10 + i); /* 4 is the oldest */
    }
    assert_int_equal(look(s, "k", 4, 10000), LT_STORE_HIT); /* and now the last used */
    walked w = {.stop_after = 8};
    assert_int_equal(lt_store_walk(s, true, note_item, &w, &err), 0); /* which is no use */
    assert_int_equal(lt_store_gc(s, 25000, &removed, &bytes, &err), 0);
    assert_int_equal(removed, 3);
    assert_in_range(bytes, 30000, 33000);
    assert_int_equal(look(s, "k", 0, 10000), LT_STORE_HIT);
    assert_int_equal(look(s, "k", 4, 10000), LT_STORE_HIT);
    for (int i = 1; i < 4; i++) assert_int_equal(look(s, "k", i, 10000), LT_STORE_MISS);
    assert_int_equal(lt_store_gc(s, 25000, &removed, &ignored, &err), 0);
    assert_int_equal(removed, 0);
    lt_store_close(s);
}

static void touch(const char *dir, const char *name, long hours)
{
    char path[512];
    struct timespec now, t[2];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    write_file(path, "x", 1);
    clock_gettime(CLOCK_REALTIME, &now);
    t[0] = t[1] = (struct timespec){now.tv_sec - hours * 3600, 0};
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void gc_removes_what_dead_writers_left_and_what_is_damaged_and_nothing_else(void **state)
{
    const scratch *x = *state;
    char path[512], whole[2048], name[64];
    size_t removed, bytes;
    lt_err err;
    const size_t len = make_whole(x->cache, path, whole, sizeof whole);
    write_file(path, whole, len - 1);
    const pid_t dead = fork();
    if (dead == 0) _exit(0);
    assert_int_equal(wait_child(dead), 0);
    snprintf(name, sizeof name, ".%ld.0.private", (long)dead);
    touch(x->cache, name, 0);
    snprintf(name, sizeof name, ".%ld.1.private", (long)getpid());
    touch(x->cache, name, 2); /* alive, but no entry takes two hours */
    snprintf(name, sizeof name, ".%ld.2.private", (long)getpid());
    touch(x->cache, name, 0);
    touch(x->cache, "old.0123456789abcdef.lock", 0);
    touch(x->cache, "letter.txt", 50);
    touch(x->cache, ".hidden.0123456789abcdef", 50);
    touch(x->cache, "k.0123456789abcdeF", 50);
    lt_store *s = open_store(x->cache);
    assert_true(publish(s, "good", 1, IMAGE));
    assert_int_equal(lt_store_note_write(s, "n", lt_span_text("x"), &err), 0);
    assert_int_equal(lt_store_gc(s, 1 << 20, &removed, &bytes, &err), 0);
    assert_int_equal(removed, 1);
    assert_int_equal(bytes, len - 1 + 2);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(count_files(x->cache, ".lock"), 0);
    assert_int_equal(count_files(x->cache, ".private"), 1);
    assert_int_equal(count_files(x->cache, ""), 6);
    assert_int_equal(look(s, "good", 1, IMAGE), LT_STORE_HIT);
    lt_store_close(s);
}

static void clear_leaves_only_what_is_not_the_caches(void **state)
{
    const scratch *x = *state;
    size_t removed;
    lt_err err;
    lt_store *s = open_store(x->cache);
    for (int i = 0; i < 3; i++) assert_true(publish(s, "k", i, IMAGE));
    assert_int_equal(lt_store_note_write(s, "n", lt_span_text("x"), &err), 0);
    touch(x->cache, "letter.txt", 50);
    assert_int_equal(lt_store_clear(s, &removed, &err), 0);
    assert_int_equal(removed, 3);
    assert_int_equal(count_files(x->cache, ""), 1);
    assert_int_equal(look(s, "k", 1, IMAGE), LT_STORE_MISS);
    assert_true(publish(s, "k", 1, IMAGE));
    lt_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        in_scratch(an_entry_comes_back_as_it_was_published_and_is_one_file),
        in_scratch(an_entry_may_be_empty_or_megabytes_long),
        in_scratch(a_name_that_is_no_file_name_and_a_key_that_is_none_are_refused),
        in_scratch(a_torn_entry_is_a_miss_and_the_next_publish_mends_it),
        in_scratch(a_flipped_bit_anywhere_is_a_miss),
        in_scratch(lengths_that_lie_are_a_miss_even_under_a_digest_that_agrees),
        in_scratch(a_renamed_file_and_another_kernels_entry_are_misses),
        in_scratch(a_key_that_agrees_in_sixteen_digits_only_is_a_miss),
        in_scratch(a_folder_a_link_or_a_pipe_in_its_place_is_a_miss_and_goes_away),
        in_scratch(a_folder_with_something_in_it_stays_and_the_entry_is_kept_in_memory),
        in_scratch(an_entry_that_others_could_have_written_is_a_miss),
        in_scratch(the_nearest_entry_differs_in_the_compiler_line_only),
        in_scratch(a_note_is_read_back_replaced_and_a_damaged_one_is_a_miss),
        in_scratch(a_walk_goes_by_name_and_says_what_is_damaged),
        in_scratch(gc_removes_the_least_recently_used_down_to_the_limit),
        in_scratch(gc_removes_what_dead_writers_left_and_what_is_damaged_and_nothing_else),
        in_scratch(clear_leaves_only_what_is_not_the_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
