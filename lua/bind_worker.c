/* bind_worker.c: worker processes for Lua. */
#include "bind.h"

#include "../runtime/worker.h"

#define WORKER "lathe.worker"

enum { MOST_WORDS = 8 };

/* worker(word, ...): starts `lathe word ...` */
static int start_worker(lua_State *L)
{
    lt_err err = {{0}};
    const char *words[MOST_WORDS + 1] = {NULL};
    const int count = lua_gettop(L);
    if (count > MOST_WORDS) return luaL_error(L, "more than %d words", MOST_WORDS);
    for (int i = 0; i < count; i++) words[i] = luaL_checkstring(L, i + 1);
    lt_worker **w = lua_newuserdatauv(L, sizeof *w, 0);
    *w = NULL;
    luaL_setmetatable(L, WORKER);
    if (lt_worker_start(w, NULL, words, &err)) return lt_bind_fail(L, &err);
    return 1;
}

static int end_worker(lua_State *L)
{
    lt_worker **w = luaL_checkudata(L, 1, WORKER);
    lt_worker_end(*w);
    *w = NULL;
    return 0;
}

static lt_worker *check_worker(lua_State *L)
{
    lt_worker **w = luaL_checkudata(L, 1, WORKER);
    if (!*w) luaL_error(L, "the worker was ended");
    return *w;
}

/* worker:send(line) */
static int send_line(lua_State *L)
{
    lt_err err = {{0}};
    lt_worker *w = check_worker(L);
    lt_span line;
    line.ptr = luaL_checklstring(L, 2, &line.len);
    return lt_bind_answer(L, lt_worker_send(w, line, &err), &err);
}

/* worker:receive(seconds) -> line; or nil, "late", "again" or "gone", and of the last how it ended
 */
static int receive_line(lua_State *L)
{
    lt_err err = {{0}};
    lt_worker *w = check_worker(L);
    const double seconds = luaL_checknumber(L, 2);
    lt_bytes *line = lt_bind_bytes(L);
    const lt_worker_result got = lt_worker_receive(w, seconds, line, &err);
    if (got == LT_WORKER_LINE)
        lua_pushlstring(L, line->ptr ? line->ptr : "", line->len);
    else
        lua_pushnil(L);
    lt_bytes_clear(line);
    if (got == LT_WORKER_LINE) return 1;
    lua_pushstring(L, got == LT_WORKER_LATE ? "late" : got == LT_WORKER_AGAIN ? "again" : "gone");
    lua_pushstring(L, err.text);
    return 3;
}

static const luaL_Reg worker_methods[] = {
    {"send", send_line},     {"receive", receive_line}, {"free", end_worker},
    {"__close", end_worker}, {"__gc", end_worker},      {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"worker", start_worker},
    {NULL, NULL},
};

void lt_bind_add_workers(lua_State *L)
{
    lt_bind_class(L, WORKER, worker_methods);
    luaL_setfuncs(L, functions, 0);
}
