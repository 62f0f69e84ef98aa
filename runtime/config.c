/* config.c: every setting, and the only reader of the environment. Read once at start; a flag of
 * the command line wins over the environment, the environment over the default. */
#include "lathe.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

typedef enum { TEXT, NUMBER, WORDS } kind;

typedef struct {
    const char *name, *env;
    kind kind;
    long least, most;         /* of a number */
    const char *words[3];     /* counted from 0 */
    const char *value, *help; /* value: the default */
} setting;

static const setting settings[LT_SETTINGS] = {
    [LT_SET_DEVICE] = {"device", "LATHE_DEVICE", TEXT, .value = "",
                       .help = "cuda:N or cpu; empty: cuda:0 where there is one, else cpu"},
    [LT_SET_ROOT] = {"root", "LATHE_ROOT", TEXT, .value = "",
                     .help = "folder whose files win over the embedded ones; empty: a checkout "
                             "around the program or here"},
    [LT_SET_CACHE_DIR] = {"cache_dir", "LATHE_CACHE_DIR", TEXT, .value = "",
                          .help = "folder of compiled kernels; empty: $XDG_CACHE_HOME/lathe, else "
                                  "$HOME/.cache/lathe"},
    [LT_SET_CACHE_LIMIT] = {"cache_limit", "LATHE_CACHE_LIMIT", NUMBER, 0, 1 << 20, .value = "1024",
                            .help = "MiB that `cache gc` leaves"},
    [LT_SET_JIT] = {"jit", "LATHE_JIT", WORDS, .words = {"off", "on"}, .value = "on",
                    .help = "off: a kernel that is not in the cache is an error"},
    [LT_SET_JOBS] = {"jobs", "LATHE_JOBS", NUMBER, 0, 256, .value = "0",
                     .help = "compilers at once; 0: one a core"},
    [LT_SET_COMPILE_SECONDS] = {"compile_seconds", "LATHE_COMPILE_SECONDS", NUMBER, 1, 3600,
                                .value = "60", .help = "after which a compiler is killed"},
    [LT_SET_TUNE_SECONDS] = {"tune_seconds", "LATHE_TUNE_SECONDS", NUMBER, 1, 3600, .value = "30",
                             .help = "after which a candidate of `tune` counts as hanging"},
    [LT_SET_NVRTC] = {"nvrtc", "LATHE_NVRTC", TEXT, .value = "",
                      .help = "path of libnvrtc; empty: search"},
    [LT_SET_SPILL] = {"spill", "LATHE_SPILL", WORDS, .words = {"warn", "error"}, .value = "warn",
                      .help = "what a kernel that spills registers is"},
    [LT_SET_DEBUG] = {"debug", "LATHE_DEBUG", NUMBER, 0, 5, .value = "0",
                      .help = "1 device, 2 cache and times, 3 candidates, 4 texts and compiler "
                              "logs, 5 launches"},
    [LT_SET_DUMP] = {"dump", "LATHE_DUMP", TEXT, .value = "",
                     .help = "folder for texts, images and logs; empty: none"},
    [LT_SET_CPU_ORDER] = {"cpu_order", "LATHE_CPU_ORDER", NUMBER, 0, INT_MAX, .value = "0",
                          .help = "order of blocks and threads: 0 forward, 1 reverse, more: random "
                                  "with that seed"},
    [LT_SET_CPU_LAZY] = {"cpu_lazy", "LATHE_CPU_LAZY", WORDS, .words = {"off", "on"},
                         .value = "off",
                         .help = "on: asynchronous copies land as late as they may"},
    [LT_SET_CPU_LEFT] = {"cpu_left", "LATHE_CPU_LEFT", WORDS, .words = {"off", "on"},
                         .value = "off",
                         .help = "on: buffers start at a page, so that reads before the start "
                                 "fault"},
    [LT_SET_CPU_CHECK] = {"cpu_check", "LATHE_CPU_CHECK", WORDS, .words = {"off", "on"},
                          .value = "off",
                          .help = "on: gcc compiles, and each access is checked for races, bounds, "
                                  "and reads of what nobody wrote"},
    [LT_SET_CPU_SECONDS] = {"cpu_seconds", "LATHE_CPU_SECONDS", NUMBER, 1, 86400, .value = "60",
                            .help = "after which a launch counts as endless"},
};

/* What is in force. Before lt_config_read everything has its default. */
static struct {
    char *text[LT_SETTINGS]; /* NULL: the default */
    const char *source[LT_SETTINGS];
    lt_bytes cache_dir; /* where the cache is when no setting says so; empty: nowhere */
} config;

