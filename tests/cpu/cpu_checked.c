/* cpu_checked.c: the device that checks, over several launches: what was written between them, what
 * belongs to the host or the text, and what its compiler says. */
#include "tests/cpu/kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct {
    lt_device *dev;
    lt_kernel *k;
    lt_buffer *x, *y;
    lt_err err;
} pair;

static const char *add_one = "LT_KERNEL(32) k(const float *x, float *y) {\n"
                             " y[threadIdx.x] =\n  x[threadIdx.x] + 1;\n}";

static void begin_pair(pair *p, const char *text)
{
    *p = (pair){0};
    p->dev = kernel_open_checked("on", (lt_play){0, false, false});
    assert_non_null(p->dev);
    if (kernel_load(p->dev, "k", text, "x y!", 90, &p->k, &p->err)) fail_msg("%s", p->err.text);
    assert_int_equal(p->dev->ops->alloc(p->dev, 128, &p->x, &p->err), 0);
    assert_int_equal(p->dev->ops->alloc(p->dev, 128, &p->y, &p->err), 0);
}

static int launch_pair(pair *p, lt_buffer *from, lt_buffer *to)
{
    const lt_launch l = {.grid = {1, 1, 1}, .block = {32, 1, 1}};
    const lt_arg args[] = {{from, 0}, {to, 0}};
    return p->dev->ops->launch(p->dev, p->k, &l, args, &p->err);
}

static void end_pair(pair *p)
{
    p->dev->ops->unload(p->dev, p->k);
    p->dev->ops->close(p->dev);
}

static void an_input_that_nobody_wrote_is_named(void **state)
{
    (void)state;
    pair p;
    const float one = 1;
    begin_pair(&p, add_one);
    assert_int_equal(launch_pair(&p, p.x, p.y), -1);
    assert_string_equal(p.err.text, "k: t.cut:3: block 0, thread 0: reads 'x' + 0, which nobody "
                                    "has written");
    assert_int_equal(p.dev->ops->fill(p.dev, p.x, 0xff, &p.err), 0); /* poison is no value */
    assert_int_equal(launch_pair(&p, p.x, p.y), -1);
    assert_int_equal(p.dev->ops->write(p.dev, p.x, 64, (lt_span){(const char *)&one, 4}, &p.err),
                     0);
    if (launch_pair(&p, p.x, p.y)) fail_msg("%s", p.err.text); /* a cache, filled in part */
    if (launch_pair(&p, p.y, p.x)) fail_msg("%s", p.err.text); /* a kernel wrote it */
    end_pair(&p);
}

static void an_output_is_read_only_where_it_was_written(void **state)
{
    (void)state;
    pair p;
    const float some[31] = {1};
    begin_pair(&p, "LT_KERNEL(32) k(const float *x, float *y) {\n y[threadIdx.x] +=\n  x[0];\n}");
    assert_int_equal(p.dev->ops->fill(p.dev, p.x, 0, &p.err), 0);
    assert_int_equal(
        p.dev->ops->write(p.dev, p.y, 0, (lt_span){(const char *)some, sizeof some}, &p.err), 0);
    assert_int_equal(launch_pair(&p, p.x, p.y), -1);
    assert_string_equal(p.err.text, "k: t.cut:2: block 0, thread 31: reads 'y' + 124, which nobody "
                                    "has written");
    assert_int_equal(p.dev->ops->fill(p.dev, p.y, 0, &p.err), 0);
    if (launch_pair(&p, p.x, p.y)) fail_msg("%s", p.err.text);
    if (launch_pair(&p, p.x, p.y)) fail_msg("%s", p.err.text);
    end_pair(&p);
}

static void a_launch_is_no_race_with_the_one_before_it(void **state)
{
    (void)state;
    pair p;
    begin_pair(&p, "LT_KERNEL(32) k(const float *x, float *y) {\n"
                   " y[threadIdx.x] = x[threadIdx.x ^ (x == y ? 0 : 1)] + 1;\n}");
    assert_int_equal(p.dev->ops->fill(p.dev, p.x, 0, &p.err), 0);
    for (int i = 0; i < 3; i++) {
        if (launch_pair(&p, p.x, p.y)) fail_msg("%s", p.err.text);
        if (launch_pair(&p, p.y, p.x)) fail_msg("%s", p.err.text);
        assert_int_equal(launch_pair(&p, p.x, p.x), 0);            /* each thread its own word */
        if (launch_pair(&p, p.y, p.y)) fail_msg("%s", p.err.text); /* that only kernels wrote */
    }
    end_pair(&p);
}

