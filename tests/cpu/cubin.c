/* cubin.c: facts from images: of the compiler's own, of one made by hand, and of damaged ones,
 * which must never do more than be refused. Skips what needs NVRTC where there is none. */
#include "cuda_fake.h"
#include "runtime/cuda/cubin.h"
#include "runtime/cuda/nvrtc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define assert_holds(text, part)                                                                   \
    do {                                                                                           \
        if (!strstr(text, part)) fail_msg("'%s' does not hold '%s'", text, part);                  \
    } while (0)

static const char quiet[] =
    "extern \"C\" __global__ void __launch_bounds__(64) quiet(float *y, const float *x, float *z)\n"
    "{\n"
    "    __shared__ float s[96];\n"
    "    s[threadIdx.x] = x[threadIdx.x];\n"
    "    __syncthreads();\n"
    "    y[threadIdx.x] = s[63 - threadIdx.x];\n"
    "    z[threadIdx.x] = 1.0f;\n"
    "}\n";

/* 120 values that are all alive at the barrier, in 64 registers: 1024 threads have no more. */
static const char spilling[] =
    "extern \"C\" __global__ void __launch_bounds__(1024) spilling(float *y, const float *x)\n"
    "{\n"
    "    float v[120];\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 120; i++) v[i] = x[i * 1024 + threadIdx.x];\n"
    "    __syncthreads();\n"
    "#pragma unroll\n"
    "    for (int i = 0; i < 120; i++) y[i * 1024 + threadIdx.x] = v[i] * v[(i * 7 + 60) % 120];\n"
    "}\n";

/* A local array that is addressed at run time: a stack frame without a spill. */
static const char stacked[] = "extern \"C\" __global__ void stacked(int *y, const int *x)\n"
                              "{\n"
                              "    int v[32];\n"
                              "    for (int i = 0; i < 32; i++) v[i] = 0;\n"
                              "    for (int i = 0; i < 64; i++) v[x[i] & 31] += i;\n"
                              "    y[threadIdx.x] = v[x[threadIdx.x] & 31];\n"
                              "}\n";

static bool has_nvrtc;

/* An image of text, or the test is skipped. */
static void compile(const char *name, const char *text, const char *arch, lt_bytes *out)
{
    lt_err err = {""};
    if (!has_nvrtc) skip();
    lt_nvrtc_job job = {.name = name, .arch = arch, .text = lt_span_text(text)};
    if (lt_nvrtc_compile(&job, NULL, &err)) fail_msg("%s", err.text);
    lt_bytes_clear(&job.log);
    *out = job.image;
}

static lt_cubin read_facts(const char *name, const lt_bytes *image)
{
    lt_cubin c;
    lt_err err = {""};
    memset(&c, 0x5a, sizeof c);
    if (lt_cubin_read(lt_bytes_view(image), name, &c, &err)) fail_msg("%s", err.text);
    return c;
}

static void a_kernel_of_the_compiler_has_its_facts(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        int sm;
        bool exact;
    } archs[] = {{"sm_90a", 90, true},   {"sm_100a", 100, true},  {"sm_100f", 100, false},
                 {"sm_120a", 120, true}, {"sm_120f", 120, false}, {"sm_121a", 121, true},
                 {"sm_121f", 121, false}};
    for (size_t i = 0; i < lt_countof(archs); i++) {
        lt_bytes image = {0};
        compile("quiet", quiet, archs[i].arch, &image);
        const lt_cubin c = read_facts("quiet", &image);
        assert_string_equal(c.name, "quiet");
        assert_int_equal(c.sm, archs[i].sm);
        assert_int_equal(c.exact, archs[i].exact);
        assert_true(c.facts.registers >= 8 && c.facts.registers <= 32);
        assert_int_equal(c.facts.stack_bytes, 0);
        assert_int_equal(c.facts.spills, 0);
        assert_int_equal(c.facts.shared_bytes, 384);
        assert_int_equal(c.facts.image_bytes, image.len);
        assert_memory_equal(c.max_threads, ((unsigned[]){64, 1, 1}), sizeof c.max_threads);
        assert_int_equal(c.param_count, 3);
        for (int p = 0; p < 3; p++) {
            assert_int_equal(c.params[p].offset, 8 * p);
            assert_int_equal(c.params[p].bytes, 8);
        }
        lt_bytes_clear(&image);
    }
}

