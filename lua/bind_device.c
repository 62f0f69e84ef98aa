/* bind_device.c: devices, their memory and their kernels for Lua. Buffers and kernels keep their
 * device alive. */
#include "bind.h"

#include <string.h>

#define DEVICE "lathe.device"
#define BUFFER "lathe.buffer"
#define KERNEL "lathe.kernel"
#define PROGRAM "lathe.program"

enum { MAX_STEPS = 8192 }; /* of a sequence; a token of the full model takes 1,500 */

typedef struct {
    lt_device *dev;
} device;

typedef struct {
    lt_device *dev;
    lt_buffer *buf; /* NULL once freed */
} buffer;

typedef struct {
    lt_device *dev;
    lt_kernel *kernel; /* NULL once freed */
} kernel;

typedef struct {
    lt_device *dev;
    lt_program *program; /* NULL once freed */
} program;

/* ---- devices ---- */

/* device(name) */
static int open_device(lua_State *L)
{
    lt_err err = {{0}};
    device *d = lua_newuserdatauv(L, sizeof *d, 0);
    d->dev = NULL;
    luaL_setmetatable(L, DEVICE);
    if (lt_device_open(&d->dev, luaL_checkstring(L, 1), &err)) return lt_bind_fail(L, &err);
    return 1;
}

/* open_ahead(): device("") will follow */
static int open_ahead(lua_State *L)
{
    (void)L;
    lt_device_open_ahead();
    return 0;
}

static int collect_device(lua_State *L)
{
    device *d = luaL_checkudata(L, 1, DEVICE);
    lt_device_close(d->dev);
    d->dev = NULL;
    return 0;
}

static lt_device *check_device(lua_State *L)
{
    return ((device *)luaL_checkudata(L, 1, DEVICE))->dev;
}

static int get_info(lua_State *L)
{
    const lt_device_info *info = lt_device_describe(check_device(L));
    const char *const texts[][2] = {{"name", info->name},
                                    {"model", info->model},
                                    {"key", info->key},
                                    {"arch", info->arch},
                                    {"driver", info->driver}};
    lua_createtable(L, 0, 7);
    for (size_t i = 0; i < lt_countof(texts); i++) {
        lua_pushstring(L, texts[i][1]);
        lua_setfield(L, -2, texts[i][0]);
    }
    lua_pushinteger(L, info->sms);
    lua_setfield(L, -2, "sms");
    lua_pushinteger(L, (lua_Integer)info->memory);
    lua_setfield(L, -2, "memory");
    return 1;
}

/* device:play{ order =, lazy =, left = } */
static int play(lua_State *L)
{
    lt_err err = {{0}};
    luaL_checktype(L, 2, LUA_TTABLE);
    const lt_play p = {(int)lt_bind_field(L, 2, "order", 0), lt_bind_flag(L, 2, "lazy"),
                       lt_bind_flag(L, 2, "left")};
    return lt_bind_answer(L, lt_device_play(check_device(L), &p, &err), &err);
}

static int sync_device(lua_State *L)
{
    lt_err err = {{0}};
    return lt_bind_answer(L, lt_device_sync(check_device(L), &err), &err);
}

/* ---- buffers ---- */

/* device:alloc(bytes): every byte is 0xff */
static int alloc_buffer(lua_State *L)
{
    lt_err err = {{0}};
    lt_device *dev = check_device(L);
    const lua_Integer bytes = luaL_checkinteger(L, 2);
    if (bytes < 0) return luaL_error(L, "a buffer of %I bytes is asked for", bytes);
    buffer *b = lua_newuserdatauv(L, sizeof *b, 1);
    *b = (buffer){dev, NULL};
    luaL_setmetatable(L, BUFFER);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    if (lt_device_alloc(dev, (size_t)bytes, &b->buf, &err)) return lt_bind_fail(L, &err);
    return 1;
}

static int free_buffer(lua_State *L)
{
    buffer *b = luaL_checkudata(L, 1, BUFFER);
    if (b->buf) lt_device_free(b->dev, b->buf);
    b->buf = NULL;
    return 0;
}

static buffer *check_buffer(lua_State *L, int index)
{
    buffer *b = luaL_checkudata(L, index, BUFFER);
    if (!b->buf) luaL_error(L, "the buffer was freed");
    return b;
}

/* buffer:write(array, offset in bytes or nil) */
static int write_buffer(lua_State *L)
{
    lt_err err = {{0}};
    const buffer *b = check_buffer(L, 1);
    const lt_array *a = lt_bind_array(L, 2);
    const lt_span from = {a->data, a->count * lt_ctype_bytes(a->type)};
    const size_t offset = (size_t)luaL_optinteger(L, 3, 0);
    return lt_bind_answer(L, lt_device_write(b->dev, b->buf, offset, from, &err), &err);
}

