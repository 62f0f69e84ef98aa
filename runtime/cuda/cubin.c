/* cubin.c: reads a cubin, a 64-bit little-endian ELF file of NVIDIA's. Every offset in it is
 * checked before it is used. Knows nothing of drivers and compilers. */
#include "cubin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ELF_HEADER = 64,
    SECTION_HEADER = 64,
    SYMBOL = 24,
    RESERVED_SHARED = 1024, /* that sm_90 and later put in front of a kernel's static memory */
};

enum { MACHINE_CUDA = 190, TYPE_NOBITS = 8, TYPE_INFO = 0x70000000, SYMBOL_IS_KERNEL = 0x10 };

enum {
    INFO_MAX_THREADS = 0x05,
    INFO_FRAME = 0x11,
    INFO_PARAM = 0x17,
    INFO_REGISTERS = 0x2f,
    INFO_CLUSTER = 0x3d,
    INFO_ANNOTATIONS = 0x55, /* pairs {kind, place}; kind 1 is a store or load of a spill */
    COMPAT_EXACT = 0x09,
}; /* attributes of .nv.info, .nv.info.NAME and .nv.compat */

enum { FORMAT_BYTES = 4 }; /* of a record: the value is the length of what follows */

typedef struct {
    lt_span image;
    uint64_t sections; /* where the headers are */
    unsigned count;
    lt_span names; /* of sections */
} elf;

typedef struct {
    const char *name;
    uint32_t type, link;
    uint64_t size;
    lt_span bytes; /* empty where the file holds none */
} section;

typedef struct {
    unsigned attribute;
    unsigned value; /* where nothing follows */
    lt_span payload;
} record;

static unsigned u16(const void *p)
{
    const unsigned char *b = p;
    return b[0] | (unsigned)b[1] << 8;
}

static uint32_t u32(const void *p)
{
    return u16(p) | (uint32_t)u16((const char *)p + 2) << 16;
}

static uint64_t u64(const void *p)
{
    return u32(p) | (uint64_t)u32((const char *)p + 4) << 32;
}

/* The part of s that begins at offset. False where it is not all inside. */
static bool part(lt_span s, uint64_t offset, uint64_t len, lt_span *out)
{
    if (offset > s.len || len > s.len - offset) return false;
    *out = (lt_span){(const char *)s.ptr + offset, (size_t)len};
    return true;
}

/* The text at offset in a table of texts, NULL where it does not end inside. */
static const char *text_at(lt_span table, uint64_t offset)
{
    lt_span rest;
    if (offset >= table.len || !part(table, offset, table.len - offset, &rest)) return NULL;
    return memchr(rest.ptr, 0, rest.len) ? rest.ptr : NULL;
}

static bool read_section(const elf *e, unsigned index, section *out)
{
    lt_span header;
    if (index >= e->count ||
        !part(e->image, e->sections + (uint64_t)index * SECTION_HEADER, SECTION_HEADER, &header))
        return false;
    const char *h = header.ptr;
    *out = (section){.type = u32(h + 4), .link = u32(h + 40), .size = u64(h + 32)};
    out->name = e->names.len ? text_at(e->names, u32(h)) : "";
    if (!out->name) return false;
    if (out->type == TYPE_NOBITS || !out->size) return true;
    return part(e->image, u64(h + 24), out->size, &out->bytes);
}

/* 1 found, 0 there is none, -1 the table is damaged. The name is prefix and rest together. */
static int find_section(const elf *e, const char *prefix, const char *rest, section *out)
{
    const size_t len = strlen(prefix);
    for (unsigned i = 1; i < e->count; i++) {
        section s;
        if (!read_section(e, i, &s)) return -1;
        if (!strncmp(s.name, prefix, len) && !strcmp(s.name + len, rest)) {
            *out = s;
            return 1;
        }
    }
    return 0;
}

static int open_elf(lt_span image, elf *out, lt_err *err)
{
    const unsigned char *h = image.ptr;
    if (image.len < ELF_HEADER || memcmp(h, "\177ELF\2\1", 6) || u16(h + 18) != MACHINE_CUDA)
        return lt_fail(err, "this is no CUDA image (%zu bytes)", image.len);
    elf e = {.image = image, .sections = u64(h + 40), .count = u16(h + 60)};
    lt_span all;
    if (u16(h + 58) != SECTION_HEADER ||
        !part(image, e.sections, (uint64_t)e.count * SECTION_HEADER, &all))
        return lt_fail(err, "the image is cut off: no table of sections");
    section names;
    if (!read_section(&e, u16(h + 62), &names) || !names.bytes.len)
        return lt_fail(err, "the image is damaged: no names of sections");
    e.names = names.bytes;
    *out = e;
    return 0;
}

