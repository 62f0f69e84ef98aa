/* bind_array.c: host arrays for Lua: drawn, compared, given to references, read from and written to
 * files. */
#include "bind.h"

#include "../runtime/compare.h"
#include "../runtime/sample.h"
#include "../runtime/tensor.h"

#include "reference.h"

#include <stdlib.h>
#include <string.h>

#define ARRAY "lathe.array"
#define TENSORS "lathe.tensors"

static int free_array(lua_State *L)
{
    lt_array *a = luaL_checkudata(L, 1, ARRAY);
    free(a->data);
    a->data = NULL;
    return 0;
}

lt_array *lt_bind_array(lua_State *L, int index)
{
    lt_array *a = luaL_checkudata(L, index, ARRAY);
    if (!a->data) luaL_error(L, "the array was freed");
    return a;
}

static lt_ctype check_type(lua_State *L, int index)
{
    lt_err err = {{0}};
    lt_ctype type;
    if (lt_ctype_parse(luaL_checkstring(L, index), &type, &err)) luaL_error(L, "%s", err.text);
    return type;
}

/* array(type, count): every byte is poison(type) */
static int new_array(lua_State *L)
{
    lt_err err = {{0}};
    const lt_ctype type = check_type(L, 1);
    const lua_Integer count = luaL_checkinteger(L, 2);
    const size_t bytes = (size_t)count * lt_ctype_bytes(type);
    if (count < 1 || (size_t)count > SIZE_MAX / 16) return luaL_error(L, "no count of elements");
    lt_array *a = lua_newuserdatauv(L, sizeof *a, 0);
    *a = (lt_array){type, (size_t)count, NULL};
    luaL_setmetatable(L, ARRAY);
    a->data = malloc(bytes); /* memory of aligned_alloc is not used again in glibc 2.36 */
    if (!a->data) {
        lt_fail(&err, "out of memory for an array of %zu bytes", bytes);
        return lt_bind_fail(L, &err);
    }
    memset(a->data, lt_ctype_poison(type), bytes);
    return 1;
}

/* poison(type): the byte that its arrays begin as */
static int get_poison(lua_State *L)
{
    lua_pushinteger(L, lt_ctype_poison(check_type(L, 1)));
    return 1;
}

/* array:draw(distribution, seed, name) */
static int draw_array(lua_State *L)
{
    lt_array *a = lt_bind_array(L, 1);
    lt_err err = {{0}};
    lt_draw draw;
    const uint64_t seed = (uint64_t)luaL_checkinteger(L, 3);
    const int failed =
        lt_sample_parse(luaL_checkstring(L, 2), &draw, &err) ||
        lt_sample_fill(a->data, a->count, a->type, draw, seed, luaL_checkstring(L, 4), &err);
    return lt_bind_answer(L, failed, &err);
}

/* array:at(i), from 0 */
static int get_element(lua_State *L)
{
    const lt_array *a = lt_bind_array(L, 1);
    const lua_Integer i = luaL_checkinteger(L, 2);
    if (i < 0 || (size_t)i >= a->count) return luaL_error(L, "index %I is outside", i);
    lua_pushnumber(L, lt_ctype_number(a->type, a->data, (size_t)i));
    return 1;
}

/* array:set(i, number), from 0 */
static int set_element(lua_State *L)
{
    lt_array *a = lt_bind_array(L, 1);
    const lua_Integer i = luaL_checkinteger(L, 2);
    if (i < 0 || (size_t)i >= a->count) return luaL_error(L, "index %I is outside", i);
    lt_ctype_set(a->type, a->data, (size_t)i, luaL_checknumber(L, 3));
    return 0;
}

/* array:copy(from): the same bytes, or where the types differ the same numbers, rounded */
static int copy_array(lua_State *L)
{
    lt_array *a = lt_bind_array(L, 1);
    const lt_array *from = lt_bind_array(L, 2);
    if (a->count != from->count) return luaL_error(L, "the arrays have different counts");
    if (a->type == from->type) {
        memcpy(a->data, from->data, a->count * lt_ctype_bytes(a->type));
        return 0;
    }
    for (size_t i = 0; i < a->count; i++)
        lt_ctype_set(a->type, a->data, i, lt_ctype_number(from->type, from->data, i));
    return 0;
}