static void code_is_the_same_under_another_name_and_another_for_another_text(void **state)
{
    (void)state;
    static const char text[] = "extern \"C\" __global__ void %s(float *y, const float *x)\n"
                               "{\n"
                               "    const float table[5] = {1.5f, 2.5f, 7.0f, -1.0f, %s};\n"
                               "    y[threadIdx.x] = table[(int)x[threadIdx.x] %% 5];\n"
                               "}\n";
    static const char *const made[][2] = {{"a", "4.0f"}, {"a_longer_name", "4.0f"}, {"a", "4.5f"}};
    char codes[lt_countof(made)][17];
    for (size_t i = 0; i < lt_countof(made); i++) {
        char source[400];
        lt_bytes image = {0};
        snprintf(source, sizeof source, text, made[i][0], made[i][1]);
        compile(made[i][0], source, "sm_90a", &image);
        const lt_facts facts = read_facts(made[i][0], &image).facts;
        lt_err err;
        assert_int_equal(lt_cubin_digest(lt_bytes_view(&image), &facts, codes[i], &err), 0);
        assert_int_equal(strlen(codes[i]), 16);
        lt_bytes_clear(&image);
    }
    assert_string_equal(codes[0], codes[1]);
    assert_string_not_equal(codes[0], codes[2]);
}

static void a_spill_is_counted_and_a_local_array_is_none(void **state)
{
    (void)state;
    static const char *const archs[] = {"sm_90a", "sm_121a"};
    for (size_t i = 0; i < lt_countof(archs); i++) {
        lt_bytes image = {0};
        compile("spilling", spilling, archs[i], &image);
        lt_cubin c = read_facts("spilling", &image);
        assert_true(c.facts.spills > 10);
        assert_true(c.facts.stack_bytes > 0);
        assert_true(c.facts.registers <= 64);
        assert_int_equal(c.facts.shared_bytes, 0);
        assert_int_equal(c.max_threads[0], 1024);
        lt_bytes_clear(&image);
        compile("stacked", stacked, archs[i], &image);
        c = read_facts("stacked", &image);
        assert_int_equal(c.facts.spills, 0);
        assert_int_equal(c.facts.stack_bytes, 128);
        assert_int_equal(c.max_threads[0], 0);
        lt_bytes_clear(&image);
    }
}

static void the_kernel_that_is_meant_is_found_among_others(void **state)
{
    (void)state;
    lt_bytes image = {0};
    lt_cubin c;
    lt_err err;
    compile("two",
            "extern \"C\" __global__ void __launch_bounds__(32) first(int *y) { y[0] = 1; }\n"
            "extern \"C\" __global__ void __launch_bounds__(64) __cluster_dims__(4, 1, 1)\n"
            "second(int *y, int *x)\n"
            "{ y[0] = x[0]; }\n",
            "sm_90a", &image);
    assert_int_equal(read_facts("first", &image).param_count, 1);
    assert_int_equal(read_facts("second", &image).param_count, 2);
    assert_int_equal(read_facts("second", &image).max_threads[0], 64);
    assert_memory_equal(read_facts("first", &image).cluster, ((unsigned[]){1, 1, 1}), 12);
    assert_memory_equal(read_facts("second", &image).cluster, ((unsigned[]){4, 1, 1}), 12);
    assert_int_equal(lt_cubin_read(lt_bytes_view(&image), "third", &c, &err), -1);
    assert_string_equal(err.text, "third: the image has no kernel of this name");
    lt_bytes_clear(&image);
}

static const lt_cuda_fake_image made = {
    .kernel = "made__k64__w1", .params = 2, .threads = 128, .sm = 90, .exact = true, .shared = 48};

static void an_image_made_by_hand_has_its_facts(void **state)
{
    (void)state;
    lt_bytes image = {0};
    lt_cuda_fake_make(&image, &made);
    const lt_cubin c = read_facts("made__k64__w1", &image);
    assert_int_equal(c.sm, 90);
    assert_true(c.exact);
    assert_int_equal(c.facts.registers, 40);
    assert_int_equal(c.facts.stack_bytes, 16);
    assert_int_equal(c.facts.shared_bytes, 48);
    assert_int_equal(c.param_count, 2);
    assert_int_equal(c.params[1].offset, 8);
    assert_int_equal(c.max_threads[0], 128);
    lt_bytes_clear(&image);
}

