/* bind_tokenizer.c: tokenizers for Lua, which reads their files: lua/tokenizer.lua. */
#include "bind.h"

#include "../runtime/tokenizer.h"

#include <limits.h>
#include <string.h>

#define TOKENIZER "lathe.tokenizer"
#define STREAM "lathe.stream"

typedef struct {
    lt_tokenizer *tokenizer; /* NULL once freed */
    bool ready;
    lt_ids ids; /* scratch, here so that an error of Lua's leaks nothing */
    lt_bytes text;
} holder;

typedef struct {
    lt_utf8_stream stream;
    lt_bytes text; /* scratch */
} flow;            /* its user value is the tokenizer */

static int new_tokenizer(lua_State *L)
{
    lt_err err = {{0}};
    holder *h = lua_newuserdatauv(L, sizeof *h, 0);
    *h = (holder){.ready = false};
    luaL_setmetatable(L, TOKENIZER);
    if (lt_tokenizer_new(&h->tokenizer, &err)) return lt_bind_fail(L, &err);
    return 1;
}

static int free_tokenizer(lua_State *L)
{
    holder *h = luaL_checkudata(L, 1, TOKENIZER);
    lt_tokenizer_free(h->tokenizer);
    lt_ids_clear(&h->ids);
    lt_bytes_clear(&h->text);
    h->tokenizer = NULL;
    return 0;
}

static holder *check_tokenizer(lua_State *L, int index, bool ready)
{
    holder *h = luaL_checkudata(L, index, TOKENIZER);
    if (!h->tokenizer) luaL_error(L, "the tokenizer was freed");
    if (h->ready != ready) luaL_error(L, ready ? "the tokenizer is not ready" : "it is ready");
    return h;
}

static lt_span check_span(lua_State *L, int index)
{
    lt_span s;
    s.ptr = luaL_checklstring(L, index, &s.len);
    return s;
}

/* ---- filling ---- */

/* The id that is on top, as JSON gives it: any number. */
static int read_id(lua_State *L, int *id, lt_err *err)
{
    int whole;
    const lua_Integer value = lua_tointegerx(L, -1, &whole);
    if (lua_type(L, -1) != LUA_TNUMBER || !whole || value < 0 || value >= LT_TOKENIZER_IDS)
        return lt_fail(err, "id is not a whole number from 0 to %d", LT_TOKENIZER_IDS - 1);
    *id = (int)value;
    return 0;
}

/* tokenizer:add_vocabulary({ text = id, ... }) */
static int add_vocabulary(lua_State *L)
{
    lt_err err = {{0}};
    int id;
    char shown[LT_UTF8_SHOWN];
    const holder *h = check_tokenizer(L, 1, false);
    luaL_checktype(L, 2, LUA_TTABLE);
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING) return luaL_error(L, "a text is needed for a key");
        const lt_span text = check_span(L, -2);
        if (read_id(L, &id, &err)) {
            lt_wrap(&err, "vocabulary: '%s'", lt_utf8_show(shown, text));
            return lt_bind_fail(L, &err);
        }
        if (lt_tokenizer_add_token(h->tokenizer, id, text, &err)) return lt_bind_fail(L, &err);
    }
    return lt_bind_answer(L, 0, &err);
}

/* Reads the merge on top, "left right" or { left, right }, whose table keeps the strings. */
static int read_merge(lua_State *L, lt_span part[2], lt_err *err)
{
    if (lua_type(L, -1) == LUA_TSTRING) {
        const lt_span both = check_span(L, -1);
        const char *text = both.ptr, *space = memchr(text, ' ', both.len);
        const size_t left = space ? (size_t)(space - text) : both.len;
        if (!space || memchr(space + 1, ' ', both.len - left - 1))
            return lt_fail(err, "is not two texts with a space between them");
        part[0] = (lt_span){text, left};
        part[1] = (lt_span){space + 1, both.len - left - 1};
        return 0;
    }
    if (!lua_istable(L, -1) || lua_rawlen(L, -1) != 2)
        return lt_fail(err, "is not a pair of texts");
    for (int side = 0; side < 2; side++) {
        if (lua_rawgeti(L, -1, side + 1) != LUA_TSTRING)
            return lt_fail(err, "is not a pair of texts");
        part[side] = check_span(L, -1);
        lua_pop(L, 1);
    }
    return 0;
}

