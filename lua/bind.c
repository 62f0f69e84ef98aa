/* bind.c: the border between Lua and the runtime: starts Lua, finds its modules among the project's
 * files, and gives scripts the module `lathe`. Decides nothing. */
#include "bind.h"
#include "start.h"

#include <lua-cjson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what the other files of the border use ---- */

int lt_bind_fail(lua_State *L, const lt_err *err)
{
    lua_pushnil(L);
    lua_pushstring(L, err->text);
    return 2;
}

int lt_bind_answer(lua_State *L, int failed, const lt_err *err)
{
    if (failed) return lt_bind_fail(L, err);
    lua_pushboolean(L, 1);
    return 1;
}

void *lt_bind_own(lua_State *L, size_t bytes, lua_CFunction release)
{
    void *p = lua_newuserdatauv(L, bytes, 0);
    memset(p, 0, bytes);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, release);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    return p;
}

static int free_bytes(lua_State *L)
{
    lt_bytes_clear(lua_touserdata(L, 1));
    return 0;
}

lt_bytes *lt_bind_bytes(lua_State *L)
{
    return lt_bind_own(L, sizeof(lt_bytes), free_bytes);
}

void lt_bind_lines(lua_State *L, lt_bytes *lines)
{
    const char *at = lines->ptr ? lines->ptr : "", *end = at + lines->len;
    lua_newtable(L);
    for (lua_Integer i = 1; at < end; i++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        lua_pushlstring(L, at, (size_t)(stop - at));
        lua_rawseti(L, -2, i);
        at = stop + 1;
    }
    lt_bytes_clear(lines);
}

void lt_bind_class(lua_State *L, const char *name, const luaL_Reg *methods)
{
    luaL_newmetatable(L, name);
    luaL_setfuncs(L, methods, 0);
    lua_pushvalue(L, -1);
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
}

lua_Integer lt_bind_field(lua_State *L, int index, const char *name, lua_Integer otherwise)
{
    int whole;
    const int type = lua_getfield(L, index, name);
    const lua_Integer value = lua_tointegerx(L, -1, &whole);
    if (type != LUA_TNIL && !whole) luaL_error(L, "field '%s' must be an integer", name);
    lua_pop(L, 1);
    return type == LUA_TNIL ? otherwise : value;
}

bool lt_bind_flag(lua_State *L, int index, const char *name)
{
    lua_getfield(L, index, name);
    const bool value = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return value;
}

/* The string of a field, which the table keeps. */
static lt_span text_field(lua_State *L, int index, const char *name)
{
    lt_span s;
    if (lua_getfield(L, index, name) != LUA_TSTRING) luaL_error(L, "field '%s' is missing", name);
    s.ptr = lua_tolstring(L, -1, &s.len);
    lua_pop(L, 1);
    return s;
}

static void read_params(lua_State *L, int index, lt_source *src, lt_param params[LT_MAX_PARAMS])
{
    if (lua_getfield(L, index, "params") != LUA_TTABLE) luaL_error(L, "field 'params' is missing");
    const int list = lua_gettop(L);
    src->param_count = (int)luaL_len(L, list);
    if (src->param_count > LT_MAX_PARAMS) luaL_error(L, "more than %d params", LT_MAX_PARAMS);
    for (int i = 0; i < src->param_count; i++) {
        lua_geti(L, list, i + 1);
        const lt_span name = text_field(L, -1, "name");
        if (name.len >= sizeof params[i].name) luaL_error(L, "param '%s' is too long", name.ptr);
        memcpy(params[i].name, name.ptr, name.len + 1);
        params[i].out = lt_bind_flag(L, -1, "out") || lt_bind_flag(L, -1, "scratch");
        lua_pop(L, 1);
    }
    src->params = params;
    lua_pop(L, 1);
}

