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

typedef struct {
    const char *bytes;
    const Elf64_Shdr *sections, *stabs, *strings, *symbols, *relocations;
} object;

static const char *at(const object *o, const Elf64_Shdr *s)
{
    return o->bytes + s->sh_offset;
}

static void find_sections(object *o, const char *bytes)
{
    const Elf64_Ehdr *head = (const Elf64_Ehdr *)bytes;
    *o = (object){.bytes = bytes, .sections = (const Elf64_Shdr *)(bytes + head->e_shoff)};
    const char *names = at(o, &o->sections[head->e_shstrndx]);
    for (int i = 0; i < head->e_shnum; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        const char *name = names + s->sh_name;
        if (!strcmp(name, ".stab")) o->stabs = s;
        if (!strcmp(name, ".stabstr")) o->strings = s;
        if (!strcmp(name, ".rela.stab")) o->relocations = s;
        if (s->sh_type == SHT_SYMTAB) o->symbols = s;
    }
}

/* The offset of lt_entry in the code; -1: not found. */
static long find_entry(const object *o)
{
    const Elf64_Sym *symbols = (const Elf64_Sym *)at(o, o->symbols);
    const char *names = at(o, &o->sections[o->symbols->sh_link]);
    for (size_t i = 0; i < o->symbols->sh_size / sizeof *symbols; i++)
        if (!strcmp(names + symbols[i].st_name, "lt_entry")) return (long)symbols[i].st_value;
    return -1;
}

/* The offset of the function that stab number `index` begins. */
static long find_function(const object *o, size_t index, uint32_t value)
{
    if (!o->relocations) return value;
    const Elf64_Rela *r = (const Elf64_Rela *)at(o, o->relocations);
    const Elf64_Sym *symbols = (const Elf64_Sym *)at(o, o->symbols);
    for (size_t i = 0; i < o->relocations->sh_size / sizeof *r; i++)
        if (r[i].r_offset == index * sizeof(stab) + offsetof(stab, value))
            return (long)(symbols[ELF64_R_SYM(r[i].r_info)].st_value + (uint64_t)r[i].r_addend);
    return value;
}

/* The last line that begins at or before the offset. */
static int find_line(const object *o, long offset, char *out, size_t size)
{
    const stab *s = (const stab *)at(o, o->stabs);
    const char *strings = at(o, o->strings), *file = "?";
    long function = 0, best = -1;
    for (size_t i = 0; i < o->stabs->sh_size / sizeof *s; i++) {
        const char *text = strings + s[i].text;
        if ((s[i].type == FILE_FIRST || s[i].type == FILE_NEXT) && *text) file = text;
        if (s[i].type == FUNCTION && *text) function = find_function(o, i, s[i].value);
        const long begin = function + (long)s[i].value;
        if (s[i].type != LINE || begin > offset || begin < best) continue;
        best = begin;
        snprintf(out, size, "%.400s:%u", file, s[i].line);
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
    const int fd = compile(k->text);
    int rc = -1;
    if (fd < 0) return -1;
    const off_t bytes = lseek(fd, 0, SEEK_END);
    void *map = bytes > 0 ? mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED) return -1;
    object o;
    find_sections(&o, map);
    const long entry = o.symbols ? find_entry(&o) : -1;
    if (entry >= 0 && o.stabs && o.strings)
        rc = find_line(&o, entry + (pc - (const char *)k->entry), out, size);
    munmap(map, (size_t)bytes);
    return rc;
}