/* array:tile(block, first): the bytes of another array, over and over, from its byte `first` on */
static int tile_array(lua_State *L)
{
    lt_array *a = lt_bind_array(L, 1);
    const lt_array *block = lt_bind_array(L, 2);
    const size_t bytes = a->count * lt_ctype_bytes(a->type);
    const size_t period = block->count * lt_ctype_bytes(block->type);
    const lua_Integer first = luaL_checkinteger(L, 3);
    if (!period || first < 0)
        return luaL_error(L, "a block of %I bytes, from %I on", (lua_Integer)period, first);
    size_t from = (size_t)first % period, n;
    for (size_t at = 0; at < bytes; at += n, from = 0) {
        n = period - from < bytes - at ? period - from : bytes - at;
        memcpy((char *)a->data + at, (const char *)block->data + from, n);
    }
    return 0;
}

/* array:forget(from): elements that equal from's become poison again: nothing wrote them */
static int forget_array(lua_State *L)
{
    const lt_array *a = lt_bind_array(L, 1), *from = lt_bind_array(L, 2);
    const size_t bytes = lt_ctype_bytes(a->type);
    if (a->count != from->count || a->type != from->type)
        return luaL_error(L, "the arrays have different counts or types");
    for (size_t i = 0; i < a->count * bytes; i += bytes)
        if (!memcmp((char *)a->data + i, (const char *)from->data + i, bytes))
            memset((char *)a->data + i, lt_ctype_poison(a->type), bytes);
    return 0;
}

static int zero_array(lua_State *L)
{
    lt_array *a = lt_bind_array(L, 1);
    memset(a->data, 0, a->count * lt_ctype_bytes(a->type));
    return 0;
}

/* ---- comparison ---- */

static void push_difference(lua_State *L, const lt_difference *d)
{
    lua_createtable(L, 0, 7);
    lua_pushinteger(L, (lua_Integer)d->compared);
    lua_setfield(L, -2, "compared");
    lua_pushinteger(L, (lua_Integer)d->failures);
    lua_setfield(L, -2, "failures");
    lua_pushinteger(L, (lua_Integer)d->first);
    lua_setfield(L, -2, "first");
    lua_pushnumber(L, d->got);
    lua_setfield(L, -2, "got");
    lua_pushnumber(L, d->want);
    lua_setfield(L, -2, "want");
    lua_pushnumber(L, d->ulp);
    lua_setfield(L, -2, "ulp");
    lua_pushnumber(L, d->part);
    lua_setfield(L, -2, "part");
}

static void check_counts(lua_State *L, const lt_array *a, const lt_array *b)
{
    if (a->count != b->count) luaL_error(L, "the arrays have different counts");
}

/* compare_bits(got, want, sampled) */
static int compare_bits(lua_State *L)
{
    const lt_array *got = lt_bind_array(L, 1), *want = lt_bind_array(L, 2);
    lt_difference d;
    check_counts(L, got, want);
    if (got->type != want->type) return luaL_error(L, "the arrays have different types");
    lt_compare_bits(got->type, got->data, want->data, got->count, lua_toboolean(L, 3), &d);
    push_difference(L, &d);
    return 1;
}

