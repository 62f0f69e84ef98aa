/* bind_whole.c: files that appear whole or not at all, for Lua. */
#include "bind.h"

#define WHOLE "lathe.whole"

/* whole(path): a file to write */
static int open_whole(lua_State *L)
{
    lt_err err = {{0}};
    const char *path = luaL_checkstring(L, 1);
    lt_whole *w = lua_newuserdatauv(L, sizeof *w, 0);
    *w = (lt_whole){0};
    luaL_setmetatable(L, WHOLE);
    if (lt_whole_open(w, path, &err)) return lt_bind_fail(L, &err);
    return 1;
}

lt_whole *lt_bind_whole(lua_State *L)
{
    lt_whole *w = luaL_checkudata(L, 1, WHOLE);
    if (!w->path) luaL_error(L, "the file was closed");
    return w;
}

/* file:write(text) */
static int write_whole(lua_State *L)
{
    lt_err err = {{0}};
    lt_span text;
    text.ptr = luaL_checklstring(L, 2, &text.len);
    return lt_bind_answer(L, lt_whole_write(lt_bind_whole(L), text, &err), &err);
}

/* file:keep(): now it is there, and closed */
static int keep_whole(lua_State *L)
{
    lt_err err = {{0}};
    return lt_bind_answer(L, lt_whole_keep(lt_bind_whole(L), &err), &err);
}

/* file:free(): what was not kept is gone */
static int free_whole(lua_State *L)
{
    lt_whole_clear(luaL_checkudata(L, 1, WHOLE));
    return 0;
}

static const luaL_Reg whole_methods[] = {
    {"write", write_whole},  {"keep", keep_whole}, {"free", free_whole},
    {"__close", free_whole}, {"__gc", free_whole}, {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"whole", open_whole},
    {NULL, NULL},
};

void lt_bind_add_whole(lua_State *L)
{
    lt_bind_class(L, WHOLE, whole_methods);
    luaL_setfuncs(L, functions, 0);
}
