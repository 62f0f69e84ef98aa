/* fiber.h: stacks of one OS thread and the switch between them.
 *
 * A fiber borrows its stack; nothing is unwound when a fiber is left for good, its stack may be
 * given to lt_fiber_prepare again. A build with -fsanitize=address tells the sanitizer about every
 * switch. */
#ifndef LT_CPU_FIBER_H
#define LT_CPU_FIBER_H

#include <stddef.h>
#include <ucontext.h>

#if defined(__SANITIZE_ADDRESS__)
#define LT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LT_ASAN 1
#endif
#endif
#ifndef LT_ASAN
#define LT_ASAN 0
#endif

enum {
    LT_STACK_BYTES = 64 << 10,  /* what a thread of a kernel gets */
    LT_STACK_STRIDE = 260 << 10 /* no memory below a stack: an array of 190 KB does not reach the
                                   neighbour's; 65 pages, so that no two stacks share cache sets */
};

typedef struct {
    void *sp;
    const void *low; /* of the stack; for the sanitizer */
    size_t bytes;
    void *fake;
} lt_fiber;

typedef struct {
    char *base; /* count strides; NULL: none */
    int count, mapped;
} lt_stacks;

int lt_stacks_open(lt_stacks *s, int count); /* reserves; 0, or -1: no address space */
void lt_stacks_close(lt_stacks *s);
int lt_stacks_map(lt_stacks *s, int count); /* makes the first count stacks usable; 0 or -1 */
int lt_stacks_holds(const lt_stacks *s, const void *p);

/* Puts run(arg) on stack number index. run never returns and calls lt_fiber_begin first. */
void lt_fiber_prepare(lt_fiber *f, const lt_stacks *s, int index, void (*run)(void *), void *arg);
/* main: the fiber of the launcher, whose bounds are learned from the first fiber it enters. */
void lt_fiber_begin(lt_fiber *main);
void lt_fiber_switch(lt_fiber *from, lt_fiber *to); /* returns when something switches to `from` */
_Noreturn void lt_fiber_jump(lt_fiber *to);         /* leaves the current fiber for good */
void lt_fiber_redirect(ucontext_t *interrupted, lt_fiber *to); /* the jump of a signal handler */

#endif
