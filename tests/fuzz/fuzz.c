/* fuzz.c: one input of any bytes for a reader of files: it is taken or refused with a sentence. C
 * readers are called here, the others by tests/fuzz/fuzz.lua, whose lines count as coverage too.
 * FUZZ_READER names the reader. */
#define _GNU_SOURCE /* memfd_create */
#include "../../cache/entry.h"
#include "../../cache/record.h"
#include "../../runtime/cuda/cubin.h"
#include "../../runtime/tensor.h"

#include "../../lua/bind.c" /* a state of its own, and what it calls a bug */

#include <sys/mman.h>

enum {
    LINES = 1 << 16,      /* the upper half of a hash of 32 bits */
    MOST_LINES = 1000000, /* run by one input; the program's own limit takes seconds */
};
/* libFuzzer looks at it as at its own counters. */
__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t lines[LINES];

static const char *reader;
static lua_State *scripts; /* with fuzz.lua's table on top */
static long lines_run;     /* by this input */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* ---- C ---- */

static void read_tensors(lt_span input, lt_err *err)
{
    lt_tensors *t = NULL;
    char path[32];
    const int fd = memfd_create("tensors", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || write(fd, input.ptr, input.len) != (ssize_t)input.len) abort();
    if (!lt_tensors_open(&t, path, err))
        for (size_t i = 0; i < lt_tensors_count(t); i++)
            if (lt_tensors_find(t, lt_tensors_at(t, i)->name) != lt_tensors_at(t, i)) abort();
    lt_tensors_close(t);
    close(fd);
}

/* The body of an entry, behind its digest, under the name that it gives itself. */
static void read_entry(lt_span input, lt_err *err)
{
    lt_span parts[LT_PARTS] = {{NULL, 0}};
    char key[65] = "", file[LT_FILE_BYTES];
    lt_entry e = {0};
    lt_cubin cubin;
    lt_entry_check(input, "", parts, key, err);
    const lt_span name = parts[LT_PART_NAME];
    if (!name.ptr || name.len > 200) return;
    snprintf(file, sizeof file, "%.*s.%.16s", (int)name.len, (const char *)name.ptr, key);
    if (!lt_entry_check(input, file, parts, key, err) && !lt_entry_copy(parts, &e, err))
        lt_cubin_read(lt_bytes_view(&e.image), "k", &cubin, err);
    lt_entry_clear(&e);
}

static void read_cubin(lt_span input, lt_err *err)
{
    lt_cubin cubin;
    char code[17];
    if (!lt_cubin_read(input, "argmax_bf16__m1_vocab1__p1w4", &cubin, err))
        lt_cubin_digest(input, &cubin.facts, code, err);
}

static void read_records(lt_span input, lt_err *err)
{
    lt_bytes kept = {0};
    size_t bad;
    lt_record_unseal(input, &kept, &bad, err);
    if (kept.len > input.len) abort();
    lt_bytes_clear(&kept);
}

static const struct {
    const char *name;
    void (*read)(lt_span input, lt_err *err);
} readers[] = {{"tensors", read_tensors},
               {"entry", read_entry},
               {"cubin", read_cubin},
               {"records", read_records}};

/* ---- Lua ---- */

static void count_line(lua_State *L, lua_Debug *now)
{
    lua_getinfo(L, "S", now);
    uint32_t hash = (uint32_t)now->currentline * 2654435761u, end = 0;
    if (now->srclen >= 8) memcpy(&end, now->source + now->srclen - 8, 4); /* of its name */
    lines[((hash ^ end) * 16777619u ^ (uint32_t)now->srclen) >> 16]++;
    if (++lines_run == MOST_LINES) {
        lua_pushliteral(L, "it does not end");
        lua_error(L);
    }
}

static void open_scripts(void)
{
    static lt_limits limits;
    scripts = lt_limit_open(&limits);
    luaL_openlibs(scripts);
    set_searchers(scripts);
    if (luaL_dofile(scripts, "tests/fuzz/fuzz.lua")) {
        fprintf(stderr, "%s\n", lua_tostring(scripts, -1));
        abort();
    }
}

/* A table of lua/fault.lua or a sentence is right, what add_place calls a bug is not. */
static void read_by_script(lt_span input)
{
    lua_State *L = scripts;
    lua_pushcfunction(L, add_place);
    lua_getfield(L, 1, reader);
    lua_pushlstring(L, input.ptr, input.len);
    lines_run = 0;
    lua_sethook(L, count_line, LUA_MASKLINE, 0);
    const int failed = lua_pcall(L, 1, 0, 2);
    lua_sethook(L, NULL, 0, 0);
    if (failed && lua_type(L, -1) == LUA_TSTRING && strstr(lua_tostring(L, -1), "\nstack trace")) {
        fprintf(stderr, "a bug: %s\n", lua_tostring(L, -1));
        abort();
    }
    lua_settop(L, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    lt_err err = {{0}};
    const lt_span input = {bytes, count};
    if (!reader) {
        reader = getenv("FUZZ_READER");
        if (!reader || lt_config_read(&err)) abort();
        open_scripts();
    }
    for (size_t i = 0; i < lt_countof(readers); i++) {
        if (strcmp(reader, readers[i].name)) continue;
        readers[i].read(input, &err);
        return 0;
    }
    read_by_script(input);
    return 0;
}
