/* bind_logits.c: what arrays say about a run of the model, for Lua. */
#include "bind.h"

#include "../runtime/logits.h"

/* nll(logits, row, width, target), row and target from 0: nats; NaN where the row is not finite */
static int get_nll(lua_State *L)
{
    const lt_array *a = lt_bind_array(L, 1);
    const lua_Integer row = luaL_checkinteger(L, 2), width = luaL_checkinteger(L, 3);
    const lua_Integer target = luaL_checkinteger(L, 4);
    if (a->type != LT_F32) return luaL_error(L, "logits must be f32");
    if (width < 1 || row < 0 || (size_t)row >= a->count / (size_t)width)
        return luaL_error(L, "row %I of %I logits is outside", row, width);
    if (target < 0 || target >= width) return luaL_error(L, "token %I is outside", target);
    const float *logits = (const float *)a->data + (size_t)row * (size_t)width;
    lua_pushnumber(L, lt_logits_nll(logits, (size_t)width, (size_t)target));
    return 1;
}

/* nonfinite(array, before or nil): elements that are no numbers, but for those equal to before's */
static int count_nonfinite(lua_State *L)
{
    const lt_array *a = lt_bind_array(L, 1);
    const lt_array *before = lua_isnoneornil(L, 2) ? NULL : lt_bind_array(L, 2);
    if (before && (before->type != a->type || before->count != a->count))
        return luaL_error(L, "the arrays have different counts or types");
    lua_pushinteger(L, (lua_Integer)lt_logits_nonfinite(a->type, a->data,
                                                        before ? before->data : NULL, a->count));
    return 1;
}

/* hash(array, first or 0, count or all): 16 hex digits of the SHA-256 of those elements' bytes */
static int get_hash(lua_State *L)
{
    const lt_array *a = lt_bind_array(L, 1);
    const lua_Integer first = luaL_optinteger(L, 2, 0);
    const lua_Integer count = luaL_optinteger(L, 3, (lua_Integer)a->count - first);
    const size_t bytes = lt_ctype_bytes(a->type);
    char hex[65];
    if (first < 0 || count < 0 || (size_t)first > a->count ||
        (size_t)count > a->count - (size_t)first)
        return luaL_error(L, "elements %I to %I are outside", first, first + count);
    lt_sha256_hex((lt_span){(const char *)a->data + (size_t)first * bytes, (size_t)count * bytes},
                  hex);
    lua_pushlstring(L, hex, 16);
    return 1;
}

static const luaL_Reg functions[] = {
    {"nll", get_nll},
    {"nonfinite", count_nonfinite},
    {"hash", get_hash},
    {NULL, NULL},
};

void lt_bind_add_logits(lua_State *L)
{
    luaL_setfuncs(L, functions, 0);
}