/* buffer:read(array, offset in bytes or nil) */
static int read_buffer(lua_State *L)
{
    lt_err err = {{0}};
    const buffer *b = check_buffer(L, 1);
    const lt_array *a = lt_bind_array(L, 2);
    const size_t bytes = a->count * lt_ctype_bytes(a->type);
    const size_t offset = (size_t)luaL_optinteger(L, 3, 0);
    return lt_bind_answer(L, lt_device_read(b->dev, b->buf, offset, a->data, bytes, &err), &err);
}

/* buffer:fill(byte) */
static int fill_buffer(lua_State *L)
{
    lt_err err = {{0}};
    const buffer *b = check_buffer(L, 1);
    const int byte = (int)luaL_checkinteger(L, 2);
    return lt_bind_answer(L, lt_device_fill(b->dev, b->buf, byte, &err), &err);
}

/* ---- kernels ---- */

static const char *const origins[] = {
    [LT_FROM_CACHE] = "cache",
    [LT_FROM_COMPILER] = "compiler",
    [LT_FROM_OLDER_COMPILER] = "older compiler",
};

void lt_bind_report(lua_State *L, const lt_jit_report *r)
{
    const struct {
        const char *name;
        lua_Integer value;
    } facts[] = {{"registers", r->facts.registers},
                 {"stack_bytes", r->facts.stack_bytes},
                 {"shared_bytes", r->facts.shared_bytes},
                 {"spills", r->facts.spills},
                 {"image_bytes", (lua_Integer)r->facts.image_bytes}};
    lua_createtable(L, 0, 9);
    for (size_t i = 0; i < lt_countof(facts); i++) {
        lua_pushinteger(L, facts[i].value);
        lua_setfield(L, -2, facts[i].name);
    }
    lua_pushstring(L, r->code);
    lua_setfield(L, -2, "code");
    lua_pushstring(L, origins[r->origin]);
    lua_setfield(L, -2, "origin");
    lua_pushnumber(L, r->compile_ms);
    lua_setfield(L, -2, "compile_ms");
    lua_pushstring(L, r->key);
    lua_setfield(L, -2, "key");
}

/* Pushes what owns a kernel, or is to; the device is at index 1. */
static kernel *push_kernel(lua_State *L, lt_device *dev, lt_kernel *loaded)
{
    kernel *k = lua_newuserdatauv(L, sizeof *k, 1);
    *k = (kernel){dev, loaded};
    luaL_setmetatable(L, KERNEL);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    return k;
}

/* device:load(kernel of gen/emit.lua) -> kernel, report */
static int load_kernel(lua_State *L)
{
    lt_err err = {{0}};
    lt_device *dev = check_device(L);
    lt_source src;
    lt_param params[LT_MAX_PARAMS];
    lt_jit_report report = {0};
    lt_bind_source(L, 2, &src, params);
    kernel *k = push_kernel(L, dev, NULL);
    if (lt_jit_load(dev, &src, &k->kernel, &report, &err)) return lt_bind_fail(L, &err);
    lt_bind_report(L, &report);
    return 2;
}

/* device:load_all(kernels of gen/emit.lua, progress(done, count) or nil) -> kernels, reports; false
 * in place of one that failed, whose report has `failed` */
