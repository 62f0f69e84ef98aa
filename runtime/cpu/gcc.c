/* gcc.c: from text to code with gcc, whose -fsanitize=thread makes a call of each access. The text
 * is followed by templates/prelude/hooks.h, which has those calls, and by a jump for each function
 * of the host, so that neither the program nor the C library has to show its symbols. Everything
 * is in files without a name: nothing is left behind. */
#define _GNU_SOURCE /* memfd_create, dlinfo */
#include "emulator.h"
#include "intrinsics.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ORDER MODULE: lt_module of hooks.h */
typedef struct {
    void (*entry)(void **arguments);
    lt_thread **cur;
    void **calls;
} module;

/* No quotes of a locale in messages, and no names of options. What the program or the C library has
 * is no kernel's to call, declared or not. The same floats as libtcc's: no contraction, no
 * reordering. One call an access, none a function; what a copy touches is told by memmove, which
 * must stay a call. A null pointer is an address like others, and a call of the kernel has effects:
 * else gcc leaves out the kernel that is sure to fault. */
static const char *const compile_words[] = {"env",
                                            "LC_ALL=C",
                                            "gcc",
                                            "-x",
                                            "c",
                                            "-std=gnu11",
                                            "-Werror=implicit-function-declaration",
                                            "-fno-diagnostics-show-option",
                                            "-O1",
                                            "-g1",
                                            "-pipe",
                                            "-shared",
                                            "-fPIC",
                                            "-nostdlib",
                                            "-Wl,-z,defs",
                                            "-fvisibility=hidden",
                                            "-fsanitize=thread",
                                            "--param",
                                            "tsan-instrument-func-entry-exit=0",
                                            "-ffp-contract=off",
                                            "-fno-math-errno",
                                            "-fno-strict-aliasing",
                                            "-fwrapv",
                                            "-fno-delete-null-pointer-checks",
                                            "-fno-ipa-modref",
                                            "-fno-ipa-pure-const",
                                            "-fno-builtin-memcpy",
                                            "-fno-builtin-memmove",
                                            "-fno-builtin-memset",
                                            "-"};

/* ---- programs ---- */

/* Runs words[0] in the root folder, so that paths in line tables are as in the text. Its exit
 * status; -1: it cannot be started, or a signal ended it. */
