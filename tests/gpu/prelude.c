/* prelude.c: each case of the preludes on cuda:0 and on the CPU device, compared bit for bit, and
 * each sweep on cuda:0 against the same sum by the host. Needs a GPU and no CUDA headers. */
#include "tests/prelude/cases.h"
#include "tests/prelude/run.h"

#include "runtime/cuda/nvrtc.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    STRIDE = 97, /* of the sweeps' bit patterns: it is prime */
    SWEEP_BLOCKS = 1024,
    SWEEP_COUNT = (int)((UINT64_C(1) << 32) / STRIDE) + 1
};

typedef struct {
    case_place gpu, cpu;
    lt_bytes prelude[2];
    int passed, failed;
} bench;

static void report(bench *b, const char *name, size_t elements, size_t differing, const char *note)
{
    printf("%-24s %12zu %12zu  %s\n", name, elements, differing, note);
    fflush(stdout);
    if (differing)
        b->failed++;
    else
        b->passed++;
}

static void report_error(bench *b, const char *name, const lt_err *err)
{
    printf("%-24s %12s %12s  %s\n", name, "-", "-", err->text);
    b->failed++;
}

static void compare(bench *b, const prelude_case *c, const uint32_t *gpu, const uint32_t *cpu)
{
    size_t bits = 0, words = 0, first = 0;
    char note[160] = "";
    for (size_t i = c->out; i-- > 0;) {
        if (case_same(c->same, gpu[i], cpu[i])) continue;
        bits += (size_t)__builtin_popcount(gpu[i] ^ cpu[i]);
        words++;
        first = i;
    }
    if (words)
        snprintf(note, sizeof note, "%zu words; word %zu: gpu 0x%08x, cpu 0x%08x", words, first,
                 gpu[first], cpu[first]);
    report(b, c->name, c->out, bits, note);
}

static void try_case(bench *b, const prelude_case *c)
{
    lt_err err;
    uint32_t *in = malloc(4 * c->in), *gpu = malloc(4 * c->out), *cpu = malloc(4 * c->out);
    if (!in || !gpu || !cpu) {
        lt_fail(&err, "out of memory");
        report_error(b, c->name, &err);
        goto done;
    }
    c->fill(in, c->in);
    if (run_case(&b->gpu, c, in, gpu, &err) || run_case(&b->cpu, c, in, cpu, &err))
        report_error(b, c->name, &err);
    else
        compare(b, c, gpu, cpu);
done:
    free(in);
    free(gpu);
    free(cpu);
}

static void try_sweep(bench *b, const prelude_sweep *s)
{
    uint64_t gpu = 0;
    lt_err err;
    char note[80] = "";
    if (run_sweep(&b->gpu, s, SWEEP_BLOCKS, SWEEP_COUNT, STRIDE, &gpu, &err)) {
        report_error(b, s->name, &err);
        return;
    }
    const uint64_t cpu = sweep_on_host(s, SWEEP_COUNT, STRIDE);
    if (gpu != cpu)
        snprintf(note, sizeof note, "hash: gpu %016llx, cpu %016llx", (unsigned long long)gpu,
                 (unsigned long long)cpu);
    report(b, s->name, SWEEP_COUNT, (size_t)__builtin_popcountll(gpu ^ cpu), note);
}

static int open_bench(bench *b, lt_err *err)
{
    if (lt_config_read(err)) return -1;
    if (lt_device_open(&b->gpu.dev, "cuda:0", err)) return -1;
    if (lt_device_open(&b->cpu.dev, "cpu", err)) return -1;
    const char *arch = lt_device_describe(b->gpu.dev)->arch;
    if (read_prelude(arch, &b->prelude[0], err)) return -1;
    if (read_prelude("cpu", &b->prelude[1], err)) return -1;
    b->gpu.prelude = lt_bytes_view(&b->prelude[0]);
    b->cpu.prelude = lt_bytes_view(&b->prelude[1]);
    b->gpu.model = b->cpu.model = atoi(arch + 3) >= 120 ? 120 : 90; /* "sm_90a" */
    printf("%s, %s, driver %s\n", lt_device_describe(b->gpu.dev)->model, arch,
           lt_device_describe(b->gpu.dev)->driver);
    return 0;
}

static void close_bench(bench *b)
{
    lt_device_close(b->gpu.dev);
    lt_device_close(b->cpu.dev);
    lt_bytes_clear(&b->prelude[0]);
    lt_bytes_clear(&b->prelude[1]);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], LT_NVRTC_CHILD) == 0) return lt_nvrtc_child();
    bench b = {.failed = 0};
    lt_err err;
    if (open_bench(&b, &err)) {
        fprintf(stderr, "%s\n", err.text);
        close_bench(&b);
        return 3;
    }
    printf("%-24s %12s %12s\n", "name", "elements", "differing");
    for (size_t i = 0; i < lt_countof(prelude_cases); i++) {
        if (prelude_cases[i].fp4 && b.gpu.model < 120)
            printf("%-24s not for this architecture\n", prelude_cases[i].name);
        else
            try_case(&b, prelude_cases + i);
    }
    for (size_t i = 0; i < lt_countof(prelude_sweeps); i++) try_sweep(&b, prelude_sweeps + i);
    close_bench(&b);
    printf("%d passed, %d failed\n", b.passed, b.failed);
    return b.failed != 0;
}