/* compare_near(got, value, magnitude, { ulp = | relative = | exact = , row =, sampled = }) */
static int compare_near(lua_State *L)
{
    const lt_array *got = lt_bind_array(L, 1), *value = lt_bind_array(L, 2);
    const lt_array *magnitude = lt_bind_array(L, 3);
    lt_difference d;
    lt_limit limit = {0};
    luaL_checktype(L, 4, LUA_TTABLE);
    lua_getfield(L, 4, "ulp");
    limit.ulp = lua_tonumber(L, -1);
    lua_getfield(L, 4, "relative");
    limit.relative = lua_tonumber(L, -1);
    limit.exact = lt_bind_flag(L, 4, "exact");
    limit.sampled = lt_bind_flag(L, 4, "sampled");
    limit.row = (size_t)lt_bind_field(L, 4, "row", 0);
    check_counts(L, got, value);
    check_counts(L, got, magnitude);
    if (value->type != LT_F64 || magnitude->type != LT_F64) return luaL_error(L, "f64 is needed");
    lt_compare_near(got->type, got->data, value->data, magnitude->data, got->count, &limit, &d);
    push_difference(L, &d);
    return 1;
}

/* ---- references ---- */

enum { MAX_SIZES = 16, MAX_POINTERS = 64 };

static const lt_reference *find_reference(const char *family)
{
    for (size_t i = 0; i < lt_reference_count; i++)
        if (!strcmp(lt_references[i].family, family)) return &lt_references[i];
    return NULL;
}

/* The reference that was built for such a family; NULL: none. */
static const lt_reference *match_reference(const char *family, const char *signature, lt_err *err)
{
    const lt_reference *r = find_reference(family);
    if (!r)
        lt_fail(err, "family %s: has no reference in this program (build it with families/%s.c)",
                family, family);
    else if (strcmp(r->signature, signature)) {
        lt_fail(err,
                "family %s: its sizes and args are not those that this program's reference was "
                "built for (build it again)",
                family);
        r = NULL;
    }
    return r;
}

/* reference(family, signature, sizes, arrays): runs the C reference */
static int run_reference(lua_State *L)
{
    lt_err err = {{0}};
    int64_t shape[MAX_SIZES] = {0};
    void *args[MAX_POINTERS] = {0};
    const lua_Integer sizes = luaL_len(L, 3), pointers = luaL_len(L, 4);
    if (sizes > MAX_SIZES || pointers > MAX_POINTERS) return luaL_error(L, "too many arguments");
    const lt_reference *reference =
        match_reference(luaL_checkstring(L, 1), luaL_checkstring(L, 2), &err);
    if (!reference) return lt_bind_fail(L, &err);
    for (lua_Integer i = 0; i < sizes; i++) {
        lua_geti(L, 3, i + 1);
        shape[i] = luaL_checkinteger(L, -1);
    }
    for (lua_Integer i = 0; i < pointers; i++) {
        lua_geti(L, 4, i + 1);
        args[i] = lt_bind_array(L, -1)->data;
        lua_pop(L, 1);
    }
    reference->run(shape, args);
    lua_pushboolean(L, 1);
    return 1;
}

static int has_reference(lua_State *L)
{
    lua_pushboolean(L, find_reference(luaL_checkstring(L, 1)) != NULL);
    return 1;
}

/* ---- safetensors files ---- */

static int close_tensors(lua_State *L)
{
    lt_tensors **t = luaL_checkudata(L, 1, TENSORS);
    lt_tensors_close(*t);
    *t = NULL;
    return 0;
}

/* tensors(path) */
static int open_tensors(lua_State *L)
{
    lt_err err = {{0}};
    lt_tensors **t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = NULL;
    luaL_setmetatable(L, TENSORS);
    if (lt_tensors_open(t, luaL_checkstring(L, 1), &err)) return lt_bind_fail(L, &err);
    return 1;
}

static lt_tensors *check_tensors(lua_State *L)
{
    lt_tensors **t = luaL_checkudata(L, 1, TENSORS);
    if (!*t) luaL_error(L, "the file was closed");
    return *t;
}

