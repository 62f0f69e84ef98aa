/* bind_cache.c: compiling into the cache, keys, and the cache itself, for Lua. */
#include "bind.h"

#include "../cache/store.h"

#include <stdlib.h>

#define STORE "lathe.store"

/* ---- build ---- */

typedef struct {
    lua_State *L;
    int progress; /* index of the function, or of nil */
    bool raised;  /* it ended with an error, which is on top of the stack */
} watch;

/* Errors must not jump over the compilers that run: the build stops and they are raised again. */
static int call_progress(void *ctx, size_t done, size_t count)
{
    watch *w = ctx;
    if (lua_isnil(w->L, w->progress)) return 0;
    lua_pushvalue(w->L, w->progress);
    lua_pushinteger(w->L, (lua_Integer)done);
    lua_pushinteger(w->L, (lua_Integer)count);
    w->raised = lua_pcall(w->L, 2, 0, 0) != LUA_OK;
    return w->raised;
}

static void push_build(lua_State *L, const lt_build *b)
{
    lt_bind_report(L, &b->report);
    if (b->failed) {
        lua_pushstring(L, b->err.text);
        lua_setfield(L, -2, "failed");
    }
}

typedef struct {
    lt_device *dev;
    size_t count;
    lt_build builds[];
} batch;

/* Kernels that nobody took. */
static int free_batch(lua_State *L)
{
    batch *b = lua_touserdata(L, 1);
    for (size_t i = 0; i < b->count; i++) lt_kernel_unload(b->dev, b->builds[i].kernel);
    b->count = 0;
    return 0;
}