static void a_device_goes_on_after_a_finding(void **state)
{
    (void)state;
    pair p;
    float y[32];
    begin_pair(&p, "LT_KERNEL(32) k(const float *x, float *y) {\n LT_SHARED1(float, s, 32);\n"
                   " s[threadIdx.x] = x[threadIdx.x];\n"
                   " if (x[0] == 0) __syncwarp();\n y[threadIdx.x] = s[threadIdx.x ^ 1];\n}");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(p.dev->ops->fill(p.dev, p.x, 1, &p.err), 0);
        assert_int_equal(launch_pair(&p, p.x, p.y), -1);
        assert_int_equal(p.dev->ops->fill(p.dev, p.x, 0, &p.err), 0);
        if (launch_pair(&p, p.x, p.y)) fail_msg("%s", p.err.text);
        assert_int_equal(p.dev->ops->read(p.dev, p.y, 0, y, sizeof y, &p.err), 0);
        assert_true(y[31] == 0);
    }
    end_pair(&p);
}

static void what_belongs_to_the_host_is_no_buffer(void **state)
{
    (void)state;
    static float mine[32];
    char text[200], want[200];
    pair p;
    snprintf(text, sizeof text,
             "LT_KERNEL(32) k(const float *x, float *y) {\n *(float *)%pull =\n  1;\n}",
             (void *)mine);
    snprintf(want, sizeof want,
             "k: t.cut:2: block 0, thread 0: writes address %p, where no buffer is", (void *)mine);
    begin_pair(&p, text);
    assert_int_equal(launch_pair(&p, p.x, p.y), -1);
    assert_string_equal(p.err.text, want);
    assert_true(mine[0] == 0);
    end_pair(&p);
}

static void statics_of_the_text_are_its_own(void **state)
{
    (void)state;
    pair p;
    begin_pair(&p, "static volatile float large[20000];\n"
                   "LT_KERNEL(32) k(const float *x, float *y) {\n"
                   " large[19968 + threadIdx.x] = 1;\n y[threadIdx.x] = large[threadIdx.x];\n}");
    if (launch_pair(&p, p.x, p.y)) fail_msg("%s", p.err.text);
    end_pair(&p);
}

/* ---- the compiler ---- */

static void a_library_of_templates_is_named_with_its_file(void **state)
{
    (void)state;
    pair p;
    begin_pair(&p, "#line 7 \"lib/at.cut\"\n"
                   "LT_DEV float at(const float *p)\n{\n return p[100];\n}\n"
                   "#line 3 \"t.cut\"\n"
                   "LT_KERNEL(32) k(const float *x, float *y) { y[threadIdx.x] = at(x); }");
    assert_int_equal(launch_pair(&p, p.x, p.y), -1);
    assert_string_equal(p.err.text,
                        "k: lib/at.cut:9: block 0, thread 0: reads byte 400 of 'x', which has 128");
    end_pair(&p);
}

static void a_text_that_does_not_compile_is_refused_with_its_line(void **state)
{
    (void)state;
    lt_err err;
    lt_kernel *k = NULL;
    lt_device *dev = kernel_open_checked("on", (lt_play){0, false, false});
    assert_non_null(dev);
    assert_int_equal(
        kernel_load(dev, "k", "LT_KERNEL(1) k(float *y) {\n y[0] = oops;\n}", "y!", 90, &k, &err),
        -1);
    assert_string_equal(err.text, "t.cut:2: 'oops' undeclared (first use in this function)");
    assert_int_equal(
        kernel_load(dev, "k", "LT_KERNEL(1) k(float *y) {\n exit(0);\n}", "y!", 90, &k, &err), -1);
    assert_string_equal(err.text, "t.cut:2: implicit declaration of function 'exit'");
    const char *declared = "void exit(int);\nLT_KERNEL(1) k(float *y) {\n exit(0);\n}";
    assert_int_equal(kernel_load(dev, "k", declared, "y!", 90, &k, &err), -1);
    assert_string_equal(err.text, "gcc: undefined reference to `exit'");
    dev->ops->close(dev);
}

static void without_gcc_the_device_says_so(void **state)
{
    (void)state;
    lt_err err, said;
    lt_device *dev = NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s", getenv("PATH"));
    assert_int_equal(setenv("PATH", "/nowhere", 1), 0);
    assert_int_equal(lt_config_set("cpu_check", "on", &err), 0);
    const int rc = lt_cpu_open(&dev, &err);
    assert_int_equal(lt_config_set("cpu_check", "off", &said), 0);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_int_equal(rc, -1);
    assert_string_equal(err.text,
                        "LATHE_CPU_CHECK: no gcc is here, and it compiles what is checked "
                        "(install it or unset LATHE_CPU_CHECK)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_input_that_nobody_wrote_is_named),
        cmocka_unit_test(an_output_is_read_only_where_it_was_written),
        cmocka_unit_test(a_launch_is_no_race_with_the_one_before_it),
        cmocka_unit_test(a_device_goes_on_after_a_finding),
        cmocka_unit_test(what_belongs_to_the_host_is_no_buffer),
        cmocka_unit_test(statics_of_the_text_are_its_own),
        cmocka_unit_test(a_library_of_templates_is_named_with_its_file),
        cmocka_unit_test(a_text_that_does_not_compile_is_refused_with_its_line),
        cmocka_unit_test(without_gcc_the_device_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