static int load_kernels(lua_State *L)
{
    lt_device *dev = check_device(L);
    size_t count;
    lt_build *builds = lt_bind_build(L, dev, &count);
    if (!builds) return 2;
    lua_createtable(L, (int)count, 0);
    for (size_t i = 0; i < count; i++) {
        if (builds[i].failed)
            lua_pushboolean(L, 0);
        else
            push_kernel(L, dev, builds[i].kernel);
        builds[i].kernel = NULL; /* it is that one's now */
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    lua_insert(L, -2);
    return 2;
}

static int free_kernel(lua_State *L)
{
    kernel *k = luaL_checkudata(L, 1, KERNEL);
    if (k->kernel) lt_kernel_unload(k->dev, k->kernel);
    k->kernel = NULL;
    return 0;
}

/* { grid = { x, y, z }, block =, shared =, programmatic = flag } */
static lt_launch read_launch(lua_State *L, int index)
{
    lt_launch l = {.block = {0, 1, 1}};
    luaL_checktype(L, index, LUA_TTABLE);
    l.block[0] = (unsigned)lt_bind_field(L, index, "block", 0);
    l.shared = (unsigned)lt_bind_field(L, index, "shared", 0);
    l.programmatic = lt_bind_flag(L, index, "programmatic");
    if (lua_getfield(L, index, "grid") != LUA_TTABLE) luaL_error(L, "field 'grid' is missing");
    for (int i = 0; i < 3; i++) {
        lua_geti(L, -1, i + 1);
        l.grid[i] = (unsigned)luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return l;
}

/* A buffer on top of the stack, or { buffer, offset in bytes }. */
static lt_arg read_arg(lua_State *L, const lt_device *dev)
{
    lua_Integer offset = 0;
    const int at = lua_gettop(L);
    if (lua_istable(L, at)) {
        lua_geti(L, at, 2);
        offset = luaL_checkinteger(L, -1);
        lua_geti(L, at, 1);
    }
    const buffer *b = check_buffer(L, lua_gettop(L));
    if (b->dev != dev) luaL_error(L, "a buffer of another device");
    lua_settop(L, at);
    return (lt_arg){b->buf, (size_t)offset};
}

/* A list of buffers of device dev. */
static void read_args(lua_State *L, int index, const lt_device *dev, lt_arg args[LT_MAX_PARAMS])
{
    const lua_Integer count = luaL_len(L, index);
    if (count > LT_MAX_PARAMS) luaL_error(L, "more than %d arguments", LT_MAX_PARAMS);
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, index, i + 1);
        args[i] = read_arg(L, dev);
        lua_pop(L, 1);
    }
}

static lt_kernel *check_kernel(lua_State *L, int index, const lt_device *dev)
{
    const kernel *k = luaL_checkudata(L, index, KERNEL);
    if (!k->kernel || k->dev != dev) luaL_error(L, "the kernel was freed or is another device's");
    return k->kernel;
}

/* Block numbers of a list, in memory that Lua owns, which is left on the stack. */
static void read_blocks(lua_State *L, int index, lt_launch *l)
{
    const lua_Integer count = luaL_len(L, index);
    unsigned *blocks = lua_newuserdatauv(L, (size_t)(count + 1) * sizeof *blocks, 0);
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, index, i + 1);
        blocks[i] = (unsigned)luaL_checkinteger(L, -1);
        lua_pop(L, 1);
    }
    l->sample = blocks;
    l->samples = (size_t)count;
}

/* device:launch(kernel, launch, buffers, blocks or nil): waits until it has ended */
static int launch(lua_State *L)
{
    lt_err err = {{0}};
    lt_device *dev = check_device(L);
    lt_kernel *k = check_kernel(L, 2, dev);
    lt_launch l = read_launch(L, 3);
    lt_arg args[LT_MAX_PARAMS] = {0};
    read_args(L, 4, dev, args);
    if (lua_istable(L, 5)) read_blocks(L, 5, &l);
    const int failed = lt_device_launch(dev, k, &l, args, &err) || lt_device_sync(dev, &err);
    return lt_bind_answer(L, failed, &err);
}

static void push_timing(lua_State *L, const lt_timing *t)
{
    lua_createtable(L, 0, 2);
    lua_pushnumber(L, t->us);
    lua_setfield(L, -2, "us");
    lua_pushnumber(L, t->spread);
    lua_setfield(L, -2, "spread");
}

/* device:time(kernel, launch, { buffers, ... }, brief or nil): the launches of one sequence, one
 * for each list of buffers -> { us =, spread = } of a launch */
static int time_kernel(lua_State *L)
{
    lt_err err = {{0}};
    lt_device *dev = check_device(L);
    lt_timing t = {0};
    lt_kernel *k = check_kernel(L, 2, dev);
    const lt_launch l = read_launch(L, 3);
    const lua_Integer count = luaL_len(L, 4);
    const bool brief = lua_toboolean(L, 5);
    if (count < 1 || count > MAX_STEPS) return luaL_error(L, "%I launches are too many", count);
    lt_step *steps = lua_newuserdatauv(L, (size_t)count * sizeof *steps, 0);
    for (lua_Integer i = 0; i < count; i++) {
        steps[i] = (lt_step){.kernel = k, .launch = l};
        lua_geti(L, 4, i + 1);
        read_args(L, lua_gettop(L), dev, steps[i].args);
        lua_pop(L, 1);
    }
    if (lt_device_time(dev, steps, (int)count, brief, &t, &err)) return lt_bind_fail(L, &err);
    push_timing(L, &t);
    return 1;
}

/* ---- programs ---- */

/* One step: { kernel =, launch =, args = list of buffers or { buffer, offset },
 * programmatic = flag } */
