/* bind_limit.c: what a description, a template or a file of pins may use of Lua: anyone may write
 * one, and a loop without an end or a text without a bound must become a sentence with its line. */
#define _GNU_SOURCE /* gettid */
#include "bind.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    UNCOUNTED = 500,  /* ms of our thread that run free: counting takes a tenth of a start's time */
    STEPS = 1000000,  /* of the interpreter, from one look to the next */
    LOOKS = 300,      /* that find the same author: two seconds; all our families take one look */
    BLOCK = 64 << 20, /* bytes that an author gets at once; the longest generated text has 0.2 MB */
};
#define MEMORY ((size_t)4 << 30) /* bytes of all scripts together; the full model takes 0.1 GB */

/* ---- whose code runs ---- */

static bool begins(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

bool lt_limit_find_author(lua_State *L, lua_Debug *frame)
{
    for (int level = 0; lua_getstack(L, level, frame); level++) {
        lua_getinfo(L, "Sl", frame);
        const char *source = frame->source;
        if (frame->currentline < 0 || begins(source, "@gen/")) continue; /* C, or called by it */
        return *source == '@' && !begins(source, "@lua/") && !begins(source, "@lib/");
    }
    return false;
}

/* ---- steps ---- */

static lt_limits *limits_of(lua_State *L)
{
    void *limits;
    lua_getallocf(L, &limits);
    return limits;
}

static void look(lua_State *L, lua_Debug *now)
{
    lt_limits *limits = limits_of(L);
    lua_Debug author;
    (void)now;
    limits->looks = lt_limit_find_author(L, &author) ? limits->looks + 1 : 0;
    if (limits->looks < LOOKS) return;
    limits->looks = 0;
    lua_pushfstring(L, "%s:%d: it does not end (%d million steps)", author.source + 1,
                    author.currentline, LOOKS * (STEPS / 1000000));
    lua_error(L);
}

static lua_State *uncounted; /* whose steps the handler, which gets no context, begins to count */

/* Not in place of what Ctrl-C left. */
static void begin_counting(int number)
{
    (void)number;
    if (uncounted && !lua_gethook(uncounted)) lua_sethook(uncounted, look, LUA_MASKCOUNT, STEPS);
    uncounted = NULL;
}

/* Lets the steps be counted from now on, or when our thread, which alone hears the timer, has run
 * for so long. */
static void wait_to_count(lt_limits *limits)
{
    struct sigaction action = {.sa_handler = begin_counting, .sa_flags = SA_RESTART | SA_ONSTACK};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
    const struct itimerspec once = {.it_value.tv_nsec = UNCOUNTED * 1000000};
    event._sigev_un._tid = gettid();
    sigfillset(&action.sa_mask);
    uncounted = limits->L;
    limits->has_timer = !sigaction(SIGVTALRM, &action, NULL) &&
                        !timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &limits->timer);
    if (!limits->has_timer || timer_settime(limits->timer, 0, &once, NULL)) begin_counting(0);
}

/* ---- memory ---- */

/* Remembers where an author asks for more than he gets; does he? */
static bool is_refused(lt_limits *limits, size_t bytes)
{
    lua_Debug author;
    if (bytes <= BLOCK || !limits->L || !lt_limit_find_author(limits->L, &author)) return false;
    snprintf(limits->refused, sizeof limits->refused, "%s:%d: out of memory: %zu bytes at once",
             author.source + 1, author.currentline, bytes);
    return true;
}

static void *allocate(void *ctx, void *old, size_t old_bytes, size_t bytes)
{
    lt_limits *limits = ctx;
    if (!old) old_bytes = 0; /* it is a type then */
    if (!bytes) {
        free(old);
        limits->used -= old_bytes;
        return NULL;
    }
    if (bytes > old_bytes &&
        (bytes - old_bytes > MEMORY - limits->used || is_refused(limits, bytes)))
        return NULL;
    void *p = realloc(old, bytes);
    if (p) limits->used += bytes - old_bytes;
    return p;
}

lua_State *lt_limit_open(lt_limits *limits)
{
    *limits = (lt_limits){0};
    limits->L = lua_newstate(allocate, limits);
    if (limits->L) wait_to_count(limits);
    return limits->L;
}

void lt_limit_close(lt_limits *limits)
{
    uncounted = NULL;
    if (limits->has_timer) timer_delete(limits->timer);
    lua_close(limits->L);
}