static int run(const char *const *words, int in, int out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status = -1;
    if (posix_spawn_file_actions_init(&actions)) return -1;
    const bool ready = (in < 0 || !posix_spawn_file_actions_adddup2(&actions, in, 0)) &&
                       !posix_spawn_file_actions_adddup2(&actions, out, 1) &&
                       !posix_spawn_file_actions_adddup2(&actions, out, 2) &&
                       !posix_spawn_file_actions_addchdir_np(&actions, "/");
    const bool started =
        ready && !posix_spawnp(&pid, words[0], &actions, NULL, (char *const *)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (!started) return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A file without a name; -1: none. */
static int make_file(void)
{
    return memfd_create("lathe", MFD_CLOEXEC);
}

/* How a child of this process finds it. */
static void name_file(int file, char out[64])
{
    snprintf(out, 64, "/proc/%d/fd/%d", (int)getpid(), file);
}

int lt_gcc_find(lt_err *err)
{
    static const char *const words[] = {"gcc", "-dumpversion", NULL};
    const int file = make_file(), status = file < 0 ? -1 : run(words, -1, file);
    if (file >= 0) close(file);
    if (!status) return 0;
    return lt_fail(err, "LATHE_CPU_CHECK: no gcc is here, and it compiles what is checked (install "
                        "it or unset LATHE_CPU_CHECK)");
}

/* ---- text ---- */

/* mem..: hooks.h has them. */
static bool is_jump(const lt_symbol *s)
{
    return strncmp(s->name, "mem", 3) != 0;
}

static int count_jumps(const lt_symbol *s)
{
    int count = 0;
    for (; s->name; s++) count += is_jump(s);
    return count;
}

static int print_jumps(const lt_symbol *s, int first, lt_bytes *out, lt_err *err)
{
    for (; s->name; s++)
        if (is_jump(s) && lt_bytes_print(out, err, "__asm__(\"%s: jmp *lt_calls+%d(%%rip)\");\n",
                                         s->name, 8 * first++))
            return -1;
    return 0;
}

static int fill_jumps(const lt_symbol *s, int first, void **calls)
{
    for (; s->name; s++)
        if (is_jump(s)) calls[first++] = s->address;
    return first;
}

static int write_text(const char *text, lt_bytes *out, lt_err *err)
{
    const int calls = count_jumps(lt_cpu_calls), all = calls + count_jumps(lt_cpu_symbols);
    if (lt_bytes_print(out, err, "%s\n#line 1 \"hooks.h\"\nenum { LT_CALLS = %d };\n", text, all) ||
        lt_files_read("templates/prelude/hooks.h", out, err) ||
        lt_bytes_print(out, err, "__asm__(\".text\");\n"))
        return -1;
    return print_jumps(lt_cpu_calls, 0, out, err) || print_jumps(lt_cpu_symbols, calls, out, err);
}

static int put_text(int file, const lt_bytes *text, lt_err *err)
{
    for (size_t done = 0; done < text->len;) {
        const ssize_t n = write(file, text->ptr + done, text->len - done);
        if (n < 0) return lt_fail(err, "gcc: no memory for the text");
        done += (size_t)n;
    }
    lseek(file, 0, SEEK_SET);
    return 0;
}

/* ---- what gcc says ---- */

/* "file:line:column: error: text" becomes "file:line: text". */
static int report_errors(int log, lt_err *err)
{
    char said[4096];
    const ssize_t n = pread(log, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = 0;
    const char *missing = strstr(said, "undefined reference to ");
    if (missing) return lt_fail(err, "gcc: %.*s", (int)strcspn(missing, "\n"), missing);
    char *kind = strstr(said, "error: ");
    if (!kind) return lt_fail(err, "gcc: it does not compile: %.200s", said);
    char *line = kind, *text = kind + 7;
    while (line > said && line[-1] != '\n') line--;
    text[strcspn(text, "\n")] = 0;
    char *colon = memchr(line, ':', (size_t)(kind - line));
    if (colon) colon = memchr(colon + 1, ':', (size_t)(kind - colon - 1));
    return lt_fail(err, "%.*s: %s", (int)((colon ? colon : kind) - line), line, text);
}

static int compile(int text, int library, lt_err *err)
{
    char path[64];
    const char *words[lt_countof(compile_words) + 3];
    size_t count = 0;
    name_file(library, path);
    for (; count < lt_countof(compile_words); count++) words[count] = compile_words[count];
    words[count++] = "-o";
    words[count++] = path;
    words[count] = NULL;
    const int log = make_file();
    if (log < 0) return lt_fail(err, "gcc: no file for what it says");
    const int failed = run(words, text, log) && report_errors(log, err);
    close(log);
    return failed ? -1 : 0;
}

/* ---- code ---- */

/* What a library that lies at `base` has of memory: all of its segments, statics too. */
static size_t image_bytes(const char *base)
{
    const ElfW(Ehdr) *head = (const void *)base;
    const ElfW(Phdr) *segments = (const void *)(base + head->e_phoff);
    size_t end = 0;
    for (int i = 0; i < head->e_phnum; i++) {
        const ElfW(Phdr) *s = &segments[i];
        if (s->p_type == PT_LOAD && s->p_vaddr + s->p_memsz > end) end = s->p_vaddr + s->p_memsz;
    }
    return end;
}

static int open_library(lt_cpu_kernel *k, lt_err *err)
{
    char path[64];
    struct link_map *map;
    name_file(k->library_file, path);
    k->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!k->library) return lt_fail(err, "gcc: %s", dlerror());
    const module *m = dlsym(k->library, "lt_module");
    if (!m || dlinfo(k->library, RTLD_DI_LINKMAP, &map))
        return lt_fail(err, "gcc: the library has no lt_module");
    fill_jumps(lt_cpu_symbols, fill_jumps(lt_cpu_calls, 0, m->calls), m->calls);
    k->code = (char *)map->l_addr;
    k->code_bytes = image_bytes(k->code);
    k->entry = m->entry;
    k->cur = m->cur;
    if (k->code_bytes > LT_CODE_BYTES)
        return lt_fail(err, "gcc: %zu bytes of code, and a check can name lines of %d",
                       k->code_bytes, LT_CODE_BYTES);
    return 0;
}

int lt_gcc_load(lt_cpu_kernel *k, lt_err *err)
{
    lt_bytes whole = {0};
    const int text = make_file();
    k->library_file = make_file();
    const bool made = text >= 0 && k->library_file >= 0;
    if (!made) lt_fail(err, "gcc: no file for the text");
    const int failed = !made || write_text(k->text, &whole, err) || put_text(text, &whole, err) ||
                       compile(text, k->library_file, err) || open_library(k, err);
    lt_bytes_clear(&whole);
    if (text >= 0) close(text);
    if (failed) lt_gcc_unload(k);
    return failed ? -1 : 0;
}

void lt_gcc_unload(lt_cpu_kernel *k)
{
    if (k->library) dlclose(k->library);
    if (k->library_file >= 0) close(k->library_file);
    k->library = NULL;
    k->library_file = -1;
    k->code = NULL;
}

/* binutils come with gcc. */
int lt_gcc_line(const lt_cpu_kernel *k, const char *pc, char *out, size_t size)
{
    char path[64], address[32], said[512];
    const char *const words[] = {"addr2line", "-e", path, address, NULL};
    name_file(k->library_file, path);
    snprintf(address, sizeof address, "0x%zx", (size_t)(pc - k->code));
    const int log = make_file();
    if (log < 0) return -1;
    const int status = run(words, -1, log);
    const ssize_t n = pread(log, said, sizeof said - 1, 0);
    close(log);
    if (status || n <= 0) return -1;
    said[n] = 0;
    said[strcspn(said, " \n")] = 0; /* "(discriminator 2)" may follow */
    if (said[0] == '?') return -1;
    snprintf(out, size, "%s", said + strspn(said, "/"));
    return 0;
}