static void more_parameters_than_a_kernel_may_have_are_an_error(void **state)
{
    (void)state;
    lt_bytes image = {0};
    lt_cuda_fake_image many = made;
    lt_cubin c;
    lt_err err;
    many.params = LT_MAX_PARAMS;
    lt_cuda_fake_make(&image, &many);
    assert_int_equal(read_facts(many.kernel, &image).param_count, LT_MAX_PARAMS);
    lt_bytes_clear(&image);
    many.params = LT_MAX_PARAMS + 1;
    lt_cuda_fake_make(&image, &many);
    assert_int_equal(lt_cubin_read(lt_bytes_view(&image), many.kernel, &c, &err), -1);
    assert_string_equal(err.text,
                        "made__k64__w1: parameter 24 is more than the 24 that a kernel may have");
    lt_bytes_clear(&image);
}

/* ---- damaged images ---- */

/* Reads a copy in a block of just this size, so that a sanitizer sees each step too far. */
static int read_copy(const char *bytes, size_t len, const char *name)
{
    char *copy = malloc(len ? len : 1);
    lt_cubin c;
    lt_err err = {""};
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    const int failed = lt_cubin_read((lt_span){copy, len}, name, &c, &err);
    if (failed) assert_memory_equal(err.text, name, strlen(name));
    free(copy);
    return failed;
}

static uint32_t next_random(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    return *x ^= *x << 5;
}

static void damage(const lt_bytes *image, const char *name)
{
    uint32_t x = 20250101;
    lt_bytes copy = {0};
    assert_int_equal(read_copy(image->ptr, image->len, name), 0);
    for (size_t len = 0; len < image->len; len += len < 256 || image->len < 4096 ? 1 : 37)
        read_copy(image->ptr, len, name);
    for (int round = 0; round < 6000; round++) {
        lt_bytes_clear(&copy);
        assert_int_equal(lt_bytes_append(&copy, image->ptr, image->len, NULL), 0);
        const uint32_t flips = 1 + next_random(&x) % 8;
        for (uint32_t i = 0; i < flips; i++)
            copy.ptr[next_random(&x) % image->len] ^= (char)(1u << next_random(&x) % 8);
        /* numbers of the header and the table of sections steer most: they get more than a share */
        if (round % 2) copy.ptr[next_random(&x) % 64] = (char)next_random(&x);
        if (round % 3 == 0)
            copy.ptr[image->len - 1 - next_random(&x) % (image->len < 700 ? 64 : 600)] =
                (char)next_random(&x);
        read_copy(copy.ptr, copy.len, name);
    }
    for (size_t i = 0; i < copy.len; i++) copy.ptr[i] = (char)next_random(&x);
    assert_int_equal(read_copy(copy.ptr, copy.len, name), -1);
    memcpy(copy.ptr, image->ptr, 64);
    memset(copy.ptr + 64, 0xff, copy.len - 64);
    assert_int_equal(read_copy(copy.ptr, copy.len, name), -1);
    lt_bytes_clear(&copy);
}

static void damaged_images_of_the_compiler_do_no_harm(void **state)
{
    (void)state;
    lt_bytes image = {0};
    compile("spilling", spilling, "sm_90a", &image);
    damage(&image, "spilling");
    lt_bytes_clear(&image);
    compile("quiet", quiet, "sm_121a", &image);
    damage(&image, "quiet");
    lt_bytes_clear(&image);
}

/* Every word of the file in turn holds numbers that lead astray. */
static void words_that_lead_astray_do_no_harm(void **state)
{
    (void)state;
    lt_bytes image = {0}, copy = {0};
    lt_cuda_fake_make(&image, &made);
    const uint64_t len = image.len;
    const uint64_t values[] = {0,       1,          4,          0xffff,          0xffffffff,
                               len - 1, len,        len + 1,    UINT64_MAX - 63, UINT64_MAX - 7,
                               len / 2, 1ull << 63, 0x7fffffff, UINT64_MAX,      UINT64_MAX - len};
    for (size_t at = 0; at + 8 <= image.len; at += 2)
        for (size_t i = 0; i < lt_countof(values); i++)
            for (size_t width = 2; width <= 8; width *= 2) {
                lt_bytes_clear(&copy);
                assert_int_equal(lt_bytes_append(&copy, image.ptr, image.len, NULL), 0);
                memcpy(copy.ptr + at, &values[i], width);
                read_copy(copy.ptr, copy.len, made.kernel);
            }
    lt_bytes_clear(&copy);
    lt_bytes_clear(&image);
}

