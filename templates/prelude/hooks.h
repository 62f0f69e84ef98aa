/* hooks.h: stands behind a kernel's text when gcc compiles it with -fsanitize=thread, in place of that sanitizer's own
 * library: each access of the text tells the CPU device (runtime/cpu/access.c) who touches what, before it does. */
#define LT_UNWATCHED __attribute__((no_sanitize_thread))

enum { LT_READS, LT_WRITES, LT_ANYWHERE }; /* ORDER ACCESS; the last is added where no alignment is needed */

extern void lt_cpu_access(lt_thread *, const void *pc, const void *p, size_t bytes, int how);

void *lt_calls[LT_CALLS]; /* the host's functions, which the host puts here */

/* What the prelude reads of the running thread is no access of the kernel's. */
LT_UNWATCHED static void lt_watch(const void *p, size_t bytes, int how, const void *pc)
{
    if ((size_t)p - (size_t)&lt_cur < sizeof lt_cur || (size_t)p - (size_t)lt_cur < sizeof *lt_cur) return;
    lt_cpu_access(lt_cur, pc, p, bytes, how);
}

#define LT_WATCH(name, bytes, how) \
    LT_UNWATCHED void __tsan_##name(void *p) { lt_watch(p, bytes, how, __builtin_return_address(0)); }
#define LT_WATCH_BYTES(n) \
    LT_WATCH(read##n, n, LT_READS) LT_WATCH(unaligned_read##n, n, LT_READS + LT_ANYWHERE) \
    LT_WATCH(write##n, n, LT_WRITES) LT_WATCH(unaligned_write##n, n, LT_WRITES + LT_ANYWHERE)

LT_WATCH_BYTES(1) LT_WATCH_BYTES(2) LT_WATCH_BYTES(4) LT_WATCH_BYTES(8) LT_WATCH_BYTES(16)

LT_UNWATCHED void __tsan_read_range(void *p, size_t bytes)
{
    lt_watch(p, bytes, LT_READS + LT_ANYWHERE, __builtin_return_address(0));
}

LT_UNWATCHED void __tsan_write_range(void *p, size_t bytes)
{
    lt_watch(p, bytes, LT_WRITES + LT_ANYWHERE, __builtin_return_address(0));
}

LT_UNWATCHED void __tsan_init(void) {}

LT_UNWATCHED static void *lt_move(void *to, const void *from, size_t bytes, const void *pc)
{
    char *d = to;
    const char *s = from;
    lt_watch(from, bytes, LT_READS + LT_ANYWHERE, pc);
    lt_watch(to, bytes, LT_WRITES + LT_ANYWHERE, pc);
    if (d < s) for (size_t i = 0; i < bytes; i++) d[i] = s[i];
    else for (size_t i = bytes; i-- > 0;) d[i] = s[i];
    return to;
}

LT_UNWATCHED void *memmove(void *to, const void *from, size_t bytes)
{
    return lt_move(to, from, bytes, __builtin_return_address(0));
}

LT_UNWATCHED void *memcpy(void *to, const void *from, size_t bytes)
{
    return lt_move(to, from, bytes, __builtin_return_address(0));
}

LT_UNWATCHED void *memset(void *to, int byte, size_t bytes)
{
    lt_watch(to, bytes, LT_WRITES + LT_ANYWHERE, __builtin_return_address(0));
    for (size_t i = 0; i < bytes; i++) ((char *)to)[i] = (char)byte;
    return to;
}

/* What the host wants to know: ORDER MODULE in runtime/cpu/gcc.c. */
__attribute__((visibility("default"))) void *const lt_module[] = { lt_entry, &lt_cur, lt_calls };
