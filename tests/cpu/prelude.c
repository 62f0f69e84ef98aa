/* prelude.c: the two preludes have the same names, every name is used by a case, every case
 * compiles for the GPUs without a word from the compiler, and on the CPU device gives what plain C
 * says, in every order of threads. */
#include "tests/prelude/cases.h"
#include "tests/prelude/run.h"

#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static lt_device *cpu;
static lt_bytes cuda_prelude, cpu_prelude;
static bool has_nvrtc;

/* ---- names ---- */

enum { MOST_NAMES = 256 };

typedef struct {
    char name[MOST_NAMES][48];
    int count;
} names;

static bool has_name(const names *set, const char *name)
{
    for (int i = 0; i < set->count; i++)
        if (strcmp(set->name[i], name) == 0) return true;
    return false;
}

static bool is_public(const char *word)
{
    static const char *const internal[] = {
        "LT_PRAGMA", "LT_MMA", "lt_shared_address", "lt_cluster_address", /* of cuda.h, cluster.h */
        "lt_thread", "lt_cur", "lt_word",           "LT_HERE",            /* of cpu.h */
    };
    for (size_t i = 0; i < lt_countof(internal); i++)
        if (strcmp(word, internal[i]) == 0) return false;
    if (strncmp(word, "lt_cpu_", 7) == 0) return false;       /* of cpu.h */
    if (strncmp(word, "LT_WGMMA", 8) == 0) return false;      /* of wgmma.h */
    if (strncmp(word, "LT_RESIDENT_", 12) == 0) return false; /* of resident.h */
    return strncmp(word, "lt_", 3) == 0 || strncmp(word, "LT_", 3) == 0 ||
           strcmp(word, "__syncthreads") == 0 || strcmp(word, "__syncwarp") == 0;
}

static const char *skip_comment(const char *p)
{
    const char *end = p[0] == '/' && p[1] == '*'   ? strstr(p + 2, "*/")
                      : p[0] == '/' && p[1] == '/' ? strchr(p + 2, '\n')
                                                   : NULL;
    return !end ? p : *end == '\n' ? end : end + 2;
}

/* Adds the public names in a C text, outside comments. */
static void collect(const char *p, names *set)
{
    while (*(p = skip_comment(p))) {
        if (!isalpha((unsigned char)*p) && *p != '_') {
            p++;
            continue;
        }
        const char *start = p;
        while (isalnum((unsigned char)*p) || *p == '_') p++;
        char word[48];
        if (p - start >= (ptrdiff_t)sizeof word) continue;
        memcpy(word, start, (size_t)(p - start));
        word[p - start] = '\0';
        if (!is_public(word) || has_name(set, word)) continue;
        assert_true(set->count < MOST_NAMES);
        strcpy(set->name[set->count++], word);
    }
}

/* All of `part` are in `whole`, but for CUDA's own two, which cuda.h need not mention. */
static void assert_part(const names *part, const names *whole, const char *where)
{
    for (int i = 0; i < part->count; i++)
        if (!has_name(whole, part->name[i]) && part->name[i][0] != '_')
            fail_msg("%s is not in %s", part->name[i], where);
}

static void both_preludes_have_the_same_names(void **state)
{
    (void)state;
    names cuda = {.count = 0}, host = {.count = 0};
    collect(cuda_prelude.ptr, &cuda);
    collect(cpu_prelude.ptr, &host);
    assert_in_range(cuda.count, 60, MOST_NAMES);
    assert_part(&cuda, &host, "cpu.h");
    assert_part(&host, &cuda, "cuda.h");
    assert_true(has_name(&host, "__syncthreads") && has_name(&host, "__syncwarp"));
}

static void every_name_is_used_by_a_case(void **state)
{
    (void)state;
    names host = {.count = 0}, used = {.count = 0};
    collect(cpu_prelude.ptr, &host);
    for (size_t i = 0; i < lt_countof(prelude_cases); i++) {
        collect(prelude_cases[i].text, &used);
        if (prelude_cases[i].next) collect(prelude_cases[i].next, &used);
    }
    for (int i = 0; i < host.count; i++)
        if (!has_name(&used, host.name[i])) fail_msg("no case uses %s", host.name[i]);
}

/* The names declared by cpu.h's lines that begin with `extern`; those with lt_cpu_ are the
 * device's. */
static void every_extern_of_cpu_h_is_a_symbol(void **state)
{
    (void)state;
    int count = 0;
    for (const char *line = cpu_prelude.ptr; line; line = strstr(line + 1, "\nextern ")) {
        if (line == cpu_prelude.ptr) continue;
        for (const char *p = line; *p != ';'; p++) {
            if (*p != '(') continue;
            const char *start = p;
            char name[64];
            while (isalnum((unsigned char)start[-1]) || start[-1] == '_') start--;
            snprintf(name, sizeof name, "%.*s", (int)(p - start), start);
            if (strncmp(name, "lt_cpu_", 7) == 0) break;
            if (!case_host(name)) fail_msg("no symbol %s", name);
            count++;
            p = strchr(p, ')');
        }
    }
    assert_in_range(count, 20, 60);
}

