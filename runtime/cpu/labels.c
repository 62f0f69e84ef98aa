/* labels.c: finds goto and labels in a text. The common subset has none, and libtcc may crash in a
 * later compile of the process after one that failed in a function with a label. */
#include "emulator.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef enum { BEGIN, CLOSED, COLON, HEAD, NAME, OTHER } token; /* BEGIN: ; { }, HEAD: else, do */

typedef struct {
    const char *p;
    int line;
    char file[200];
    token last;
    int colons; /* that belong to ?, case, default */
} scanner;

static void skip_literal(scanner *s)
{
    const char quote = *s->p++;
    while (*s->p && *s->p != quote && *s->p != '\n') s->p += *s->p == '\\' && s->p[1] ? 2 : 1;
    if (*s->p == quote) s->p++;
}

/* A line that begins with #, with its continuations; #line names the next one. */
static void skip_directive(scanner *s)
{
    char file[200];
    int line = 0;
    const int got = sscanf(s->p, "#line %d \"%199[^\"\n]\"", &line, file);
    for (; *s->p && *s->p != '\n'; s->p++)
        if (*s->p == '\\' && s->p[1] == '\n') {
            s->p++;
            s->line++;
        }
    if (got >= 1) s->line = line - 1;
    if (got == 2) memcpy(s->file, file, sizeof file);
}

static void skip_comment(scanner *s)
{
    const bool whole_line = s->p[1] == '/';
    for (s->p += 2; *s->p; s->p++) {
        if (*s->p == '\n') {
            if (whole_line) return;
            s->line++;
        }
        if (!whole_line && s->p[0] == '*' && s->p[1] == '/') {
            s->p += 2;
            return;
        }
    }
}

static void skip_number(scanner *s)
{
    while (isalnum((unsigned char)*s->p) || *s->p == '.' || *s->p == '_' ||
           ((*s->p == '+' || *s->p == '-') && strchr("eEpP", s->p[-1])))
        s->p++;
    s->last = OTHER;
}

/* True where the name is a goto or a label. */
static bool take_name(scanner *s)
{
    const char *name = s->p;
    while (isalnum((unsigned char)*s->p) || *s->p == '_') s->p++;
    const size_t len = (size_t)(s->p - name);
    const char *next = s->p + strspn(s->p, " \t\n");
    const bool labels = *next == ':' && !s->colons && s->last != NAME && s->last != OTHER;
    s->last = NAME;
    if (len == 4 && !memcmp(name, "goto", 4)) return true;
    if ((len == 4 && !memcmp(name, "case", 4)) || (len == 7 && !memcmp(name, "default", 7))) {
        s->colons++;
        return false;
    }
    if ((len == 4 && !memcmp(name, "else", 4)) || (len == 2 && !memcmp(name, "do", 2)))
        s->last = HEAD;
    return labels;
}

static void take_mark(scanner *s)
{
    const char c = *s->p++;
    s->last = OTHER;
    if (c == '?') s->colons++;
    if (c == ')') s->last = CLOSED;
    if (c == ':') {
        s->last = COLON;
        if (s->colons) s->colons--;
    }
    if (c == ';' || c == '{' || c == '}') {
        s->last = BEGIN;
        s->colons = 0;
    }
}

int lt_labels_refuse(const char *text, lt_err *err)
{
    scanner s = {.p = text, .line = 1, .file = "text", .last = BEGIN};
    bool fresh = true; /* nothing but blanks in this line so far */
    while (*s.p) {
        const char c = *s.p;
        if (c == '\n') {
            s.line++;
            s.p++;
            fresh = true;
            continue;
        }
        if (c == ' ' || c == '\t') {
            s.p++;
            continue;
        }
        if (c == '#' && fresh)
            skip_directive(&s);
        else if (c == '/' && (s.p[1] == '*' || s.p[1] == '/'))
            skip_comment(&s);
        else if (c == '"' || c == '\'')
            skip_literal(&s), s.last = OTHER;
        else if (isdigit((unsigned char)c))
            skip_number(&s);
        else if (isalpha((unsigned char)c) || c == '_') {
            if (take_name(&s))
                return lt_fail(err, "%s:%d: goto and labels are not in the common subset", s.file,
                               s.line);
        } else
            take_mark(&s);
        fresh = false;
    }
    return 0;
}