/* tensors:names() */
static int get_names(lua_State *L)
{
    const lt_tensors *t = check_tensors(L);
    lua_newtable(L);
    for (size_t i = 0; i < lt_tensors_count(t); i++) {
        lua_pushstring(L, lt_tensors_at(t, i)->name);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* Reads a list of extents; their count. */
static int read_extents(lua_State *L, int index, int64_t shape[LT_TENSOR_RANK])
{
    const lua_Integer rank = luaL_len(L, index);
    if (rank > LT_TENSOR_RANK) return luaL_error(L, "more than %d extents", LT_TENSOR_RANK);
    for (lua_Integer i = 0; i < rank; i++) {
        lua_geti(L, index, i + 1);
        shape[i] = luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    return (int)rank;
}

static int check_tensor(const lt_tensor *t, const char *dtype, const int64_t *shape, int rank,
                        lt_err *err)
{
    if (strcmp(t->dtype, dtype))
        return lt_fail(err, "tensor '%s': is %s, the kernel takes %s", t->name, t->dtype, dtype);
    if (t->rank != rank)
        return lt_fail(err, "tensor '%s': has %d dimensions, the kernel takes %d", t->name, t->rank,
                       rank);
    for (int i = 0; i < rank; i++)
        if (t->shape[i] != shape[i])
            return lt_fail(err, "tensor '%s': dimension %d is %lld, the kernel takes %lld", t->name,
                           i, (long long)t->shape[i], (long long)shape[i]);
    return 0;
}

/* tensors:load(name, array, dtype, extents): fills the array; false: the file has no such name */
static int load_tensor(lua_State *L)
{
    lt_err err = {{0}};
    int64_t shape[LT_TENSOR_RANK] = {0};
    lt_array *a = lt_bind_array(L, 3);
    const lt_tensor *t = lt_tensors_find(check_tensors(L), luaL_checkstring(L, 2));
    const int rank = read_extents(L, 5, shape);
    if (!t) {
        lua_pushboolean(L, 0);
        return 1;
    }
    if (check_tensor(t, luaL_checkstring(L, 4), shape, rank, &err)) return lt_bind_fail(L, &err);
    if (t->data.len != a->count * lt_ctype_bytes(a->type))
        return luaL_error(L, "the array differs");
    memcpy(a->data, t->data.ptr, t->data.len);
    lua_pushboolean(L, 1);
    return 1;
}

/* write_tensors(whole, { { name, dtype, extents, array }, ... }) */
static int write_tensors(lua_State *L)
{
    lt_err err = {{0}};
    lt_whole *w = lt_bind_whole(L);
    const lua_Integer count = luaL_len(L, 2);
    lt_tensor *list = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *list, 0);
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, 2, i + 1);
        const int row = lua_gettop(L);
        for (int field = 1; field <= 4; field++) lua_geti(L, row, field);
        const lt_array *a = lt_bind_array(L, row + 4);
        list[i] = (lt_tensor){.name = luaL_checkstring(L, row + 1),
                              .dtype = luaL_checkstring(L, row + 2),
                              .data = {a->data, a->count * lt_ctype_bytes(a->type)}};
        list[i].rank = read_extents(L, row + 3, list[i].shape);
        lua_settop(L, row - 1); /* the table keeps the strings and the array */
    }
    return lt_bind_answer(L, lt_tensors_write(w, list, (size_t)count, &err), &err);
}

static const luaL_Reg array_methods[] = {
    {"draw", draw_array},     {"at", get_element},  {"set", set_element},
    {"copy", copy_array},     {"tile", tile_array}, {"zero", zero_array},
    {"forget", forget_array}, {"free", free_array}, {"__close", free_array},
    {"__gc", free_array},     {NULL, NULL},
};

static const luaL_Reg tensors_methods[] = {
    {"names", get_names},       {"load", load_tensor},   {"free", close_tensors},
    {"__close", close_tensors}, {"__gc", close_tensors}, {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"array", new_array},
    {"poison", get_poison},
    {"compare_bits", compare_bits},
    {"compare_near", compare_near},
    {"reference", run_reference},
    {"has_reference", has_reference},
    {"tensors", open_tensors},
    {"write_tensors", write_tensors},
    {NULL, NULL},
};

void lt_bind_add_arrays(lua_State *L)
{
    lt_bind_class(L, ARRAY, array_methods);
    lt_bind_class(L, TENSORS, tensors_methods);
    luaL_setfuncs(L, functions, 0);
}