void lt_bind_source(lua_State *L, int index, lt_source *src, lt_param params[LT_MAX_PARAMS])
{
    luaL_checktype(L, index, LUA_TTABLE);
    index = lua_absindex(L, index);
    *src = (lt_source){
        .name = text_field(L, index, "name").ptr,
        .arch = text_field(L, index, "arch").ptr,
        .text = text_field(L, index, "source"),
        .plain = text_field(L, index, "plain"),
        .model = (int)lt_bind_field(L, index, "model", 0),
    };
    if (lua_getfield(L, index, "launch") != LUA_TTABLE) luaL_error(L, "field 'launch' is missing");
    src->threads = (int)lt_bind_field(L, -1, "block", 0);
    src->cluster = (int)lt_bind_field(L, -1, "cluster", 0);
    lua_pop(L, 1);
    read_params(L, index, src, params);
}

/* ---- settings, files, small things ---- */

static int get_settings(lua_State *L)
{
    lua_createtable(L, LT_SETTINGS, 0);
    for (lt_setting s = 0; s < LT_SETTINGS; s++) {
        const lt_setting_info info = lt_config_info(s);
        const char *const fields[][2] = {{"name", info.name},
                                         {"env", info.env},
                                         {"value", info.value},
                                         {"source", info.source},
                                         {"help", info.help}};
        lua_createtable(L, 0, (int)lt_countof(fields));
        for (size_t i = 0; i < lt_countof(fields); i++) {
            lua_pushstring(L, fields[i][1]);
            lua_setfield(L, -2, fields[i][0]);
        }
        lua_rawseti(L, -2, (lua_Integer)s + 1);
    }
    return 1;
}

/* setting(name) -> its value, as text */
static int get_setting(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    for (lt_setting s = 0; s < LT_SETTINGS; s++) {
        if (strcmp(lt_config_info(s).name, name)) continue;
        lua_pushstring(L, lt_config_text(s));
        return 1;
    }
    return luaL_error(L, "no setting '%s'", name);
}

/* set(name, value) */
static int set_setting(lua_State *L)
{
    lt_err err = {{0}};
    const char *name = luaL_checkstring(L, 1);
    return lt_bind_answer(L, lt_config_set(name, luaL_checkstring(L, 2), &err), &err);
}

/* read(name) -> text */
static int read_file(lua_State *L)
{
    lt_err err = {{0}};
    const char *path = luaL_checkstring(L, 1);
    lt_bytes *text = lt_bind_bytes(L);
    if (lt_files_read(path, text, &err)) return lt_bind_fail(L, &err);
    lua_pushlstring(L, text->ptr ? text->ptr : "", text->len);
    lt_bytes_clear(text);
    return 1;
}

/* list(folder) -> sorted names */
static int list_files(lua_State *L)
{
    lt_err err = {{0}};
    const char *folder = luaL_checkstring(L, 1);
    lt_bytes *names = lt_bind_bytes(L);
    if (lt_files_list(folder, names, &err)) return lt_bind_fail(L, &err);
    lt_bind_lines(L, names);
    return 1;
}

static int get_time(lua_State *L)
{
    lua_pushnumber(L, lt_now_us());
    return 1;
}

/* debug(level, text): a line on stderr if LATHE_DEBUG is that high */
static int say_debug(lua_State *L)
{
    lt_debug((int)luaL_checkinteger(L, 1), "%s", luaL_checkstring(L, 2));
    return 0;
}

/* memory() -> bytes of this machine; 0: unknown */
static int get_memory(lua_State *L)
{
    const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    lua_pushinteger(L, pages > 0 && bytes > 0 ? (lua_Integer)pages * bytes : 0);
    return 1;
}

/* sha256(text) -> 64 digits */
static int get_sha256(lua_State *L)
{
    lt_span text;
    char digits[65];
    text.ptr = luaL_checklstring(L, 1, &text.len);
    lt_sha256_hex(text, digits);
    lua_pushstring(L, digits);
    return 1;
}