/* The kernel's number in the table of symbols. */
static int find_symbol(const elf *e, const char *kernel, uint32_t *out, lt_err *err)
{
    section table, names;
    if (find_section(e, ".symtab", "", &table) != 1 || !read_section(e, table.link, &names))
        return lt_fail(err, "the image is damaged: no table of symbols");
    const char *symbols = table.bytes.ptr;
    const size_t count = table.bytes.len / SYMBOL;
    for (size_t i = 0; i < count; i++) {
        const char *s = symbols + i * SYMBOL;
        const char *name = text_at(names.bytes, u32(s));
        if (!name) return lt_fail(err, "the image is damaged: a symbol without a name");
        if ((s[5] & SYMBOL_IS_KERNEL) && !strcmp(name, kernel)) {
            *out = (uint32_t)i;
            return 0;
        }
    }
    return lt_fail(err, "the image has no kernel of this name");
}

/* The record at *at, which moves on. 1 read, 0 at the end, -1 damaged. */
static int next_record(lt_span records, size_t *at, record *out)
{
    lt_span head, payload = {NULL, 0};
    if (*at == records.len) return 0;
    if (!part(records, *at, 4, &head)) return -1;
    const unsigned char *h = head.ptr;
    *out = (record){.attribute = h[1], .value = u16(h + 2)};
    if (h[0] == FORMAT_BYTES && !part(records, *at + 4, out->value, &payload)) return -1;
    out->payload = payload;
    *at += 4 + payload.len;
    return 1;
}

static void take_common(lt_cubin *c, const record *r, uint32_t symbol)
{
    const char *p = r->payload.ptr;
    if (r->payload.len < 8 || u32(p) != symbol) return;
    if (r->attribute == INFO_REGISTERS) c->facts.registers = (int)(u32(p + 4) & 0xffff);
    if (r->attribute == INFO_FRAME) c->facts.stack_bytes = (int)(u32(p + 4) & 0x7fffffff);
}

/* seen: a bit for each parameter. */
static int take_own(lt_cubin *c, const record *r, uint32_t *seen, lt_err *err)
{
    const char *p = r->payload.ptr;
    const size_t len = r->payload.len;
    switch (r->attribute) {
    case INFO_MAX_THREADS:
        for (int i = 0; len >= 12 && i < 3; i++) c->max_threads[i] = u32(p + 4 * i);
        break;
    case INFO_CLUSTER:
        for (int i = 0; len >= 12 && i < 3; i++) c->cluster[i] = u32(p + 4 * i);
        break;
    case INFO_ANNOTATIONS:
        for (size_t i = 0; i + 8 <= len; i += 8) c->facts.spills += u32(p + i) == 1;
        break;
    case INFO_PARAM: {
        if (len < 12) return lt_fail(err, "the image is damaged: a parameter without a size");
        const unsigned place = u16(p + 4);
        if (place >= LT_MAX_PARAMS)
            return lt_fail(err, "parameter %u is more than the %d that a kernel may have", place,
                           LT_MAX_PARAMS);
        c->params[place] = (lt_cubin_param){u16(p + 6), u32(p + 8) >> 18};
        *seen |= 1u << place;
        break;
    }
    default: break;
    }
    return 0;
}

/* Parameters come in any order; together they are 0 .. count - 1. */
static int count_params(lt_cubin *c, uint32_t seen, lt_err *err)
{
    _Static_assert(LT_MAX_PARAMS <= 32, "seen has a bit for each");
    while (seen & 1u << c->param_count) c->param_count++;
    if (seen >> c->param_count)
        return lt_fail(err, "the image is damaged: parameter %d is missing", c->param_count);
    return 0;
}

static int read_info(const elf *e, const char *kernel, uint32_t symbol, lt_cubin *c, lt_err *err)
{
    section common, own;
    if (find_section(e, ".nv.info", "", &common) != 1 ||
        find_section(e, ".nv.info.", kernel, &own) != 1 || common.type != TYPE_INFO ||
        own.type != TYPE_INFO)
        return lt_fail(err, "the image is damaged: no facts about the kernel");
    record r;
    size_t at = 0;
    uint32_t seen = 0;
    int more;
    while ((more = next_record(common.bytes, &at, &r)) == 1) take_common(c, &r, symbol);
    if (more < 0) return lt_fail(err, "the image is damaged: a fact is cut off");
    for (at = 0; (more = next_record(own.bytes, &at, &r)) == 1;)
        if (take_own(c, &r, &seen, err)) return -1;
    if (more < 0) return lt_fail(err, "the image is damaged: a fact of the kernel is cut off");
    return count_params(c, seen, err);
}

/* What the sections' sizes say: static shared memory, and whether the target is an exact one. */
static int read_sections(const elf *e, const char *kernel, lt_cubin *c, lt_err *err)
{
    section shared, compat, text;
    const int has_text = find_section(e, ".text.", kernel, &text);
    const int has_shared = find_section(e, ".nv.shared.", kernel, &shared);
    const int has_compat = find_section(e, ".nv.compat", "", &compat);
    if (has_text != 1 || !text.size || has_shared < 0 || has_compat < 0)
        return lt_fail(err, "the image is damaged: no code of the kernel");
    if (has_shared == 1) {
        const bool reserved = c->sm >= 90 && shared.size >= RESERVED_SHARED;
        const uint64_t bytes = shared.size - (reserved ? RESERVED_SHARED : 0);
        if (bytes > INT32_MAX)
            return lt_fail(err, "the image is damaged: %" PRIu64 " bytes of shared memory", bytes);
        c->facts.shared_bytes = (int)bytes;
    }
    record r;
    size_t at = 0;
    while (has_compat == 1 && next_record(compat.bytes, &at, &r) == 1)
        if (r.attribute == COMPAT_EXACT) c->exact = (r.value & 0xff) == 1;
    return 0;
}