/* The image with the bytes of one section replaced, now at the end of the file. */
static void replace_section(lt_bytes *out, const lt_bytes *image, int index, const void *bytes,
                            size_t len)
{
    uint64_t sections, offset = image->len, size = len;
    memcpy(&sections, image->ptr + 40, sizeof sections);
    assert_int_equal(lt_bytes_append(out, image->ptr, image->len, NULL), 0);
    char *header = out->ptr + sections + (size_t)index * 64;
    memcpy(header + 24, &offset, sizeof offset);
    memcpy(header + 32, &size, sizeof size);
    assert_int_equal(lt_bytes_append(out, bytes, len, NULL), 0);
}

static void what_runs_over_the_end_of_the_file_is_an_error(void **state)
{
    (void)state;
    enum { NAMES = 1, STRINGS = 2, OWN = 6 }; /* places in an image made by hand */
    static const struct {
        int section;
        const char *bytes;
        size_t len;
        int result;
    } cases[] = {
        {STRINGS, "\0made__k64__w1", 15, 0}, /* with its zero */
        {STRINGS, "\0made__k64__w1", 14, -1},
        {NAMES, "\0.text.made__k64__w1", 20, -1},
        {OWN, "\4\125\10\0\1\0\0\0\0\0\0", 12, 0},   /* one spill */
        {OWN, "\4\125\30\0\1\0\0\0\0\0\0", 12, -1},  /* says 24 bytes, has 8 */
        {OWN, "\4\125\11\0\1\0\0\0\0\0\0\0", 13, 0}, /* a pair and a byte */
        {OWN, "\4\125\6\0\1\0\0\0\0", 10, 0},        /* no whole pair */
        {OWN, "\4\5\4\0\1\0\0", 8, 0},               /* bounds of one dimension */
        {OWN, "\4\27\10\0\0\0\0\0\0\0\0", 12, -1},   /* a parameter without a size */
        {OWN, "\3\33", 2, -1},
    };
    lt_bytes image = {0};
    lt_cuda_fake_make(&image, &made);
    for (size_t i = 0; i < lt_countof(cases); i++) {
        lt_bytes copy = {0};
        replace_section(&copy, &image, cases[i].section, cases[i].bytes, cases[i].len);
        assert_int_equal(read_copy(copy.ptr, copy.len, made.kernel), cases[i].result);
        lt_bytes_clear(&copy);
    }
    lt_cubin c;
    lt_err err;
    assert_int_equal(lt_cubin_read((lt_span){image.ptr, image.len - 1}, made.kernel, &c, &err), -1);
    assert_string_equal(err.text, "made__k64__w1: the image is cut off: no table of sections");
    lt_bytes_clear(&image);
}

static void damaged_images_made_by_hand_do_no_harm(void **state)
{
    (void)state;
    lt_bytes image = {0};
    lt_cuda_fake_make(&image, &made);
    damage(&image, made.kernel);
    for (size_t len = 0; len < image.len; len++)
        assert_int_equal(read_copy(image.ptr, len, made.kernel), -1);
    lt_bytes_clear(&image);
}

/* ---- against what the generator believes ---- */

static const lt_param params[] = {{"y", true}, {"x", false}, {"z", false}};

static lt_cubin cubin_of(void)
{
    return (lt_cubin){.name = "made__k64__w1",
                      .sm = 90,
                      .exact = true,
                      .max_threads = {128, 1, 1},
                      .cluster = {1, 1, 1},
                      .param_count = 2,
                      .params = {{0, 8}, {8, 8}}};
}

static const lt_source source = {
    .name = "made__k64__w1", .arch = "sm_90a", .params = params, .param_count = 2, .threads = 128};

static void must_differ(const lt_cubin *c, const lt_source *s, const char *part)
{
    lt_err err = {""};
    assert_int_equal(lt_cubin_compare(c, s, &err), -1);
    assert_holds(err.text, part);
    assert_memory_equal(err.text, s->name, strlen(s->name));
}