static lt_step read_step(lua_State *L, int index, lt_device *dev)
{
    lt_step s = {0};
    luaL_checktype(L, index, LUA_TTABLE);
    lua_getfield(L, index, "kernel");
    s.kernel = check_kernel(L, lua_gettop(L), dev);
    lua_getfield(L, index, "launch");
    s.launch = read_launch(L, lua_gettop(L));
    s.launch.programmatic = lt_bind_flag(L, index, "programmatic");
    lua_getfield(L, index, "args");
    read_args(L, lua_gettop(L), dev, s.args);
    lua_pop(L, 3);
    return s;
}

/* device:program(steps): keeps the table, and with it kernels and buffers, alive */
static int new_program(lua_State *L)
{
    lt_err err = {{0}};
    lt_device *dev = check_device(L);
    const lua_Integer count = luaL_len(L, 2);
    if (count < 1 || count > MAX_STEPS) return luaL_error(L, "%I steps", count);
    program *p = lua_newuserdatauv(L, sizeof *p, 2);
    *p = (program){dev, NULL};
    luaL_setmetatable(L, PROGRAM);
    lua_pushvalue(L, 1);
    lua_setiuservalue(L, -2, 1);
    lua_pushvalue(L, 2);
    lua_setiuservalue(L, -2, 2);
    lt_step *steps = lua_newuserdatauv(L, (size_t)count * sizeof *steps, 0);
    for (lua_Integer i = 0; i < count; i++) {
        lua_geti(L, 2, i + 1);
        steps[i] = read_step(L, lua_gettop(L), dev);
        lua_pop(L, 1);
    }
    if (lt_program_new(&p->program, dev, steps, (int)count, &err)) return lt_bind_fail(L, &err);
    lua_pop(L, 1);
    return 1;
}

static program *check_program(lua_State *L)
{
    program *p = luaL_checkudata(L, 1, PROGRAM);
    if (!p->program) luaL_error(L, "the program was freed");
    return p;
}

/* program:run(): starts it; a read or device:sync waits */
static int run_program(lua_State *L)
{
    lt_err err = {{0}};
    return lt_bind_answer(L, lt_program_run(check_program(L)->program, &err), &err);
}

/* program:time() -> as device:time, of a launch on average */
static int time_program(lua_State *L)
{
    lt_err err = {{0}};
    lt_timing t = {0};
    if (lt_program_time(check_program(L)->program, &t, &err)) return lt_bind_fail(L, &err);
    push_timing(L, &t);
    return 1;
}

/* program:step(i), from 1: that step alone, and waits */
static int run_step(lua_State *L)
{
    lt_err err = {{0}};
    const program *p = check_program(L);
    const lua_Integer i = luaL_checkinteger(L, 2);
    lua_getiuservalue(L, 1, 2);
    if (i < 1 || i > luaL_len(L, -1)) return luaL_error(L, "step %I is outside", i);
    return lt_bind_answer(L, lt_program_run_step(p->program, (int)i - 1, &err), &err);
}

static int free_program(lua_State *L)
{
    program *p = luaL_checkudata(L, 1, PROGRAM);
    lt_program_free(p->program);
    p->program = NULL;
    return 0;
}

static const luaL_Reg device_methods[] = {
    {"info", get_info},       {"play", play},        {"sync", sync_device},
    {"alloc", alloc_buffer},  {"load", load_kernel}, {"load_all", load_kernels},
    {"launch", launch},       {"time", time_kernel}, {"program", new_program},
    {"__gc", collect_device}, {NULL, NULL},
};

static const luaL_Reg buffer_methods[] = {
    {"write", write_buffer},  {"read", read_buffer}, {"fill", fill_buffer}, {"free", free_buffer},
    {"__close", free_buffer}, {"__gc", free_buffer}, {NULL, NULL},
};

static const luaL_Reg kernel_methods[] = {
    {"free", free_kernel},
    {"__close", free_kernel},
    {"__gc", free_kernel},
    {NULL, NULL},
};

static const luaL_Reg program_methods[] = {
    {"run", run_program},      {"time", time_program}, {"step", run_step}, {"free", free_program},
    {"__close", free_program}, {"__gc", free_program}, {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"device", open_device},
    {"open_ahead", open_ahead},
    {NULL, NULL},
};

void lt_bind_add_devices(lua_State *L)
{
    lt_bind_class(L, DEVICE, device_methods);
    lt_bind_class(L, BUFFER, buffer_methods);
    lt_bind_class(L, KERNEL, kernel_methods);
    lt_bind_class(L, PROGRAM, program_methods);
    luaL_setfuncs(L, functions, 0);
}
