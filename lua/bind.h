/* bind.h: what the files of the border share. Only lua/bind*.c include it: they alone see both
 * lua.h and lathe.h.
 *
 * A userdata owns what it holds until its garbage is collected, its free method is called or its
 * <close> variable ends; after that every use of it is an error. What can fail for a reason
 * outside the program returns nil and a sentence; a wrong argument is a Lua error. */
#ifndef LT_BIND_H
#define LT_BIND_H

#include "../runtime/ctype.h"
#include "../runtime/lathe.h"
#include "../runtime/whole.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <time.h>

typedef struct {
    lt_ctype type;
    size_t count;
    void *data; /* NULL once freed */
} lt_array;     /* host memory */

int lt_bind_fail(lua_State *L, const lt_err *err); /* pushes nil and the sentence: 2 */
int lt_bind_answer(lua_State *L, int failed, const lt_err *err); /* the same, or true: 1 */
lt_array *lt_bind_array(lua_State *L, int index); /* an error when it is none or was freed */
/* Fills src and its params from a kernel of gen/emit.lua. The strings stay the table's. */
void lt_bind_source(lua_State *L, int index, lt_source *src, lt_param params[LT_MAX_PARAMS]);
void lt_bind_report(lua_State *L, const lt_jit_report *report); /* pushes a table */
/* lt_jit_build of the list of kernels at index 2, with the progress function or nil at index 3,
 * onto dev unless that is NULL. Pushes what owns the builds and returns them, with their reports
 * pushed as a list; a kernel that the caller takes it sets to NULL there. NULL where it was
 * stopped: nil and a sentence are pushed. */
lt_build *lt_bind_build(lua_State *L, lt_device *dev, size_t *count);
/* Pushes zeroed storage; release(it) is called when it is garbage. What the runtime fills it with
 * is given back though Lua runs out of memory before it is pushed. */
void *lt_bind_own(lua_State *L, size_t bytes, lua_CFunction release);
lt_bytes *lt_bind_bytes(lua_State *L);             /* such storage for bytes */
void lt_bind_lines(lua_State *L, lt_bytes *lines); /* pushes a list of its lines, clears it */
void lt_bind_class(lua_State *L, const char *name, const luaL_Reg *methods); /* __index is itself */
lua_Integer lt_bind_field(lua_State *L, int index, const char *name, lua_Integer otherwise);
bool lt_bind_flag(lua_State *L, int index, const char *name);

/* The open file of lathe.whole that is a function's first argument. */
lt_whole *lt_bind_whole(lua_State *L);

typedef struct {
    lua_State *L;
    size_t used;   /* bytes of all scripts */
    int looks;     /* in a row that found an author's code running */
    timer_t timer; /* until looks are made */
    bool has_timer;
    char refused[300]; /* file:line: what an author asked for and did not get; empty: nothing */
} lt_limits;           /* the caller's, as long as the state lives */

/* A state whose authors have limits, or NULL: bind_limit.c. One at a time. */
lua_State *lt_limit_open(lt_limits *limits);
void lt_limit_close(lt_limits *limits);
/* The frame of a file that is not the program's own, where it runs or has called into gen/. */
bool lt_limit_find_author(lua_State *L, lua_Debug *frame);

/* Each adds its functions to the module's table, which is on top. */
void lt_bind_add_arrays(lua_State *L);    /* bind_array.c */
void lt_bind_add_devices(lua_State *L);   /* bind_device.c */
void lt_bind_add_cache(lua_State *L);     /* bind_cache.c */
void lt_bind_add_records(lua_State *L);   /* bind_record.c */
void lt_bind_add_workers(lua_State *L);   /* bind_worker.c */
void lt_bind_add_weights(lua_State *L);   /* bind_weights.c */
void lt_bind_add_tokenizer(lua_State *L); /* bind_tokenizer.c */
void lt_bind_add_logits(lua_State *L);    /* bind_logits.c */
void lt_bind_add_whole(lua_State *L);     /* bind_whole.c */

#endif