static void what_agrees_with_the_generator_passes(void **state)
{
    (void)state;
    lt_cubin c = cubin_of();
    lt_err err;
    assert_int_equal(lt_cubin_compare(&c, &source, &err), 0);
    c.max_threads[0] = 16;
    c.max_threads[1] = 8;
    assert_int_equal(lt_cubin_compare(&c, &source, &err), 0);
    memset(c.max_threads, 0, sizeof c.max_threads); /* no launch bounds */
    assert_int_equal(lt_cubin_compare(&c, &source, &err), 0);
}

static void what_differs_from_the_generator_is_told(void **state)
{
    (void)state;
    lt_cubin c = cubin_of();
    lt_source s = source;
    s.name = "other";
    must_differ(&c, &s, "other: the image holds the kernel made__k64__w1");
    s = source;
    s.param_count = 3;
    must_differ(&c, &s, "the image has 2 parameters, the generator means 3");
    s = source;
    s.threads = 256;
    must_differ(&c, &s, "the image is for blocks of 128 threads, the launch has 256");
    s = source;
    s.cluster = 4;
    must_differ(&c, &s, "the image is for clusters of 1 x 1 x 1 blocks, the launch has 4");
    c.cluster[0] = 2;
    must_differ(&c, &s, "the image is for clusters of 2 x 1 x 1 blocks, the launch has 4");
    c.cluster[0] = 4;
    lt_err err;
    assert_int_equal(lt_cubin_compare(&c, &s, &err), 0);
    c = cubin_of();
    c.params[1].bytes = 4;
    must_differ(&c, &source,
                "parameter 1, 'x', has 4 bytes at 8 in the image, the generator means "
                "8 at 8");
    c = cubin_of();
    c.params[1].offset = 16;
    must_differ(&c, &source, "parameter 1, 'x', has 8 bytes at 16");
}

static void the_architecture_must_be_the_very_one(void **state)
{
    (void)state;
    static const struct {
        int sm;
        bool exact;
        const char *arch;
        bool same;
    } cases[] = {{90, true, "sm_90a", true},    {90, true, "sm_90", false},
                 {90, false, "sm_90a", false},  {90, false, "sm_90", true},
                 {121, false, "sm_121f", true}, {121, true, "sm_121f", false},
                 {121, true, "sm_121a", true},  {120, true, "sm_121a", false},
                 {12, false, "sm_120f", false}, {90, true, "", false}};
    for (size_t i = 0; i < lt_countof(cases); i++) {
        lt_cubin c = cubin_of();
        lt_source s = source;
        lt_err err = {""};
        c.sm = cases[i].sm;
        c.exact = cases[i].exact;
        s.arch = cases[i].arch;
        assert_int_equal(lt_cubin_compare(&c, &s, &err), cases[i].same ? 0 : -1);
        if (!cases[i].same) assert_holds(err.text, "made__k64__w1: the image is for sm_");
    }
}

static int set_up(void **state)
{
    (void)state;
    lt_err err;
    lt_nvrtc_compiler compiler;
    if (lt_config_read(&err)) return -1;
    has_nvrtc = lt_nvrtc_identity(&compiler, NULL, &err) == 0;
    if (!has_nvrtc) print_message("%s\n", err.text);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], LT_NVRTC_CHILD)) return lt_nvrtc_child();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kernel_of_the_compiler_has_its_facts),
        cmocka_unit_test(code_is_the_same_under_another_name_and_another_for_another_text),
        cmocka_unit_test(a_spill_is_counted_and_a_local_array_is_none),
        cmocka_unit_test(the_kernel_that_is_meant_is_found_among_others),
        cmocka_unit_test(an_image_made_by_hand_has_its_facts),
        cmocka_unit_test(more_parameters_than_a_kernel_may_have_are_an_error),
        cmocka_unit_test(damaged_images_of_the_compiler_do_no_harm),
        cmocka_unit_test(damaged_images_made_by_hand_do_no_harm),
        cmocka_unit_test(words_that_lead_astray_do_no_harm),
        cmocka_unit_test(what_runs_over_the_end_of_the_file_is_an_error),
        cmocka_unit_test(what_agrees_with_the_generator_passes),
        cmocka_unit_test(what_differs_from_the_generator_is_told),
        cmocka_unit_test(the_architecture_must_be_the_very_one),
    };
    return cmocka_run_group_tests_name("cubin", tests, set_up, NULL);
}