/* tokenizer:add_merges({ "left right" or { left, right }, ... }) */
static int add_merges(lua_State *L)
{
    lt_err err = {{0}};
    lt_span part[2];
    const holder *h = check_tokenizer(L, 1, false);
    luaL_checktype(L, 2, LUA_TTABLE);
    const lua_Integer count = luaL_len(L, 2);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_rawgeti(L, 2, i);
        if (read_merge(L, part, &err) ||
            lt_tokenizer_add_merge(h->tokenizer, part[0], part[1], &err)) {
            lt_wrap(&err, "merges: number %lld", (long long)i);
            return lt_bind_fail(L, &err);
        }
        lua_settop(L, 2);
    }
    return lt_bind_answer(L, 0, &err);
}

/* tokenizer:add_token({ id =, content =, special =, normalized =, lstrip =, rstrip = }) */
static int add_token(lua_State *L)
{
    lt_err err = {{0}};
    const holder *h = check_tokenizer(L, 1, false);
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_getfield(L, 2, "content"); /* stays, and so does its text */
    lt_added a = {.text = check_span(L, -1),
                  .special = lt_bind_flag(L, 2, "special"),
                  .normalized = lt_bind_flag(L, 2, "normalized"),
                  .lstrip = lt_bind_flag(L, 2, "lstrip"),
                  .rstrip = lt_bind_flag(L, 2, "rstrip")};
    lua_getfield(L, 2, "id");
    return lt_bind_answer(
        L, read_id(L, &a.id, &err) || lt_tokenizer_add_added(h->tokenizer, &a, &err), &err);
}

/* tokenizer:add_split(pattern, "all" | "matches" | "gaps") */
static int add_split(lua_State *L)
{
    static const char *const kinds[] = {"all", "matches", "gaps", NULL};
    static const lt_split values[] = {LT_SPLIT_ALL, LT_SPLIT_MATCHES, LT_SPLIT_GAPS};
    lt_err err = {{0}};
    const holder *h = check_tokenizer(L, 1, false);
    const lt_split keep = values[luaL_checkoption(L, 3, NULL, kinds)];
    return lt_bind_answer(L, lt_tokenizer_add_split(h->tokenizer, check_span(L, 2), keep, &err),
                          &err);
}

static int add_space(lua_State *L)
{
    lt_err err = {{0}};
    return lt_bind_answer(L, lt_tokenizer_add_space(check_tokenizer(L, 1, false)->tokenizer, &err),
                          &err);
}

static int set_ignore_merges(lua_State *L)
{
    lt_tokenizer_set_ignore_merges(check_tokenizer(L, 1, false)->tokenizer, lua_toboolean(L, 2));
    return 0;
}

static int set_nfc(lua_State *L)
{
    lt_tokenizer_set_nfc(check_tokenizer(L, 1, false)->tokenizer, lua_toboolean(L, 2));
    return 0;
}

static int make_ready(lua_State *L)
{
    lt_err err = {{0}};
    holder *h = check_tokenizer(L, 1, false);
    const int failed = lt_tokenizer_ready(h->tokenizer, &err);
    h->ready = !failed;
    return lt_bind_answer(L, failed, &err);
}

/* ---- use ---- */

