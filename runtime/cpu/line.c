/* line.c: from a machine instruction of a kernel to the line of its template. libtcc's -g leaves
 * the code as it is, so the text is compiled once more, to an object, whose .stab section has the
 * lines (0.4 ms, and only after a fault). */
#define _GNU_SOURCE /* memfd_create */
#include "emulator.h"

#include <elf.h>
#include <libtcc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    uint32_t text; /* offset of a string */
    uint8_t type, other;
    uint16_t line;
    uint32_t value;
} stab;

enum { FUNCTION = 0x24, LINE = 0x44, FILE_FIRST = 0x64, FILE_NEXT = 0x84 };

/* Nothing in libtcc's object is aligned: its parts are copied out. */
typedef struct {
    const char *bytes;
    Elf64_Ehdr head;
    Elf64_Shdr stabs, strings, symbols, relocations; /* all zero: there is none */
} object;

static const char *at(const object *o, const Elf64_Shdr *s)
{
    return o->bytes + s->sh_offset;
}

static Elf64_Shdr section(const object *o, size_t index)
{
    Elf64_Shdr s;
    memcpy(&s, o->bytes + o->head.e_shoff + index * sizeof s, sizeof s);
    return s;
}

static Elf64_Sym symbol(const object *o, size_t index)
{
    Elf64_Sym s;
    memcpy(&s, at(o, &o->symbols) + index * sizeof s, sizeof s);
    return s;
}

static void find_sections(object *o, const char *bytes)
{
    *o = (object){.bytes = bytes};
    memcpy(&o->head, bytes, sizeof o->head);
    const Elf64_Shdr names = section(o, o->head.e_shstrndx);
    for (size_t i = 0; i < o->head.e_shnum; i++) {
        const Elf64_Shdr s = section(o, i);
        const char *name = at(o, &names) + s.sh_name;
        if (!strcmp(name, ".stab")) o->stabs = s;
        if (!strcmp(name, ".stabstr")) o->strings = s;
        if (!strcmp(name, ".rela.stab")) o->relocations = s;
        if (s.sh_type == SHT_SYMTAB) o->symbols = s;
    }
}

/* The offset of lt_entry in the code; -1: not found. */
static long find_entry(const object *o)
{
    const Elf64_Shdr names = section(o, o->symbols.sh_link);
    for (size_t i = 0; i < o->symbols.sh_size / sizeof(Elf64_Sym); i++) {
        const Elf64_Sym s = symbol(o, i);
        if (!strcmp(at(o, &names) + s.st_name, "lt_entry")) return (long)s.st_value;
    }
    return -1;
}

/* The offset of the function that stab number `index` begins. */
static long find_function(const object *o, size_t index, uint32_t value)
{
    for (size_t i = 0; i < o->relocations.sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        memcpy(&r, at(o, &o->relocations) + i * sizeof r, sizeof r);
        if (r.r_offset == index * sizeof(stab) + offsetof(stab, value))
            return (long)(symbol(o, ELF64_R_SYM(r.r_info)).st_value + (uint64_t)r.r_addend);
    }
    return value;
}

/* The last line that begins at or before the offset. */
static int find_line(const object *o, long offset, char *out, size_t size)
{
    const char *file = "?";
    long function = 0, best = -1;
    for (size_t i = 0; i < o->stabs.sh_size / sizeof(stab); i++) {
        stab s;
        memcpy(&s, at(o, &o->stabs) + i * sizeof s, sizeof s);
        const char *text = at(o, &o->strings) + s.text;
        if ((s.type == FILE_FIRST || s.type == FILE_NEXT) && *text) file = text;
        if (s.type == FUNCTION && *text) function = find_function(o, i, s.value);
        const long begin = function + (long)s.value;
        if (s.type != LINE || begin > offset || begin < best) continue;
        best = begin;
        snprintf(out, size, "%.400s:%u", file, s.line);
    }
    return best < 0 ? -1 : 0;
}

static void ignore(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

/* The object of the text in a file without a name; -1: none. */
static int compile(const char *text)
{
    char path[64];
    const int fd = memfd_create("lathe", MFD_CLOEXEC);
    TCCState *tcc = fd < 0 ? NULL : tcc_new();
    bool done = false;
    if (tcc) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        tcc_set_error_func(tcc, NULL, ignore);
        tcc_set_options(tcc, LT_TCC_OPTIONS " -g");
        tcc_set_output_type(tcc, TCC_OUTPUT_OBJ);
        done = !tcc_compile_string(tcc, text) && !tcc_output_file(tcc, path);
        tcc_delete(tcc);
    }
    if (done) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

int lt_line_find(const lt_cpu_kernel *k, const char *pc, char *out, size_t size)
{
    if (k->library) return lt_gcc_line(k, pc, out, size);
    const int fd = compile(k->text);
    int rc = -1;
    if (fd < 0) return -1;
    const off_t bytes = lseek(fd, 0, SEEK_END);
    void *map = bytes > 0 ? mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED) return -1;
    object o;
    find_sections(&o, map);
    const long entry = o.symbols.sh_size ? find_entry(&o) : -1;
    if (entry >= 0) rc = find_line(&o, entry + (pc - (const char *)k->entry), out, size);
    munmap(map, (size_t)bytes);
    return rc;
}