/* Does a person watch stderr? */
static int is_watched(lua_State *L)
{
    lua_pushboolean(L, isatty(STDERR_FILENO));
    return 1;
}

static const luaL_Reg functions[] = {
    {"settings", get_settings},
    {"setting", get_setting},
    {"set", set_setting},
    {"read", read_file},
    {"list", list_files},
    {"memory", get_memory},
    {"now_us", get_time},
    {"is_watched", is_watched},
    {"sha256", get_sha256},
    {"debug", say_debug},
    {NULL, NULL},
};

static int open_lathe(lua_State *L)
{
    luaL_newlib(L, functions);
    lua_pushliteral(L, LT_VERSION);
    lua_setfield(L, -2, "version");
    lt_bind_add_arrays(L);
    lt_bind_add_devices(L);
    lt_bind_add_cache(L);
    lt_bind_add_records(L);
    lt_bind_add_workers(L);
    lt_bind_add_weights(L);
    lt_bind_add_tokenizer(L);
    lt_bind_add_logits(L);
    lt_bind_add_whole(L);
    return 1;
}

/* ---- modules ---- */

/* gen.emit -> gen/emit.lua; argparse -> lib/argparse.lua */
static int search_module(lua_State *L)
{
    const char *module = luaL_checkstring(L, 1);
    const char *path = luaL_gsub(L, module, ".", "/");
    path = lua_pushfstring(L, "%s%s.lua", strchr(path, '/') ? "" : "lib/", path);
    lt_err err = {{0}};
    const char *chunk = lua_pushfstring(L, "@%s", path);
    lt_bytes *text = lt_bind_bytes(L);
    if (lt_files_read(path, text, &err)) {
        lua_pushstring(L, err.text); /* nobody looks further: every module is ours */
        return lua_error(L);
    }
    const int failed = luaL_loadbufferx(L, text->ptr ? text->ptr : "", text->len, chunk, "t");
    lt_bytes_clear(text);
    if (failed) return lua_error(L);
    lua_pushstring(L, path);
    return 2;
}

/* Leaves `preload` and our own as the only ways to find a module. */
static void set_searchers(lua_State *L)
{
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "searchers");
    lua_createtable(L, 2, 0);
    lua_rawgeti(L, -2, 1);
    lua_rawseti(L, -2, 1);
    lua_pushcfunction(L, search_module);
    lua_rawseti(L, -2, 2);
    lua_setfield(L, -3, "searchers");
    lua_pop(L, 2);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
    lua_pushcfunction(L, open_lathe);
    lua_setfield(L, -2, "lathe");
    lua_pushcfunction(L, luaopen_cjson);
    lua_setfield(L, -2, "cjson");
    lua_pop(L, 1);
}

/* ---- Ctrl-C and the like: the running script ends with an error at its next line, so that what it
 * holds is closed; a second one ends the program at once ---- */

static const int interrupts[] = {SIGINT, SIGTERM, SIGHUP};
static lua_State *running;                /* what the handler, which gets no context, interrupts */
static volatile sig_atomic_t interrupted; /* by which signal; 0: by none */

static void raise_interrupt(lua_State *L, lua_Debug *where)
{
    (void)where;
    lua_sethook(L, NULL, 0, 0);
    lua_pushliteral(L, "interrupted");
    lua_error(L);
}

static void on_interrupt(int number)
{
    signal(number, SIG_DFL);
    interrupted = number;
    lua_sethook(running, raise_interrupt, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT,
                1);
}

/* A signal that was ignored from the start (nohup) stays so. */
static void listen(void (*handler)(int))
{
    for (size_t i = 0; i < lt_countof(interrupts); i++)
        if (signal(interrupts[i], handler) == SIG_IGN) signal(interrupts[i], SIG_IGN);
}

/* ---- the run ---- */