/* What value means as a number: a word's place, a number itself, 0 for text. False: not legal. */
static bool parse(const setting *s, const char *value, long *out)
{
    *out = 0;
    if (s->kind == TEXT) return true;
    if (s->kind == WORDS) {
        for (int i = 0; s->words[i]; i++)
            if (!strcmp(value, s->words[i])) {
                *out = i;
                return true;
            }
        return false;
    }
    char *end;
    errno = 0;
    *out = strtol(value, &end, 10);
    const bool digits = value[0] && strspn(value, "0123456789") == strlen(value);
    return digits && !errno && *end == 0 && *out >= s->least && *out <= s->most;
}

/* Puts value in force. subject: how the user wrote the setting's name; way_out: what else helps. */
static int put(lt_setting which, const char *value, const char *source, const char *subject,
               const char *way_out, lt_err *err)
{
    const setting *s = &settings[which];
    long number;
    if (!parse(s, value, &number)) {
        if (s->kind == NUMBER)
            return lt_fail(err, "%s: '%s' is not a number from %ld to %ld (%sgive one)", subject,
                           value, s->least, s->most, way_out);
        return lt_fail(err, "%s: '%s' is neither %s nor %s (%sgive one)", subject, value,
                       s->words[0], s->words[1], way_out);
    }
    char *copy = strdup(value);
    if (!copy) return lt_fail(err, "%s: out of memory", subject);
    free(config.text[which]);
    config.text[which] = copy;
    config.source[which] = source;
    return 0;
}

/* $XDG_CACHE_HOME/lathe, else $HOME/.cache/lathe; a relative path does not count. */
static int find_cache_dir(lt_err *err)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    lt_bytes_clear(&config.cache_dir);
    if (xdg && xdg[0] == '/') return lt_bytes_print(&config.cache_dir, err, "%s/lathe", xdg);
    if (home && home[0] == '/')
        return lt_bytes_print(&config.cache_dir, err, "%s/.cache/lathe", home);
    return 0;
}

/* A LATHE_ variable that is no setting is a slip of the hand: it would do nothing. */
static int refuse_unknown(lt_err *err)
{
    for (char **e = environ; *e; e++) {
        const size_t len = strcspn(*e, "=");
        if (strncmp(*e, "LATHE_", 6) || !(*e)[len] || !(*e)[len + 1]) continue;
        bool known = false;
        for (lt_setting i = 0; i < LT_SETTINGS && !known; i++)
            known = strlen(settings[i].env) == len && !strncmp(*e, settings[i].env, len);
        if (!known)
            return lt_fail(err, "%.*s: no such setting (unset it; `lathe config` lists them)",
                           (int)len, *e);
    }
    return 0;
}

/* A variable that is set to nothing counts as unset. */
int lt_config_read(lt_err *err)
{
    if (refuse_unknown(err)) return -1;
    for (lt_setting i = 0; i < LT_SETTINGS; i++) {
        free(config.text[i]);
        config.text[i] = NULL;
        const char *value = getenv(settings[i].env);
        if (!value || !*value) continue;
        if (put(i, value, "environment", settings[i].env, "unset it or ", err)) return -1;
    }
    return find_cache_dir(err);
}

int lt_config_set(const char *name, const char *value, lt_err *err)
{
    for (lt_setting i = 0; i < LT_SETTINGS; i++)
        if (!strcmp(name, settings[i].name)) return put(i, value, "flag", name, "", err);
    return lt_fail(err, "%s: no such setting (`lathe config` lists them)", name);
}

lt_setting_info lt_config_info(lt_setting s)
{
    return (lt_setting_info){settings[s].name, settings[s].env, lt_config_text(s),
                             config.text[s] ? config.source[s] : "default", settings[s].help};
}

const char *lt_config_text(lt_setting s)
{
    return config.text[s] ? config.text[s] : settings[s].value;
}

long lt_config_int(lt_setting s)
{
    long number;
    parse(&settings[s], lt_config_text(s), &number);
    return number;
}

const char *lt_config_default_cache_dir(void)
{
    return config.cache_dir.ptr;
}

/* The line leaves in one write, so that lines of several processes do not mix. Level 0 is what a
 * user must be told once. */
void lt_debug(int level, const char *fmt, ...)
{
    if (lt_config_int(LT_SET_DEBUG) < level) return;
    lt_err line = {{0}};
    va_list args;
    va_start(args, fmt);
    vsnprintf(line.text, sizeof line.text, fmt, args);
    va_end(args);
    fprintf(stderr, "lathe: %s\n", line.text);
}
