/* bind_record.c: files of tuning records for Lua: lines, without their seals. */
#include "bind.h"

#include "../cache/record.h"

#include <string.h>

#define RECORD "lathe.record"

/* records(name) */
static int open_record(lua_State *L)
{
    lt_err err = {{0}};
    lt_record **r = lua_newuserdatauv(L, sizeof *r, 0);
    *r = NULL;
    luaL_setmetatable(L, RECORD);
    if (lt_record_open(r, luaL_checkstring(L, 1), &err)) return lt_bind_fail(L, &err);
    return 1;
}

static int close_record(lua_State *L)
{
    lt_record **r = luaL_checkudata(L, 1, RECORD);
    lt_record_close(*r);
    *r = NULL;
    return 0;
}

static lt_record *check_record(lua_State *L)
{
    lt_record **r = luaL_checkudata(L, 1, RECORD);
    if (!*r) luaL_error(L, "the records were closed");
    return *r;
}

/* record:path() */
static int get_path(lua_State *L)
{
    lua_pushstring(L, lt_record_path(check_record(L)));
    return 1;
}

/* record:check(): can it be written? */
static int check_writable(lua_State *L)
{
    lt_err err = {{0}};
    return lt_bind_answer(L, lt_record_check(check_record(L), &err), &err);
}

/* A list of lines and how many were none; or what failed. Clears lines. */
static int push_lines(lua_State *L, int failed, lt_bytes *lines, size_t bad, const lt_err *err)
{
    if (failed) return lt_bind_fail(L, err);
    lt_bind_lines(L, lines);
    lua_pushinteger(L, (lua_Integer)bad);
    return 2;
}

/* record:read() -> lines, count of those that are torn or foreign */
static int read_record(lua_State *L)
{
    lt_err err = {{0}};
    lt_record *r = check_record(L);
    lt_bytes *lines = lt_bind_bytes(L);
    size_t bad = 0;
    const int failed = lt_record_read(r, lines, &bad, &err);
    return push_lines(L, failed, lines, bad, &err);
}

/* is_record_name(text): can it be the name that records() takes? */
static int is_record_name(lua_State *L)
{
    lua_pushboolean(L, lt_record_is_name(luaL_checkstring(L, 1)));
    return 1;
}

/* unseal(text of a file of records) -> as record:read */
static int unseal(lua_State *L)
{
    lt_err err = {{0}};
    size_t bad = 0;
    lt_span text;
    text.ptr = luaL_checklstring(L, 1, &text.len);
    lt_bytes *lines = lt_bind_bytes(L);
    const int failed = lt_record_unseal(text, lines, &bad, &err);
    return push_lines(L, failed, lines, bad, &err);
}

/* record:append(line) */
static int append_record(lua_State *L)
{
    lt_err err = {{0}};
    lt_record *r = check_record(L);
    lt_span line;
    line.ptr = luaL_checklstring(L, 2, &line.len);
    return lt_bind_answer(L, lt_record_append(r, line, &err), &err);
}

/* record:hold(): nobody else writes until it is replaced or closed */
static int hold_record(lua_State *L)
{
    lt_err err = {{0}};
    return lt_bind_answer(L, lt_record_hold(check_record(L), &err), &err);
}

/* record:replace(lines) */
static int replace_record(lua_State *L)
{
    lt_err err = {{0}};
    lt_record *r = check_record(L);
    luaL_Buffer b;
    luaL_checktype(L, 2, LUA_TTABLE);
    luaL_buffinit(L, &b);
    for (lua_Integer i = 1, n = luaL_len(L, 2); i <= n; i++) {
        lua_geti(L, 2, i);
        luaL_addvalue(&b);
        luaL_addchar(&b, '\n');
    }
    luaL_pushresult(&b);
    lt_span lines;
    lines.ptr = lua_tolstring(L, -1, &lines.len);
    return lt_bind_answer(L, lt_record_replace(r, lines, &err), &err);
}

static const luaL_Reg record_methods[] = {
    {"path", get_path},     {"check", check_writable},
    {"read", read_record},  {"append", append_record},
    {"hold", hold_record},  {"replace", replace_record},
    {"free", close_record}, {"__close", close_record},
    {"__gc", close_record}, {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"records", open_record},
    {"is_record_name", is_record_name},
    {"unseal", unseal},
    {NULL, NULL},
};

void lt_bind_add_records(lua_State *L)
{
    lt_bind_class(L, RECORD, record_methods);
    luaL_setfuncs(L, functions, 0);
}