lt_build *lt_bind_build(lua_State *L, lt_device *dev, size_t *count)
{
    lt_err err = {{0}};
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_settop(L, 3);
    *count = (size_t)luaL_len(L, 2);
    batch *b = lt_bind_own(L, sizeof *b + *count * sizeof *b->builds, free_batch);
    lt_build *builds = b->builds;
    b->dev = dev;
    b->count = *count;
    lt_param(*params)[LT_MAX_PARAMS] = lua_newuserdatauv(L, (*count + 1) * sizeof *params, 0);
    for (size_t i = 0; i < *count; i++) {
        lua_geti(L, 2, (lua_Integer)i + 1);
        lt_bind_source(L, -1, &builds[i].source, params[i]);
        lua_pop(L, 1);
    }
    watch w = {L, 3, false};
    luaL_checkstack(L, 10, NULL);
    const int failed = lt_jit_build(dev, builds, *count, call_progress, &w, &err);
    if (w.raised) lua_error(L);
    if (failed) {
        lt_bind_fail(L, &err);
        return NULL;
    }
    lua_createtable(L, (int)*count, 0);
    for (size_t i = 0; i < *count; i++) {
        push_build(L, &builds[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return builds;
}

/* build(kernels of gen/emit.lua, progress(done, count) or nil) -> reports; a report of one that did
 * not compile has `failed` */
static int build(lua_State *L)
{
    size_t count;
    lua_pushnil(L); /* where a device would be */
    lua_insert(L, 1);
    return lt_bind_build(L, NULL, &count) ? 1 : 2;
}

/* prepare(): before anything is compiled; fails where a setting cannot be obeyed */
static int prepare(lua_State *L)
{
    lt_err err = {{0}};
    return lt_bind_answer(L, lt_jit_prepare(&err), &err);
}

/* key(kernel of gen/emit.lua) -> key, its fields as text */
static int get_key(lua_State *L)
{
    lt_err err = {{0}};
    lt_source src;
    lt_param params[LT_MAX_PARAMS];
    char key[65];
    lt_bind_source(L, 1, &src, params);
    lt_bytes *text = lt_bind_bytes(L);
    if (lt_jit_key(&src, text, key, &err)) return lt_bind_fail(L, &err);
    lua_pushstring(L, key);
    lua_pushlstring(L, text->ptr, text->len);
    lt_bytes_clear(text);
    return 2;
}

/* ---- store ---- */

/* store(): the process's, which lives as long as it */
static int get_store(lua_State *L)
{
    lt_err err = {{0}};
    lt_store **s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = NULL;
    luaL_setmetatable(L, STORE);
    if (lt_jit_store(s, &err)) return lt_bind_fail(L, &err);
    return 1;
}

static lt_store *check_store(lua_State *L)
{
    lt_store *const *s = luaL_checkudata(L, 1, STORE);
    return *s;
}

/* store:folder() -> path, is it writable */
static int get_folder(lua_State *L)
{
    const lt_store *s = check_store(L);
    lua_pushstring(L, lt_store_dir(s));
    lua_pushboolean(L, lt_store_is_writable(s));
    return 2;
}

static void push_entry(lua_State *L, const lt_entry *e)
{
    const struct {
        const char *name;
        lt_span bytes;
    } parts[] = {{"key_text", lt_bytes_view(&e->key_text)}, {"text", lt_bytes_view(&e->text)}};
    lua_createtable(L, 0, 2);
    for (size_t i = 0; i < lt_countof(parts); i++) {
        lua_pushlstring(L, parts[i].bytes.ptr ? parts[i].bytes.ptr : "", parts[i].bytes.len);
        lua_setfield(L, -2, parts[i].name);
    }
}

static int free_entry(lua_State *L)
{
    lt_entry_clear(lua_touserdata(L, 1));
    return 0;
}

static int push_found(lua_State *L, lt_store_result got, lt_entry *e, const lt_err *err)
{
    if (got == LT_STORE_FAILED) return lt_bind_fail(L, err);
    if (got == LT_STORE_MISS)
        lua_pushboolean(L, 0);
    else
        push_entry(L, e);
    lt_entry_clear(e);
    return 1;
}

/* store:find(name, key) -> entry or false */
static int find_entry(lua_State *L)
{
    lt_err err = {{0}};
    size_t len;
    const char *key = luaL_checklstring(L, 3, &len);
    if (len != 64) return luaL_error(L, "a key has 64 digits");
    const char *name = luaL_checkstring(L, 2);
    lt_store *s = check_store(L);
    lt_entry *e = lt_bind_own(L, sizeof *e, free_entry);
    return push_found(L, lt_store_find(s, name, key, e, &err), e, &err);
}

/* store:read(file as list() names it) -> entry or false */
static int read_entry(lua_State *L)
{
    lt_err err = {{0}};
    const char *file = luaL_checkstring(L, 2);
    lt_store *s = check_store(L);
    lt_entry *e = lt_bind_own(L, sizeof *e, free_entry);
    return push_found(L, lt_store_read(s, file, e, &err), e, &err);
}

typedef struct {
    lt_store_item *items;
    size_t count, cap;
    bool cut; /* memory did not suffice for all */
} items;

static int add_item(void *ctx, const lt_store_item *item)
{
    items *list = ctx;
    if (list->count == list->cap) {
        const size_t cap = list->cap ? 2 * list->cap : 64;
        lt_store_item *grown = realloc(list->items, cap * sizeof *grown);
        if (!grown) {
            list->cut = true;
            return -1;
        }
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->count++] = *item;
    return 0;
}

static int free_items(lua_State *L)
{
    const items *list = lua_touserdata(L, 1);
    free(list->items);
    return 0;
}

static void push_item(lua_State *L, const lt_store_item *item)
{
    lua_createtable(L, 0, 5);
    lua_pushstring(L, item->name);
    lua_setfield(L, -2, "name");
    lua_pushinteger(L, (lua_Integer)item->bytes);
    lua_setfield(L, -2, "bytes");
    lua_pushnumber(L, item->age_seconds);
    lua_setfield(L, -2, "age_seconds");
    lua_pushboolean(L, item->whole);
    lua_setfield(L, -2, "whole");
    lua_pushstring(L, item->why);
    lua_setfield(L, -2, "why");
}

/* store:list(verify) -> { name, bytes, age_seconds, whole, why } of each entry */
static int list_entries(lua_State *L)
{
    lt_err err = {{0}};
    const bool verify = lua_toboolean(L, 2);
    lt_store *s = check_store(L);
    items *list = lt_bind_own(L, sizeof *list, free_items);
    int failed = lt_store_walk(s, verify, add_item, list, &err);
    if (!failed && list->cut) failed = lt_fail(&err, "cache: out of memory for its list");
    if (failed) return lt_bind_fail(L, &err);
    lua_createtable(L, (int)list->count, 0);
    for (size_t i = 0; i < list->count; i++) {
        push_item(L, &list->items[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* store:gc(bytes) -> removed entries, removed bytes */
static int collect(lua_State *L)
{
    lt_err err = {{0}};
    size_t removed = 0, bytes = 0;
    const size_t limit = (size_t)luaL_checkinteger(L, 2);
    if (lt_store_gc(check_store(L), limit, &removed, &bytes, &err)) return lt_bind_fail(L, &err);
    lua_pushinteger(L, (lua_Integer)removed);
    lua_pushinteger(L, (lua_Integer)bytes);
    return 2;
}

static int clear(lua_State *L)
{
    lt_err err = {{0}};
    size_t removed = 0;
    if (lt_store_clear(check_store(L), &removed, &err)) return lt_bind_fail(L, &err);
    lua_pushinteger(L, (lua_Integer)removed);
    return 1;
}

static const luaL_Reg store_methods[] = {
    {"folder", get_folder}, {"find", find_entry}, {"read", read_entry}, {"list", list_entries},
    {"gc", collect},        {"clear", clear},     {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"prepare", prepare}, {"build", build}, {"key", get_key}, {"store", get_store}, {NULL, NULL},
};

void lt_bind_add_cache(lua_State *L)
{
    lt_bind_class(L, STORE, store_methods);
    luaL_setfuncs(L, functions, 0);
}
