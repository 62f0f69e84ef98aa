/* tokenizer_file.c: lua/tokenizer.lua and its border in a Lua of their own: the fixture of an
 * independent implementation, and files with faults at random places, of which none may crash. */
#include "lua/bind.h"

#include <lua-cjson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % below;
}

static int open_lathe(lua_State *L)
{
    lua_newtable(L);
    lt_bind_add_tokenizer(L);
    return 1;
}

static int open_lua(void **state)
{
    lua_State *L = luaL_newstate();
    if (!L) return -1;
    luaL_openlibs(L);
    luaL_requiref(L, "lathe", open_lathe, 0);
    luaL_requiref(L, "cjson", luaopen_cjson, 0);
    lua_settop(L, 0);
    *state = L;
    return luaL_dostring(L, "package.path = './?.lua'");
}

static int close_lua(void **state)
{
    lua_close(*state);
    return 0;
}

/* Calls require(module)[name]() and gives the integer that it returns. */
static lua_Integer call(lua_State *L, const char *name)
{
    lua_settop(L, 0);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tests.tokenizer.check");
    if (lua_pcall(L, 1, 1, 0)) fail_msg("%s", lua_tostring(L, -1));
    lua_getfield(L, -1, name);
    if (lua_pcall(L, 0, 1, 0)) fail_msg("%s", luaL_tolstring(L, -1, NULL));
    return lua_tointeger(L, -1);
}

static void texts_give_the_ids_of_an_independent_implementation(void **state)
{
    assert_true(call(*state, "encode") > 1500);
}

static void ids_give_the_bytes_of_the_text(void **state)
{
    assert_true(call(*state, "bytes") > 300);
}

static void streams_give_the_text_of_an_independent_implementation(void **state)
{
    assert_true(call(*state, "decode") > 100);
}

/* Loads the text of a file and, where that succeeds, uses what it gave. A fault is a table with a
 * sentence; anything else that is raised is a bug. */
static const char use_file[] =
    "local parse = require('lua.tokenizer').parse\n"
    "local function use(text)\n"
    "    local t = parse(text)\n"
    "    local ids = t:encode('<|user|> The 123 don\\'t \\u{e9}\\u{4e00}\\u{1f600}\\n\\n "
    "x<mask>')\n"
    "    local stream <close> = t:stream()\n"
    "    for _, id in ipairs(ids or {}) do assert(stream:push(id)) end\n"
    "    t:free()\n"
    "    return 'used'\n"
    "end\n"
    "return function(text)\n"
    "    local fine, what = pcall(use, text)\n"
    "    if fine then return what end\n"
    "    assert(type(what) == 'table' and not what.text:find('\\n'), what)\n"
    "    assert(what.text:find('^tokenizer.json: '), what.text)\n"
    "    return what.text\n"
    "end\n";

static const char *const values[] = {
    "null",
    "true",
    "-1",
    "0.5",
    "1e999",
    "5",
    "\"\"",
    "\"a b\"",
    "\"\\u0000\"",
    "\"\xff\"",
    "[]",
    "{}",
    "[[]]",
    "\"NFC\"",
    "\"Split\"",
    "\"[\"",
    "{\"type\":\"Sequence\"}",
    "[\"a\",\"b\"]",
    "4194303",
    "\"(?:a|b)*\"",
};

/* Replaces one value of the JSON text, flips a byte, or cuts the rest off. */
static void damage(lt_bytes *text)
{
    lt_err err = {{0}};
    lt_bytes out = {0};
    size_t from = draw((uint32_t)text->len);
    const uint32_t way = draw(8);
    if (way == 0) text->len = from;
    if (way == 1) text->ptr[from] ^= (char)(1 << draw(8));
    if (way < 2) return;
    if (way < 7) from = draw(2200); /* all that stands in front of the vocabulary */
    while (from < text->len && !strchr(":[", text->ptr[from])) from++;
    if (from == text->len) return;
    size_t to = ++from;
    to += strcspn(text->ptr + to, ",]}");
    const char *value = values[draw((uint32_t)lt_countof(values))];
    assert_int_equal(lt_bytes_append(&out, text->ptr, from, &err), 0);
    assert_int_equal(lt_bytes_append(&out, value, strlen(value), &err), 0);
    assert_int_equal(lt_bytes_append(&out, text->ptr + to, text->len - to, &err), 0);
    lt_bytes_clear(text);
    *text = out;
}

static void read_file(lt_bytes *out)
{
    char part[4096];
    lt_err err = {{0}};
    FILE *f = fopen("tests/tokenizer/tokenizer.json", "rb");
    assert_non_null(f);
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        assert_int_equal(lt_bytes_append(out, part, n, &err), 0);
    assert_int_equal(fclose(f), 0);
}

static void a_damaged_file_is_refused_with_one_sentence_or_used(void **state)
{
    lua_State *L = *state;
    lt_err err = {{0}};
    lt_bytes whole = {0};
    int used = 0, refused = 0;
    lua_settop(L, 0);
    if (luaL_dostring(L, use_file)) fail_msg("%s", lua_tostring(L, -1));
    read_file(&whole);
    for (int round = 0; round < 800; round++) {
        lt_bytes text = {0};
        assert_int_equal(lt_bytes_append(&text, whole.ptr, whole.len, &err), 0);
        for (uint32_t n = round ? 1 + draw(2) : 0; n > 0 && text.len > 2200; n--) damage(&text);
        lua_pushvalue(L, 1);
        lua_pushlstring(L, text.ptr, text.len);
        lt_bytes_clear(&text);
        if (lua_pcall(L, 1, 1, 0)) fail_msg("%s", luaL_tolstring(L, -1, NULL));
        const bool fine = !strcmp(lua_tostring(L, -1), "used");
        if (round == 0 && !fine) fail_msg("the whole file: %s", lua_tostring(L, -1));
        used += fine;
        refused += !fine;
        lua_settop(L, 1);
    }
    lt_bytes_clear(&whole);
    assert_true(used > 20 && refused > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_give_the_ids_of_an_independent_implementation),
        cmocka_unit_test(ids_give_the_bytes_of_the_text),
        cmocka_unit_test(streams_give_the_text_of_an_independent_implementation),
        cmocka_unit_test(a_damaged_file_is_refused_with_one_sentence_or_used),
    };
    return cmocka_run_group_tests(tests, open_lua, close_lua);
}