int lt_cubin_read(lt_span image, const char *kernel, lt_cubin *out, lt_err *err)
{
    lt_cubin c = {.facts.image_bytes = image.len, .cluster = {1, 1, 1}};
    elf e;
    uint32_t symbol = 0;
    if (strlen(kernel) >= sizeof c.name) return lt_fail(err, "%s: the name is too long", kernel);
    strcpy(c.name, kernel);
    if (open_elf(image, &e, err)) goto fail;
    const unsigned char *h = image.ptr;
    const uint32_t flags = u32(h + 48);
    c.sm = h[8] >= 8 ? (int)(flags >> 8 & 0xff) : (int)(flags & 0xff); /* 8: the ABI of CUDA 13 */
    if (find_symbol(&e, kernel, &symbol, err) || read_info(&e, kernel, symbol, &c, err) ||
        read_sections(&e, kernel, &c, err))
        goto fail;
    *out = c;
    return 0;
fail:
    return lt_wrap(err, "%s", kernel);
}

/* Code and what it refers to, section by section. */
int lt_cubin_digest(lt_span image, const lt_facts *facts, char code[17], lt_err *err)
{
    static const char *const parts[] = {".text.", ".nv.constant", ".nv.global", ".rel"};
    char digest[65];
    elf e;
    lt_bytes all = {0};
    int failed = open_elf(image, &e, err) ||
                 lt_bytes_print(&all, err, "%d %d\n", facts->registers, facts->shared_bytes);
    for (unsigned i = 1; !failed && i < e.count; i++) {
        section s;
        bool wanted = false;
        if (!read_section(&e, i, &s))
            failed = lt_fail(err, "the image is damaged: a section lies outside");
        for (size_t k = 0; k < lt_countof(parts) && !failed; k++)
            wanted = wanted || !strncmp(s.name, parts[k], strlen(parts[k]));
        if (wanted) failed = lt_bytes_append(&all, s.bytes.ptr, s.bytes.len, err);
    }
    lt_sha256_hex(lt_bytes_view(&all), digest);
    lt_bytes_clear(&all);
    snprintf(code, 17, "%.16s", digest);
    return failed ? -1 : 0;
}

static int compare_arch(const lt_cubin *c, const lt_source *src, lt_err *err)
{
    char built[16], *end = built;
    end += snprintf(built, sizeof built - 1, "sm_%d", c->sm);
    if (c->exact) *end++ = 'a', *end = 0;
    const bool family = src->arch[0] && src->arch[strlen(src->arch) - 1] == 'f';
    const size_t len = strlen(built);
    if (!strncmp(src->arch, built, len) && (!src->arch[len] || (family && !src->arch[len + 1])))
        return 0;
    return lt_fail(err, "%s: the image is for %s, the source for %s", c->name, built, src->arch);
}

int lt_cubin_compare(const lt_cubin *c, const lt_source *src, lt_err *err)
{
    if (strcmp(c->name, src->name))
        return lt_fail(err, "%s: the image holds the kernel %s", src->name, c->name);
    if (compare_arch(c, src, err)) return -1;
    if (c->param_count != src->param_count)
        return lt_fail(err, "%s: the image has %d parameters, the generator means %d", c->name,
                       c->param_count, src->param_count);
    for (int i = 0; i < c->param_count; i++)
        if (c->params[i].offset != 8 * (unsigned)i || c->params[i].bytes != 8)
            return lt_fail(err,
                           "%s: parameter %d, '%s', has %u bytes at %u in the image, the generator "
                           "means 8 at %d",
                           c->name, i, src->params[i].name, c->params[i].bytes, c->params[i].offset,
                           8 * i);
    const uint64_t threads = (uint64_t)c->max_threads[0] * c->max_threads[1] * c->max_threads[2];
    if (threads && threads != (uint64_t)src->threads)
        return lt_fail(err, "%s: the image is for blocks of %" PRIu64 " threads, the launch has %d",
                       c->name, threads, src->threads);
    const unsigned cluster = src->cluster ? (unsigned)src->cluster : 1;
    if (c->cluster[0] != cluster || c->cluster[1] != 1 || c->cluster[2] != 1)
        return lt_fail(err,
                       "%s: the image is for clusters of %u x %u x %u blocks, the launch has %u",
                       c->name, c->cluster[0], c->cluster[1], c->cluster[2], cluster);
    return 0;
}