static bool begins(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

/* Adds where a bug happened; sentences for the user stay as they are. What fails in gen/ because an
 * author gave it nonsense is the author's. */
static int add_place(lua_State *L)
{
    if (lua_istable(L, 1) && lua_getfield(L, 1, "text") == LUA_TSTRING) {
        lua_settop(L, 1); /* of lua/fault.lua */
        return 1;
    }
    lua_settop(L, 1);
    const bool has_text = lua_type(L, 1) == LUA_TSTRING;
    const char *text = has_text ? lua_tostring(L, 1) : "an error without a sentence";
    if (has_text && !begins(text, "lua/") && !begins(text, "lib/") && !begins(text, "gen/"))
        return 1;
    lua_Debug author;
    if (lt_limit_find_author(L, &author))
        lua_pushfstring(L, "%s:%d: %s", author.source + 1, author.currentline, text);
    else
        luaL_traceback(L, L, text, 1);
    return 1;
}

/* Prints the error on top of the stack of what the words asked for; the exit code it stands for. */
static int print_error(lua_State *L, int status, const char *asked, const lt_limits *limits)
{
    int code = 2;
    if (status == LUA_ERRMEM && *limits->refused) {
        fprintf(stderr, "lathe: %s\n", limits->refused);
        return 2;
    }
    if (status == LUA_ERRMEM) {
        fprintf(stderr, "lathe: %s: out of memory\n", asked);
        return 3;
    }
    if (lua_istable(L, -1)) {
        code = (int)lt_bind_field(L, -1, "code", 2);
        lua_getfield(L, -1, "text");
    }
    const char *text = luaL_tolstring(L, -1, NULL);
    const bool is_bug = strstr(text, "\nstack traceback:") != NULL;
    fprintf(stderr, "lathe: %s%s\n", is_bug ? "a bug of the program: " : "", text);
    return is_bug ? 3 : code;
}

/* The exit code of a program that ends with `code` when all that it wrote is there. */
static int flush_stdout(int code)
{
    if (!fflush(stdout) && !ferror(stdout)) return code;
    fprintf(stderr, "lathe: stdout: cannot be written (is the disk full?)\n");
    return code ? code : 3;
}

/* os.exit(code): how --help and --version end */
static int end_program(lua_State *L)
{
    exit(flush_stdout((int)luaL_checkinteger(L, 1)));
}

/* Runs under lua_pcall: argc, argv -> exit code */
static int run(lua_State *L)
{
    const int argc = (int)lua_tointeger(L, 1);
    char **argv = lua_touserdata(L, 2);
    luaL_openlibs(L);
    lua_getglobal(L, "os");
    lua_pushcfunction(L, end_program);
    lua_setfield(L, -2, "exit");
    lua_pop(L, 1);
    set_searchers(L);
    lua_getglobal(L, "require");
    lua_pushliteral(L, "lua.cli");
    lua_call(L, 1, 1);
    lua_createtable(L, argc, 0);
    for (int i = 1; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i);
    }
    lua_call(L, 1, 1);
    return 1;
}

int lt_start(int argc, char **argv)
{
    lt_limits limits;
    lua_State *L = lt_limit_open(&limits);
    if (!L) {
        fprintf(stderr, "lathe: lua: out of memory\n");
        return 3;
    }
    running = L;
    listen(on_interrupt);
    lua_pushcfunction(L, add_place);
    lua_pushcfunction(L, run);
    lua_pushinteger(L, argc);
    lua_pushlightuserdata(L, argv);
    const int failed = lua_pcall(L, 2, 1, 1);
    listen(SIG_DFL);
    int code = 0;
    if (!failed) code = (int)lua_tointeger(L, -1);
    if (failed && !interrupted)
        code = print_error(L, failed, argc > 1 ? argv[1] : "command line", &limits);
    lt_limit_close(&limits);
    lt_device_close_ahead();
    lt_jit_close();
    code = flush_stdout(code);
    if (failed && interrupted) raise(interrupted); /* so that the shell knows why it ended */
    return code;
}
