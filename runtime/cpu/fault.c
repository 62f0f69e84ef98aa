/* fault.c: what goes wrong in a kernel becomes a sentence. Signals are taken over for the length of
 * a launch; their handler notes what it sees and lands in the launcher, which finds the words. */
#define _GNU_SOURCE /* the names of registers */
#include "emulator.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIGNAL_STACK = 64 << 10, TICK_US = 2000 };

static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};

#define MAGIC 0x6c617468652e6370u

/* The lowest bytes of the alternate stack: how the handler finds the device without a global. */
typedef struct {
    uint64_t magic;
    lt_emulator *emu;
} stack_head;

/* ---- the sentence ---- */

static int print_place(char *out, size_t size, lt_dim3 at, lt_dim3 of)
{
    if (of.y == 1 && of.z == 1) return snprintf(out, size, "%u", at.x);
    return snprintf(out, size, "(%u,%u,%u)", at.x, at.y, at.z);
}

static void compose(lt_emulator *e, const lt_thread *t, const char *place, const char *fmt,
                    va_list args)
{
    char *out = e->fault;
    size_t used = 0, size = sizeof e->fault;
    if (place) used += (size_t)snprintf(out, size, "%.400s: ", place);
    if (t) {
        used += (size_t)snprintf(out + used, size - used, "block ");
        used += (size_t)print_place(out + used, size - used, e->at->block_index, t->gdim);
        used += (size_t)snprintf(out + used, size - used, ", thread ");
        used += (size_t)print_place(out + used, size - used, t->tidx, t->bdim);
        used += (size_t)snprintf(out + used, size - used, ": ");
    }
    vsnprintf(out + used, size - used, fmt, args);
}

static void note(lt_emulator *e, const lt_thread *t, lt_site site, const char *fmt, va_list args)
{
    char place[420];
    if (*e->fault) return;
    if (site.file) snprintf(place, sizeof place, "%.400s:%d", site.file, site.line);
    compose(e, t, site.file ? place : NULL, fmt, args);
}

void lt_fault_note(lt_emulator *e, const lt_thread *t, lt_site site, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    note(e, t, site, fmt, args);
    va_end(args);
}

void lt_fault(lt_thread *t, lt_site site, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    note(t->emu, t, site, fmt, args);
    va_end(args);
    t->emu->touching.file = NULL;
    lt_fiber_jump(&t->emu->main);
}

void lt_fault_name_thread(const lt_thread *t, char *out, size_t size)
{
    const int n = snprintf(out, size, "thread ");
    print_place(out + n, size - (size_t)n, t->tidx, t->bdim);
}

/* ---- signals ---- */

static bool in_code(const lt_cpu_kernel *k, const char *pc)
{
    return pc >= k->code && pc < k->code + k->code_bytes;
}

/* Time is up when the kernel's own code runs: inside the host's the device is half changed. The
 * timer ticks on until it finds it there. */
#if LT_ASAN
__attribute__((no_sanitize_address))
#endif
static void
handle(int signo, siginfo_t *info, void *context)
{
    ucontext_t *u = context;
    const greg_t *r = u->uc_mcontext.gregs;
    const stack_head *head = u->uc_stack.ss_sp;
    const bool ours = head && head->magic == MAGIC && head->emu->running;
    if (signo == SIGALRM && (!ours || !in_code(head->emu->kernel, (const char *)r[REG_RIP])))
        return;
    if (!ours) { /* comes again, and ends the program */
        signal(signo, SIG_DFL);
        return;
    }
    lt_emulator *e = head->emu;
    e->running = false;
    e->caught = (lt_caught){.signal = signo,
                            .code = info->si_code,
                            .write = r[REG_ERR] & 2,
                            .address = info->si_addr,
                            .pc = (const char *)r[REG_RIP],
                            .sp = (const char *)r[REG_RSP]};
    lt_fiber_redirect(u, &e->main);
}

