/* tcc.c: from text to code with libtcc, around its traps. Options come before the output type;
 * nothing outside the program is needed; the code gets pages of its own (in two calls of
 * tcc_relocate), so that no state of the compiler lives on. */
#include "calls.h"
#include "intrinsics.h"

#include <libtcc.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CHILD_SECONDS = 30,
    TCC_BYTES = 4 << 20, /* three times what the longest text took */
};

/* ---- what libtcc says ---- */

typedef struct {
    char text[512]; /* of the first error; empty: none */
    jmp_buf *way;   /* out of a call in which libtcc would end the program; NULL: it comes back */
} report;

/* Warnings of tcc that C++ has as errors: the GPU's compiler would stop. */
static bool is_error(const char *message)
{
    return !strstr(message, "warning: ") || strstr(message, "implicit declaration") ||
           strstr(message, "incompatible") || strstr(message, "without a cast") ||
           strstr(message, "discards");
}

/* "file:line: error: text" becomes "file:line: text"; the linker's have no place. */
static void keep(void *ctx, const char *message)
{
    report *r = ctx;
    if (!is_error(message)) {
        lt_debug(4, "libtcc: %s", message);
        return;
    }
    if (*r->text) return;
    if (!strncmp(message, "tcc: ", 5)) message += 5;
    const char *kind = strstr(message, "error: ");
    if (!kind) kind = strstr(message, "warning: ");
    if (!kind) kind = message;
    const char *text = kind == message && !strchr(message, ':') ? message : strchr(kind, ' ') + 1;
    snprintf(r->text, sizeof r->text, "%.*s%s", (int)(kind - message), message, text);
    if (r->way) longjmp(*r->way, 1);
}

/* ---- compile ---- */

/* Where memory is used up libtcc ends the program: is there as much as it may need? */
static bool has_memory(void)
{
    void *p = malloc(TCC_BYTES);
    free(p);
    return p != NULL;
}

/* A state that has compiled k->text into memory, or NULL: r says why. */
static TCCState *compile(const char *text, report *r)
{
    TCCState *tcc = has_memory() ? tcc_new() : NULL;
    if (!tcc) {
        snprintf(r->text, sizeof r->text, "libtcc: out of memory");
        return NULL;
    }
    tcc_set_error_func(tcc, r, keep);
    tcc_set_options(tcc, LT_TCC_OPTIONS);
    tcc_set_output_type(tcc, TCC_OUTPUT_MEMORY);
    for (const lt_symbol *s = lt_cpu_calls; s->name; s++) tcc_add_symbol(tcc, s->name, s->address);
    for (const lt_symbol *s = lt_cpu_symbols; s->name; s++)
        tcc_add_symbol(tcc, s->name, s->address);
    if (!tcc_compile_string(tcc, text) && !*r->text) return tcc;
    if (!*r->text) snprintf(r->text, sizeof r->text, "libtcc: it does not compile");
    tcc_delete(tcc);
    return NULL;
}

/* Gives the code pages of its own: tcc_relocate wants to be asked for the size first. */
static int place(TCCState *tcc, lt_cpu_kernel *k, report *r)
{
    const int bytes = tcc_relocate(tcc, NULL);
    if (bytes < 0) return -1;
    k->code_bytes = ((size_t)bytes + LT_PAGE - 1) / LT_PAGE * LT_PAGE;
    void *p = mmap(NULL, k->code_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        snprintf(r->text, sizeof r->text, "libtcc: no memory for the code");
        return -1;
    }
    k->code = p;
    if (tcc_relocate(tcc, k->code) < 0) return -1;
    void *entry = tcc_get_symbol(tcc, "lt_entry"), *cur = tcc_get_symbol(tcc, "lt_cur");
    if (!entry || !cur) {
        snprintf(r->text, sizeof r->text, "%s: the text defines no such symbol",
                 entry ? "lt_cur" : "lt_entry");
        return -1;
    }
    memcpy(&k->entry, &entry, sizeof entry);
    k->cur = cur;
    return 0;
}

/* As place. An error in it, of memory that cannot be had or made executable, leaves the state
 * behind as it is: nobody knows what of it is whole. */
static int place_or_leave(TCCState *tcc, lt_cpu_kernel *k, report *r)
{
    jmp_buf way;
    if (setjmp(way)) {
        r->way = NULL;
        return -1;
    }
    r->way = &way;
    const int rc = place(tcc, k, r);
    r->way = NULL;
    return rc;
}

static int compile_and_place(lt_cpu_kernel *k, report *r)
{
    TCCState *tcc = compile(k->text, r);
    if (!tcc) return -1;
    const int rc = place_or_leave(tcc, k, r);
    if (rc && !*r->text) snprintf(r->text, sizeof r->text, "libtcc: it cannot be linked");
    tcc_delete(tcc);
    return rc;
}

/* The same in a child, which may crash. 0: it compiled. */
static int try_in_child(lt_cpu_kernel *k, report *r)
{
    int ends[2], status = 0;
    if (pipe(ends)) return 0;
    const pid_t child = fork();
    if (child == 0) {
        alarm(CHILD_SECONDS);
        const int rc = compile_and_place(k, r);
        const ssize_t sent = rc ? write(ends[1], r, sizeof *r) : 0;
        _exit(rc || sent < 0);
    }
    close(ends[1]);
    if (child > 0 && read(ends[0], r, sizeof *r) != sizeof *r) *r->text = 0;
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child || status == 0) return 0;
    if (WIFSIGNALED(status))
        snprintf(r->text, sizeof r->text, "libtcc: it crashes on this text (signal %d)",
                 WTERMSIG(status));
    return -1;
}

int lt_tcc_load(lt_emulator *e, lt_cpu_kernel *k, lt_err *err)
{
    report r = {.way = NULL};
    if (lt_labels_refuse(k->text, err)) return -1;
    if ((e->careful && try_in_child(k, &r)) || compile_and_place(k, &r)) {
        e->careful = true; /* libtcc's own state may be damaged */
        return lt_fail(err, "%s", r.text);
    }
    return 0;
}

void lt_tcc_unload(lt_cpu_kernel *k)
{
    if (k->code) munmap(k->code, k->code_bytes);
    k->code = NULL;
}