/* ---- NVRTC ---- */

typedef struct {
    lt_nvrtc_job job;
    char name[64];
    lt_bytes text;
} compile;

static void add_compile(compile *list, size_t *count, const char *name, const char *text,
                        const char *arch)
{
    lt_err err;
    compile *c = list + (*count)++;
    snprintf(c->name, sizeof c->name, "%s", name);
    assert_int_equal(whole_text(lt_bytes_view(&cuda_prelude), name, text, &c->text, &err), 0);
    c->job = (lt_nvrtc_job){.name = c->name, .arch = arch, .text = lt_bytes_view(&c->text)};
}

static size_t list_compiles(compile *list)
{
    static const char *const archs[] = {"sm_90a", "sm_121a"};
    size_t count = 0;
    for (size_t a = 0; a < lt_countof(archs); a++) {
        for (size_t i = 0; i < lt_countof(prelude_cases); i++) {
            const prelude_case *c = prelude_cases + i;
            if (c->fp4 && a == 0) continue;
            add_compile(list, &count, c->name, c->text, archs[a]);
            if (c->next) add_compile(list, &count, c->next_name, c->next, archs[a]);
        }
        for (size_t i = 0; i < lt_countof(prelude_sweeps); i++) {
            char text[4096];
            sweep_text(prelude_sweeps + i, text, sizeof text);
            add_compile(list, &count, prelude_sweeps[i].name, text, archs[a]);
        }
    }
    return count;
}

static void every_case_compiles_for_the_gpus_without_a_warning(void **state)
{
    (void)state;
    if (!has_nvrtc) skip();
    static compile list[3 * (lt_countof(prelude_cases) + lt_countof(prelude_sweeps))];
    static lt_nvrtc_job jobs[lt_countof(list)];
    lt_err err;
    const size_t count = list_compiles(list);
    for (size_t i = 0; i < count; i++) jobs[i] = list[i].job;
    assert_int_equal(lt_nvrtc_compile_many(jobs, count, NULL, NULL, NULL, &err), 0);
    for (size_t i = 0; i < count; i++) {
        const char *log = jobs[i].log.len ? jobs[i].log.ptr : "";
        if (jobs[i].failed) fail_msg("%s %s: %s", jobs[i].name, jobs[i].arch, jobs[i].err.text);
        if (log[strspn(log, " \n")]) fail_msg("%s %s: %s", jobs[i].name, jobs[i].arch, log);
        assert_true(jobs[i].image.len > 0);
        lt_bytes_clear(&jobs[i].image);
        lt_bytes_clear(&jobs[i].log);
        lt_bytes_clear(&list[i].text);
    }
}

/* Registers of a thread, in a kernel that may have `blocks` blocks of `threads` on a
 * multiprocessor. */
static int registers_of(unsigned threads, unsigned blocks)
{
    char text[256];
    lt_bytes whole = {0};
    lt_err err;
    lt_cubin cubin;
    snprintf(text, sizeof text,
             "LT_KERNEL(%u, %u) few(u32 *out, const u32 *in, u32 *work)\n"
             "{\n    lt_resident_at_most(%u, %u);\n    out[threadIdx.x] = in[threadIdx.x];\n}\n",
             threads, blocks, threads, blocks);
    assert_int_equal(whole_text(lt_bytes_view(&cuda_prelude), "few", text, &whole, &err), 0);
    lt_nvrtc_job job = {.name = "few", .arch = "sm_90a", .text = lt_bytes_view(&whole)};
    assert_int_equal(lt_nvrtc_compile_many(&job, 1, NULL, NULL, NULL, &err), 0);
    if (job.failed) fail_msg("%u threads, %u blocks: %s", threads, blocks, job.err.text);
    assert_int_equal(lt_cubin_read(lt_bytes_view(&job.image), "few", &cubin, &err), 0);
    lt_bytes_clear(&job.image);
    lt_bytes_clear(&job.log);
    lt_bytes_clear(&whole);
    return cubin.facts.registers;
}

/* Do so many warps find registers on a multiprocessor, whose four parts have 512 a lane each? */
static bool find_registers(unsigned warps, int registers)
{
    return (warps + 3) / 4 * (unsigned)registers <= 512;
}

