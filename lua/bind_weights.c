/* bind_weights.c: a checkpoint's tensors for Lua: mapped, listed, looked at, copied into arrays. */
#include "bind.h"

#include "../runtime/weights.h"

#include <string.h>

#define WEIGHTS "lathe.weights"

static lt_weights *check_weights(lua_State *L)
{
    lt_weights **w = luaL_checkudata(L, 1, WEIGHTS);
    if (!*w) luaL_error(L, "the weights were freed");
    return *w;
}

static const lt_tensor *check_tensor(lua_State *L, int index)
{
    const char *name = luaL_checkstring(L, index);
    const lt_weight *found = lt_weights_find(check_weights(L), name);
    if (!found) luaL_error(L, "no tensor '%s'", name);
    return found->tensor;
}

static int free_weights(lua_State *L)
{
    lt_weights **w = luaL_checkudata(L, 1, WEIGHTS);
    lt_weights_free(*w);
    *w = NULL;
    return 0;
}

/* weights() -> an empty table of tensors */
static int new_weights(lua_State *L)
{
    lt_err err = {{0}};
    lt_weights **w = lua_newuserdatauv(L, sizeof *w, 0);
    *w = NULL;
    luaL_setmetatable(L, WEIGHTS);
    if (lt_weights_new(w, &err)) return lt_bind_fail(L, &err);
    return 1;
}

/* weights:add(path) -> true: maps one more file */
static int add_file(lua_State *L)
{
    lt_err err = {{0}};
    lt_weights *w = check_weights(L);
    return lt_bind_answer(L, lt_weights_add(w, luaL_checkstring(L, 2), &err), &err);
}

static void push_weight(lua_State *L, const lt_weight *w)
{
    const lt_tensor *t = w->tensor;
    lua_createtable(L, 0, 5);
    lua_pushstring(L, t->name);
    lua_setfield(L, -2, "name");
    lua_pushstring(L, t->dtype);
    lua_setfield(L, -2, "dtype");
    lua_pushinteger(L, (lua_Integer)t->data.len);
    lua_setfield(L, -2, "bytes");
    lua_pushinteger(L, (lua_Integer)w->file + 1);
    lua_setfield(L, -2, "file");
    lua_createtable(L, t->rank, 0);
    for (int i = 0; i < t->rank; i++) {
        lua_pushinteger(L, (lua_Integer)t->shape[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "shape");
}

/* weights:list() -> { { name, dtype, shape, bytes, file }, .. } by name; file: of add, from 1 */
static int list_weights(lua_State *L)
{
    const lt_weights *w = check_weights(L);
    const size_t count = lt_weights_count(w);
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        push_weight(L, lt_weights_at(w, i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* weights:number(name) -> the value of an F32 scalar */
static int get_number(lua_State *L)
{
    const lt_tensor *t = check_tensor(L, 2);
    float value;
    if (strcmp(t->dtype, "F32") || t->data.len != sizeof value)
        return luaL_error(L, "tensor '%s' is no F32 scalar", t->name);
    lt_weights_read(t, 0, &value, sizeof value);
    lua_pushnumber(L, (lua_Number)value);
    return 1;
}

static void set_count(lua_State *L, const char *name, size_t value)
{
    lua_pushinteger(L, (lua_Integer)value);
    lua_setfield(L, -2, name);
}

/* weights:scan(name) -> { nan, negative, first_nan, first_negative } of E4M3 scales */
static int scan_scales(lua_State *L)
{
    const lt_tensor *t = check_tensor(L, 2);
    lt_scale_bytes s;
    if (strcmp(t->dtype, "F8_E4M3")) return luaL_error(L, "tensor '%s' is not E4M3", t->name);
    lt_weights_scan(t, &s);
    lua_createtable(L, 0, 4);
    set_count(L, "nan", s.nan);
    set_count(L, "negative", s.negative);
    set_count(L, "first_nan", s.first_nan);
    set_count(L, "first_negative", s.first_negative);
    return 1;
}

/* weights:equal(name, name) -> are dtype, shape and bytes the same? */
static int compare_weights(lua_State *L)
{
    lua_pushboolean(L, lt_weights_equal(check_tensor(L, 2), check_tensor(L, 3)));
    return 1;
}

/* weights:load(name, offset, array): fills the array with the data's bytes from offset on */
static int load_weight(lua_State *L)
{
    const lt_tensor *t = check_tensor(L, 2);
    const lua_Integer offset = luaL_checkinteger(L, 3);
    const lt_array *a = lt_bind_array(L, 4);
    const size_t bytes = a->count * lt_ctype_bytes(a->type);
    if (offset < 0 || bytes > t->data.len || (size_t)offset > t->data.len - bytes)
        return luaL_error(L, "tensor '%s' ends before byte %I", t->name,
                          offset + (lua_Integer)bytes);
    lt_weights_read(t, (size_t)offset, a->data, bytes);
    return 0;
}

/* weights:gather(name, offset, width, pitch, array): fills the array with runs of `width` bytes,
 * the first at `offset` of the data, each `pitch` behind the one before */
static int gather_weight(lua_State *L)
{
    const lt_tensor *t = check_tensor(L, 2);
    const lua_Integer offset = luaL_checkinteger(L, 3), width = luaL_checkinteger(L, 4);
    const lua_Integer pitch = luaL_checkinteger(L, 5);
    const lt_array *a = lt_bind_array(L, 6);
    const size_t bytes = a->count * lt_ctype_bytes(a->type);
    if (offset < 0 || width < 1 || bytes % (size_t)width)
        return luaL_error(L, "tensor '%s': no whole runs of %I bytes", t->name, width);
    const lt_weight_runs runs = {(size_t)offset, (size_t)width, (size_t)pitch,
                                 bytes / (size_t)width};
    if (pitch < 1 || !lt_weights_hold(t, runs))
        return luaL_error(L, "tensor '%s' does not hold %I runs of %I bytes, %I apart from %I on",
                          t->name, (lua_Integer)runs.count, width, pitch, offset);
    lt_weights_gather(t, runs, a->data);
    return 0;
}

/* safetensors(folder) -> the names of its *.safetensors files, sorted */
static int list_folder(lua_State *L)
{
    lt_err err = {{0}};
    const char *folder = luaL_checkstring(L, 1);
    lt_bytes *names = lt_bind_bytes(L);
    if (lt_weights_list(folder, names, &err)) return lt_bind_fail(L, &err);
    lt_bind_lines(L, names);
    return 1;
}

static const luaL_Reg methods[] = {
    {"add", add_file},          {"list", list_weights}, {"number", get_number},
    {"scan", scan_scales},      {"load", load_weight},  {"gather", gather_weight},
    {"equal", compare_weights}, {"free", free_weights}, {"__gc", free_weights},
    {"__close", free_weights},  {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"weights", new_weights},
    {"safetensors", list_folder},
    {NULL, NULL},
};

void lt_bind_add_weights(lua_State *L)
{
    lt_bind_class(L, WEIGHTS, methods);
    luaL_setfuncs(L, functions, 0);
}