int lt_fault_open(lt_emulator *e)
{
    void *p = mmap(NULL, SIGNAL_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return -1;
    *(stack_head *)p = (stack_head){MAGIC, e};
    e->signal_stack = p;
    return 0;
}

void lt_fault_close(lt_emulator *e)
{
    if (e->signal_stack) munmap(e->signal_stack, SIGNAL_STACK);
    e->signal_stack = NULL;
}

void lt_fault_arm(lt_emulator *e, long seconds)
{
    const stack_t stack = {.ss_sp = e->signal_stack, .ss_size = SIGNAL_STACK};
    const struct itimerval timer = {{0, TICK_US}, {seconds, 0}};
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    action.sa_sigaction = handle;
    sigemptyset(&action.sa_mask);
    sigaltstack(&stack, &e->old_stack);
    for (size_t i = 0; i < lt_countof(signals); i++)
        sigaction(signals[i], &action, &e->old_actions[i]);
    setitimer(ITIMER_REAL, &timer, &e->old_timer);
}

void lt_fault_disarm(lt_emulator *e)
{
    setitimer(ITIMER_REAL, &e->old_timer, NULL);
    for (size_t i = 0; i < lt_countof(signals); i++)
        sigaction(signals[i], &e->old_actions[i], NULL);
    sigaltstack(&e->old_stack, NULL);
}

/* ---- what a signal says ---- */

/* Where the kernel was: the site that the host noted, or the instruction, or, inside a function
 * that the text calls (a copied struct is a memmove), the first return address on the stack. */
static bool find_place(lt_emulator *e, const lt_thread *t, char *out, size_t size)
{
    const lt_caught *c = &e->caught;
    if (e->touching.file) {
        snprintf(out, size, "%.400s:%d", e->touching.file, e->touching.line);
        return true;
    }
    if (in_code(e->kernel, c->pc)) return !lt_line_find(e->kernel, c->pc, out, size);
    const char *low = t->fiber.low, *end = low + t->fiber.bytes;
    if (c->sp < low || c->sp >= end || (uintptr_t)c->sp % sizeof(void *)) return false;
    for (const char *p = c->sp; p + sizeof(void *) <= end && p < c->sp + 2048;
         p += sizeof(void *)) {
        const char *pc;
        memcpy(&pc, p, sizeof pc);
        if (in_code(e->kernel, pc)) return !lt_line_find(e->kernel, pc - 1, out, size);
    }
    return false;
}

static void explain_buffer(const lt_emulator *e, const lt_cpu_buffer *b, char *out, size_t size)
{
    const lt_caught *c = &e->caught;
    const char *verb = c->write ? "writes" : "reads";
    const int i = lt_memory_argument(e, b, c->address);
    if (i < 0) {
        snprintf(out, size, "%s a buffer that is no argument of the launch", verb);
        return;
    }
    const lt_param *p = &e->kernel->base.params[i];
    const char *start = e->pointers[i];
    const ptrdiff_t offset = c->address - start, bytes = b->data + b->base.bytes - start;
    if (offset < 0 || offset >= bytes)
        snprintf(out, size, "%s byte %td of '%s', which has %td", verb, offset, p->name, bytes);
    else if (c->write && !p->out)
        snprintf(out, size, "writes '%s', which is not declared out", p->name);
    else if (c->write)
        snprintf(out, size, "writes '%s' before lt_pdl_wait", p->name);
    else
        snprintf(out, size,
                 "reads '%s' before lt_pdl_wait, which the launch in front of it (%.200s) writes",
                 p->name, b->writer);
}

static void explain_access(const lt_emulator *e, char *out, size_t size)
{
    const lt_caught *c = &e->caught;
    const char *verb = c->write ? "writes" : "reads";
    const lt_slot *s = lt_shared_find(e, c->address);
    const lt_cpu_buffer *b = lt_memory_find(e, c->address);
    if (c->code == SI_KERNEL)
        snprintf(out, size, "uses a pointer that is no address");
    else if (b)
        explain_buffer(e, b, out, size);
    else if (s && s->name)
        snprintf(out, size, "%s byte %td of shared '%s', which has %zu", verb, c->address - s->data,
                 s->name, s->bytes);
    else if (s)
        snprintf(out, size, "%s between the shared arrays", verb);
    else if (lt_stacks_holds(&e->at->stacks, c->address))
        snprintf(out, size, "its local variables need more than %d KiB", LT_STACK_BYTES >> 10);
    else if ((uintptr_t)c->address < 1 << 16)
        snprintf(out, size, "%s through a null pointer (address 0x%zx)", verb,
                 (size_t)(uintptr_t)c->address);
    else
        snprintf(out, size, "%s address %p, where no buffer is", verb, (const void *)c->address);
}

static void explain_signal(const lt_emulator *e, char *out, size_t size)
{
    switch (e->caught.signal) {
    case SIGFPE: snprintf(out, size, "divides by zero, or the quotient does not fit"); break;
    case SIGILL: snprintf(out, size, "runs into an illegal instruction"); break;
    case SIGALRM:
        snprintf(out, size, "the launch takes longer than %ld s (LATHE_CPU_SECONDS raises it)",
                 lt_config_int(LT_SET_CPU_SECONDS));
        break;
    default: explain_access(e, out, size);
    }
}

static void put(lt_emulator *e, const lt_thread *t, const char *place, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void put(lt_emulator *e, const lt_thread *t, const char *place, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    compose(e, t, place, fmt, args);
    va_end(args);
}

void lt_fault_at(lt_emulator *e, const lt_thread *t, const char *pc, const char *fmt, ...)
{
    char place[420];
    va_list args;
    const bool found = !lt_line_find(e->kernel, pc, place, sizeof place);
    va_start(args, fmt);
    compose(e, t, found ? place : NULL, fmt, args);
    va_end(args);
}

void lt_fault_explain(lt_emulator *e)
{
    char place[420], what[400];
    const lt_thread *t = e->touching.file ? e->toucher : *e->cur;
    const bool found = find_place(e, t, place, sizeof place);
    explain_signal(e, what, sizeof what);
    put(e, t, found ? place : NULL, "%s", what);
    e->touching.file = NULL;
    e->caught.signal = 0;
}