static void no_more_blocks_find_registers_than_may_be_resident(void **state)
{
    (void)state;
    if (!has_nvrtc) skip();
    static const unsigned threads[] = {64, 96, 128, 192, 256, 288, 352, 512, 1024};
    for (size_t i = 0; i < lt_countof(threads); i++) {
        const unsigned warps = threads[i] / 32;
        for (unsigned blocks = 1; blocks * warps <= 64; blocks *= 2) {
            if (blocks * warps <= 8) continue; /* they leave more than a kernel can have */
            const int registers = registers_of(threads[i], blocks);
            if (!find_registers(warps * blocks, registers) ||
                find_registers(warps * (blocks + 1), registers))
                fail_msg("%u threads, %u blocks: %d registers", threads[i], blocks, registers);
        }
    }
}

/* ---- the CPU device ---- */

static void check_output(const prelude_case *c, const char *how, const uint32_t *out,
                         const uint32_t *want)
{
    size_t differ = 0, first = 0;
    for (size_t i = c->out; i-- > 0;)
        if (!case_same(c->same, out[i], want[i])) {
            differ++;
            first = i;
        }
    if (differ)
        fail_msg("%s, %s: %zu of %zu words differ, the first at %zu: 0x%08x, not 0x%08x", c->name,
                 how, differ, c->out, first, out[first], want[first]);
}

static void check_case(const prelude_case *c, int model, const lt_play *plays, size_t count)
{
    const case_place at = {cpu, lt_bytes_view(&cpu_prelude), model};
    uint32_t *in = malloc(4 * c->in), *out = malloc(4 * c->out), *want = calloc(c->out, 4);
    lt_err err;
    assert_true(in && out && want);
    c->fill(in, c->in);
    c->expect(in, want, c->out, model);
    for (size_t i = 0; i < count; i++) {
        char how[64];
        snprintf(how, sizeof how, "model %d, order %d%s", model, plays[i].order,
                 plays[i].lazy ? ", lazy" : "");
        assert_int_equal(lt_device_play(cpu, plays + i, &err), 0);
        if (run_case(&at, c, in, out, &err)) fail_msg("%s: %s", how, err.text);
        check_output(c, how, out, want);
    }
    free(in);
    free(out);
    free(want);
}

static void every_case_gives_what_plain_c_says_in_every_order(void **state)
{
    (void)state;
    static const lt_play plays[] = {{.order = 0},
                                    {.order = 1},
                                    {.order = 2},
                                    {.order = 0, .lazy = true},
                                    {.order = 3, .lazy = true, .left = true}};
    for (size_t i = 0; i < lt_countof(prelude_cases); i++)
        check_case(prelude_cases + i, prelude_cases[i].fp4 ? 120 : 90, plays, lt_countof(plays));
}

static void the_arithmetic_of_sm_120_is_chosen_by_the_model(void **state)
{
    (void)state;
    static const lt_play plays[] = {{.order = 0}};
    for (size_t i = 0; i < lt_countof(prelude_cases); i++)
        if (strstr(prelude_cases[i].name, "mma")) check_case(prelude_cases + i, 120, plays, 1);
}

static void every_sweep_is_the_sum_of_the_host(void **state)
{
    (void)state;
    const case_place at = {cpu, lt_bytes_view(&cpu_prelude), 90};
    for (size_t i = 0; i < lt_countof(prelude_sweeps); i++) {
        uint64_t sum;
        lt_err err;
        if (run_sweep(&at, prelude_sweeps + i, 3, 40000, 107371, &sum, &err))
            fail_msg("%s", err.text);
        assert_int_equal(sum, sweep_on_host(prelude_sweeps + i, 40000, 107371));
    }
}

static int open_all(void **state)
{
    (void)state;
    lt_err err = {""};
    lt_nvrtc_compiler compiler;
    if (lt_config_read(&err) || read_prelude("sm_90a", &cuda_prelude, &err) ||
        read_prelude("cpu", &cpu_prelude, &err) || lt_device_open(&cpu, "cpu", &err)) {
        print_message("%s\n", err.text);
        return -1;
    }
    has_nvrtc = lt_nvrtc_identity(&compiler, NULL, &err) == 0;
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    lt_device_close(cpu);
    lt_bytes_clear(&cuda_prelude);
    lt_bytes_clear(&cpu_prelude);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], LT_NVRTC_CHILD) == 0) return lt_nvrtc_child();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_preludes_have_the_same_names),
        cmocka_unit_test(every_name_is_used_by_a_case),
        cmocka_unit_test(every_extern_of_cpu_h_is_a_symbol),
        cmocka_unit_test(every_case_compiles_for_the_gpus_without_a_warning),
        cmocka_unit_test(no_more_blocks_find_registers_than_may_be_resident),
        cmocka_unit_test(every_case_gives_what_plain_c_says_in_every_order),
        cmocka_unit_test(the_arithmetic_of_sm_120_is_chosen_by_the_model),
        cmocka_unit_test(every_sweep_is_the_sum_of_the_host),
    };
    return cmocka_run_group_tests_name("prelude", tests, open_all, close_all);
}
