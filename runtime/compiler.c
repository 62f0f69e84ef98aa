/* compiler.c: the note about the compiler: three lines, "library", "stamp", "identity". */
#include "compiler.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* One note for each LATHE_NVRTC, since that chooses the library. */
static void name_note(char name[32])
{
    char hex[65];
    lt_sha256_hex(lt_span_text(lt_config_text(LT_SET_NVRTC)), hex);
    snprintf(name, 32, "compiler.%.16s", hex);
}

/* Size and time of the library, as the note has them; empty where there is no such file. */
static void stamp_file(const char *path, char stamp[64])
{
    struct stat st;
    *stamp = 0;
    if (stat(path, &st)) return;
    snprintf(stamp, 64, "%lld bytes %lld.%09ld", (long long)st.st_size,
             (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

/* What stands behind "field " in the note's text; empty where it is missing or too long. */
static void read_field(const char *text, const char *field, char *out, size_t room)
{
    const size_t len = strlen(field);
    *out = 0;
    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const size_t all = strcspn(line, "\n");
        if (strncmp(line, field, len) || line[len] != ' ' || all - len > room) continue;
        snprintf(out, room, "%.*s", (int)(all - len - 1), line + len + 1);
    }
}

/* Fills out from the note. False: the note is missing or speaks of another library. */
static bool trust_note(const char *text, lt_nvrtc_compiler *out)
{
    char was[64], is[64];
    read_field(text, "library", out->library, sizeof out->library);
    read_field(text, "stamp", was, sizeof was);
    read_field(text, "identity", out->identity, sizeof out->identity);
    stamp_file(out->library, is);
    return *is && !strcmp(was, is) && *out->identity;
}

int lt_compiler_ask(lt_store *s, lt_nvrtc_compiler *out, lt_err *err)
{
    char name[32], stamp[64];
    lt_bytes text = {0};
    if (lt_nvrtc_identity(out, NULL, err)) return -1;
    name_note(name);
    stamp_file(out->library, stamp);
    int failed = lt_bytes_print(&text, err, "library %s\nstamp %s\nidentity %s\n", out->library,
                                stamp, out->identity);
    if (!failed) failed = lt_store_note_write(s, name, lt_bytes_view(&text), err);
    lt_bytes_clear(&text);
    lt_debug(2, "compiler %s from %s", out->identity, out->library);
    return failed;
}

int lt_compiler_find(lt_store *s, lt_nvrtc_compiler *out, lt_err *err)
{
    char name[32];
    lt_bytes text = {0};
    name_note(name);
    const lt_store_result got = lt_store_note_read(s, name, &text, err);
    const bool known = got == LT_STORE_HIT && trust_note(text.ptr ? text.ptr : "", out);
    lt_bytes_clear(&text);
    if (got == LT_STORE_FAILED) return -1;
    return known ? 0 : lt_compiler_ask(s, out, err);
}
