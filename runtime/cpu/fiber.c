/* fiber.c: the switch between stacks: six registers and the stack pointer, 7 ns. It must not know
 * what runs on the stacks. */
#define _GNU_SOURCE /* the names of registers */
#include "fiber.h"

#include <stdint.h>
#include <sys/mman.h>

#if LT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/* The control words of the floating-point units are the same on all fibers: nobody sets them. */
void lt_fiber_swap(void **save, void *load);
_Noreturn void lt_fiber_load(void *load);
void lt_fiber_start(void);
__asm__(".text\n"
        ".globl lt_fiber_swap\n"
        ".type lt_fiber_swap, @function\n"
        "lt_fiber_swap:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n"
        "  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size lt_fiber_swap, . - lt_fiber_swap\n"
        ".globl lt_fiber_load\n"
        ".type lt_fiber_load, @function\n"
        "lt_fiber_load:\n"
        "  mov %rdi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n"
        "  ret\n"
        ".size lt_fiber_load, . - lt_fiber_load\n"
        ".globl lt_fiber_start\n"
        ".type lt_fiber_start, @function\n"
        "lt_fiber_start:\n"
        "  mov %r12, %rdi\n"
        "  call *%r13\n"
        "  ud2\n"
        ".size lt_fiber_start, . - lt_fiber_start\n");

int lt_stacks_open(lt_stacks *s, int count)
{
    void *p = mmap(NULL, (size_t)count * LT_STACK_STRIDE, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return -1;
    *s = (lt_stacks){.base = p, .count = count};
    return 0;
}

void lt_stacks_close(lt_stacks *s)
{
    if (s->base) munmap(s->base, (size_t)s->count * LT_STACK_STRIDE);
    *s = (lt_stacks){0};
}

static char *stack_low(const lt_stacks *s, int index)
{
    return s->base + (size_t)(index + 1) * LT_STACK_STRIDE - LT_STACK_BYTES;
}

int lt_stacks_map(lt_stacks *s, int count)
{
    for (; s->mapped < count; s->mapped++)
        if (mprotect(stack_low(s, s->mapped), LT_STACK_BYTES, PROT_READ | PROT_WRITE)) return -1;
    return 0;
}

int lt_stacks_holds(const lt_stacks *s, const void *p)
{
    const uintptr_t base = (uintptr_t)s->base, address = (uintptr_t)p;
    return address >= base && address < base + (size_t)s->count * LT_STACK_STRIDE;
}

/* The tops are coloured: at equal offsets in their pages 1024 stacks share a few sets of the first
 * cache, and a switch costs 34 ns instead of 10. */
void lt_fiber_prepare(lt_fiber *f, const lt_stacks *s, int index, void (*run)(void *), void *arg)
{
    char *low = stack_low(s, index);
    void **sp = (void **)(low + LT_STACK_BYTES - index * 320 % 4096);
#if LT_ASAN
    __asan_unpoison_memory_region(low, LT_STACK_BYTES); /* what a fiber left for good has marked */
#endif
    sp -= 2; /* so that lt_fiber_start calls with an aligned stack */
    *--sp = (void *)lt_fiber_start;
    *--sp = NULL;        /* rbp: the end of the chain of frames */
    *--sp = NULL;        /* rbx */
    *--sp = arg;         /* r12 */
    *--sp = (void *)run; /* r13 */
    *--sp = NULL;        /* r14 */
    *--sp = NULL;        /* r15 */
    *f = (lt_fiber){.sp = sp, .low = low, .bytes = LT_STACK_BYTES};
}

#if LT_ASAN

void lt_fiber_begin(lt_fiber *main)
{
    const void *low;
    size_t bytes;
    __sanitizer_finish_switch_fiber(NULL, &low, &bytes);
    if (main->bytes) return;
    main->low = low;
    main->bytes = bytes;
}

void lt_fiber_switch(lt_fiber *from, lt_fiber *to)
{
    __sanitizer_start_switch_fiber(&from->fake, to->low, to->bytes);
    lt_fiber_swap(&from->sp, to->sp);
    __sanitizer_finish_switch_fiber(from->fake, NULL, NULL);
}

void lt_fiber_jump(lt_fiber *to)
{
    __sanitizer_start_switch_fiber(NULL, to->low, to->bytes);
    lt_fiber_load(to->sp);
}

#else

void lt_fiber_begin(lt_fiber *main)
{
    (void)main;
}

void lt_fiber_switch(lt_fiber *from, lt_fiber *to)
{
    lt_fiber_swap(&from->sp, to->sp);
}

void lt_fiber_jump(lt_fiber *to)
{
    lt_fiber_load(to->sp);
}

#endif

/* The end of the handler restores the signal mask and lands in `to`. */
void lt_fiber_redirect(ucontext_t *interrupted, lt_fiber *to)
{
    greg_t *r = interrupted->uc_mcontext.gregs;
#if LT_ASAN
    __sanitizer_start_switch_fiber(NULL, to->low, to->bytes);
#endif
    r[REG_RDI] = (greg_t)to->sp;
    r[REG_RIP] = (greg_t)lt_fiber_load;
    r[REG_EFL] &= ~0x400; /* the direction flag is clear between functions */
}