/* tokenizer:encode(text) -> { id, ... } */
static int encode(lua_State *L)
{
    lt_err err = {{0}};
    holder *h = check_tokenizer(L, 1, true);
    h->ids.count = 0;
    if (lt_tokenizer_encode(h->tokenizer, check_span(L, 2), &h->ids, &err))
        return lt_bind_fail(L, &err);
    lua_createtable(L, h->ids.count < INT_MAX ? (int)h->ids.count : 0, 0);
    for (size_t i = 0; i < h->ids.count; i++) {
        lua_pushinteger(L, h->ids.at[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

/* Ids that no tokenizer has are -1. */
static int check_id(lua_State *L, int index)
{
    const lua_Integer id = luaL_checkinteger(L, index);
    return id < 0 || id >= LT_TOKENIZER_IDS ? -1 : (int)id;
}

/* tokenizer:bytes({ id, ... }) -> what they stand for, which need not be UTF-8 */
static int get_bytes(lua_State *L)
{
    lt_err err = {{0}};
    holder *h = check_tokenizer(L, 1, true);
    luaL_checktype(L, 2, LUA_TTABLE);
    h->text.len = 0;
    const lua_Integer count = luaL_len(L, 2);
    for (lua_Integer i = 1; i <= count; i++) {
        lua_geti(L, 2, i);
        const int32_t id = check_id(L, -1);
        if (lt_tokenizer_decode(h->tokenizer, &id, 1, &h->text, &err)) return lt_bind_fail(L, &err);
        lua_pop(L, 1);
    }
    lua_pushlstring(L, h->text.ptr ? h->text.ptr : "", h->text.len);
    return 1;
}

static int get_count(lua_State *L)
{
    lua_pushinteger(L, lt_tokenizer_count(check_tokenizer(L, 1, true)->tokenizer));
    return 1;
}

static int is_special(lua_State *L)
{
    const holder *h = check_tokenizer(L, 1, true);
    lua_pushboolean(L, lt_tokenizer_is_special(h->tokenizer, check_id(L, 2)));
    return 1;
}

/* tokenizer:find(text) -> id of the added token, or nil */
static int find_token(lua_State *L)
{
    const holder *h = check_tokenizer(L, 1, true);
    const int id = lt_tokenizer_find(h->tokenizer, check_span(L, 2));
    if (id < 0) return 0;
    lua_pushinteger(L, id);
    return 1;
}

/* ---- streams ---- */

/* tokenizer:stream() */
static int open_stream(lua_State *L)
{
    check_tokenizer(L, 1, true);
    flow *f = lua_newuserdatauv(L, sizeof *f, 1);
    *f = (flow){.text = {0}};
    luaL_setmetatable(L, STREAM);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return 1;
}

static int free_stream(lua_State *L)
{
    flow *f = luaL_checkudata(L, 1, STREAM);
    lt_bytes_clear(&f->text);
    return 0;
}

static int push_text(lua_State *L, const flow *f)
{
    lua_pushlstring(L, f->text.ptr ? f->text.ptr : "", f->text.len);
    return 1;
}

/* stream:push(id) -> the characters that it completes, often none */
static int push_id(lua_State *L)
{
    lt_err err = {{0}};
    flow *f = luaL_checkudata(L, 1, STREAM);
    lua_getiuservalue(L, 1, 1);
    const holder *h = check_tokenizer(L, -1, true);
    f->text.len = 0;
    if (lt_tokenizer_push(h->tokenizer, &f->stream, check_id(L, 2), &f->text, &err))
        return lt_bind_fail(L, &err);
    return push_text(L, f);
}

/* stream:finish() -> a mark for a character that is not whole, or nothing */
static int finish_stream(lua_State *L)
{
    lt_err err = {{0}};
    flow *f = luaL_checkudata(L, 1, STREAM);
    f->text.len = 0;
    if (lt_utf8_finish(&f->stream, &f->text, &err)) return lt_bind_fail(L, &err);
    return push_text(L, f);
}

static const luaL_Reg tokenizer_methods[] = {
    {"add_vocabulary", add_vocabulary},
    {"add_merges", add_merges},
    {"add_token", add_token},
    {"add_split", add_split},
    {"add_space", add_space},
    {"set_ignore_merges", set_ignore_merges},
    {"set_nfc", set_nfc},
    {"ready", make_ready},
    {"encode", encode},
    {"bytes", get_bytes},
    {"count", get_count},
    {"is_special", is_special},
    {"find", find_token},
    {"stream", open_stream},
    {"free", free_tokenizer},
    {"__close", free_tokenizer},
    {"__gc", free_tokenizer},
    {NULL, NULL},
};

static const luaL_Reg stream_methods[] = {
    {"push", push_id},        {"finish", finish_stream}, {"free", free_stream},
    {"__close", free_stream}, {"__gc", free_stream},     {NULL, NULL},
};

static const luaL_Reg functions[] = {{"tokenizer", new_tokenizer}, {NULL, NULL}};

void lt_bind_add_tokenizer(lua_State *L)
{
    lt_bind_class(L, TOKENIZER, tokenizer_methods);
    lt_bind_class(L, STREAM, stream_methods);
    luaL_setfuncs(L, functions, 0);
}
