/* device.c: opening by name, and what is refused before a device sees it. The device is a fake that
 * counts its calls. */
#include "cuda_fake.h"
#include "runtime/cuda/driver.h"
#include "runtime/device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

typedef struct {
    lt_device base;
    int calls;
} fake_device;

static int fake_write(lt_device *dev, lt_buffer *buf, size_t offset, lt_span from, lt_err *err)
{
    (void)buf, (void)offset, (void)from, (void)err;
    ((fake_device *)dev)->calls++;
    return 0;
}

static int fake_read(lt_device *dev, const lt_buffer *buf, size_t offset, void *to, size_t bytes,
                     lt_err *err)
{
    (void)buf, (void)offset, (void)to, (void)bytes, (void)err;
    ((fake_device *)dev)->calls++;
    return 0;
}

static int fake_fill(lt_device *dev, lt_buffer *buf, int byte, lt_err *err)
{
    (void)buf, (void)byte, (void)err;
    ((fake_device *)dev)->calls++;
    return 0;
}

static int fake_launch(lt_device *dev, lt_kernel *k, const lt_launch *l, const lt_arg *args,
                       lt_err *err)
{
    (void)k, (void)l, (void)args, (void)err;
    ((fake_device *)dev)->calls++;
    return 0;
}

static int fake_time(lt_device *dev, const lt_step *steps, int count, bool brief, lt_timing *out,
                     lt_err *err)
{
    (void)steps, (void)count, (void)brief, (void)out, (void)err;
    ((fake_device *)dev)->calls++;
    return 0;
}

static const lt_device_ops ops = {.write = fake_write,
                                  .read = fake_read,
                                  .fill = fake_fill,
                                  .launch = fake_launch,
                                  .time = fake_time};

static fake_device new_fake(void)
{
    return (fake_device){.base = {.ops = &ops, .info = {.name = "fake", .shared_per_block = 1000}}};
}

/* ---- opening ---- */

static void a_name_that_is_none_is_refused_with_the_legal_ones(void **state)
{
    (void)state;
    static const char *const bad[] = {"gpu",     "cuda",    "cuda:",   "cuda:x",
                                      "cuda:-1", "cuda: 1", "cuda:1x", "CPU",
                                      "cpu:0",   "cpu ",    "cuda:0 ", "cuda:99999"};
    for (size_t i = 0; i < lt_countof(bad); i++) {
        lt_err err;
        char expected[200];
        lt_device *dev = NULL;
        assert_int_equal(lt_device_open(&dev, bad[i], &err), -1);
        assert_null(dev);
        snprintf(expected, sizeof expected,
                 "device '%s': no such name (give cuda:0, cuda:1 and so on, or cpu)", bad[i]);
        assert_string_equal(err.text, expected);
    }
}

static void no_name_means_the_setting_or_what_there_is(void **state)
{
    (void)state;
    lt_err err;
    lt_device *dev = NULL;
    assert_int_equal(lt_device_open(&dev, "", &err), 0);
    assert_string_equal(lt_device_describe(dev)->name, lt_cuda_count() > 0 ? "cuda:0" : "cpu");
    lt_device_close(dev);
    lt_config_set("device", "cpu", &err);
    assert_int_equal(lt_device_open(&dev, "", &err), 0);
    assert_string_equal(lt_device_describe(dev)->name, "cpu");
    lt_device_close(dev);
    lt_config_set("device", "tpu", &err);
    assert_int_equal(lt_device_open(&dev, "", &err), -1);
    assert_non_null(strstr(err.text, "device 'tpu'"));
    lt_config_set("device", "", &err);
}

static void what_is_opened_ahead_is_the_next_open_of_that_name(void **state)
{
    (void)state;
    lt_device *dev = NULL;
    lt_err err;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    lt_config_set("device", "cuda:0", &err);
    lt_device_open_ahead();
    lt_device_open_ahead();
    assert_int_equal(lt_device_open(&dev, "cpu", &err), 0); /* another one */
    assert_string_equal(lt_device_describe(dev)->name, "cpu");
    lt_device_close(dev);
    assert_int_equal(lt_device_open(&dev, "", &err), 0);
    assert_int_equal(lt_device_sync(dev, &err), 0);
    lt_device_close(dev);
    assert_int_equal(lt_cuda_fake_alive(), 0);
    lt_device_open_ahead(); /* nobody wants it */
    lt_device_close_ahead();
    assert_int_equal(lt_cuda_fake_alive(), 0);
    fake->calls = 0;
    fake->fail_at = 1;
    fake->fail_with = LT_CU_NO_DEVICE;
    lt_device_open_ahead();
    lt_device_close_ahead();
    lt_config_set("device", "cuda:1", &err);
    fake->fail_at = 0;
    lt_device_open_ahead();
    assert_int_equal(lt_device_open(&dev, "cuda:1", &err), -1);
    assert_string_equal(err.text,
                        "device 'cuda:1': the last one here is cuda:0 (give that or cpu)");
    lt_config_set("device", "", &err);
    lt_device_close_ahead();
    assert_int_equal(lt_cuda_fake_alive(), 0);
    lt_cuda_api_use(NULL);
}

static void nothing_can_be_closed_and_freed(void **state)
{
    (void)state;
    fake_device d = new_fake();
    lt_device_close(NULL);
    lt_device_free(&d.base, NULL);
    lt_kernel_unload(&d.base, NULL);
    lt_device_free(NULL, NULL);
    lt_kernel_unload(NULL, NULL);
}

/* ---- ranges ---- */

static void a_range_must_lie_inside_its_buffer(void **state)
{
    (void)state;
    const struct {
        size_t offset, bytes;
        bool fine;
    } cases[] = {{0, 100, true},       {99, 1, true},        {0, 101, false},
                 {100, 1, false},      {101, 0, false},      {1, SIZE_MAX, false},
                 {SIZE_MAX, 1, false}, {SIZE_MAX, 2, false}, {50, SIZE_MAX - 49, false}};
    char data[128] = {0};
    for (size_t i = 0; i < lt_countof(cases); i++) {
        lt_err err;
        fake_device d = new_fake();
        lt_buffer buf = {.bytes = 100};
        const int expected = cases[i].fine ? 0 : -1;
        assert_int_equal(
            lt_device_write(&d.base, &buf, cases[i].offset, (lt_span){data, cases[i].bytes}, &err),
            expected);
        assert_int_equal(lt_device_read(&d.base, &buf, cases[i].offset, data, cases[i].bytes, &err),
                         expected);
        assert_int_equal(d.calls, cases[i].fine ? 2 : 0);
    }
    lt_err err;
    fake_device d = new_fake();
    lt_buffer buf = {.bytes = 100};
    assert_int_equal(lt_device_read(&d.base, &buf, 96, data, 5, &err), -1);
    assert_string_equal(err.text,
                        "device fake: a read of 5 bytes at 96 is outside a buffer of 100 bytes");
    assert_int_equal(lt_device_write(&d.base, &buf, 100, (lt_span){data, 0}, &err), 0);
    assert_int_equal(d.calls, 0); /* nothing is not passed on */
    assert_int_equal(lt_device_fill(&d.base, &buf, 256, &err), -1);
    assert_int_equal(lt_device_fill(&d.base, &buf, -1, &err), -1);
    assert_int_equal(lt_device_fill(&d.base, &buf, 255, &err), 0);
    lt_buffer *none = NULL;
    assert_int_equal(lt_device_alloc(&d.base, 0, &none, &err), -1);
}

/* ---- launches ---- */

static lt_kernel kernel(void)
{
    return (lt_kernel){.name = "k",
                       .params = {{"y", true}, {"x", false}},
                       .param_count = 2,
                       .threads = 64,
                       .cluster = 1};
}

/* The message of a launch, empty where it is passed on; the same must hold for timing. */
static const char *launching(const lt_launch *l, lt_buffer *x, size_t offset)
{
    static lt_err err;
    lt_err other = {{0}};
    lt_buffer y = {.bytes = 8};
    lt_kernel k = kernel();
    fake_device d = new_fake();
    const lt_arg args[2] = {{&y, 0}, {x, offset}};
    lt_step step = {.kernel = &k, .launch = *l, .args = {args[0], args[1]}};
    lt_timing timing;
    err.text[0] = 0;
    const int failed = lt_device_launch(&d.base, &k, l, args, &err);
    assert_int_equal(failed, *err.text ? -1 : 0);
    assert_int_equal(lt_device_time(&d.base, &step, 1, false, &timing, &other), failed);
    assert_string_equal(other.text, err.text);
    assert_int_equal(d.calls, failed ? 0 : 2);
    return err.text;
}

static void a_launch_that_cannot_be_meant_is_refused_with_the_kernels_name(void **state)
{
    (void)state;
    lt_buffer x = {.bytes = 8};
    const unsigned inside[] = {0, 5}, outside[] = {0, 6};
    const lt_launch fine = {.grid = {3, 2, 1}, .block = {32, 2, 1}};
    lt_launch l = fine;
    assert_string_equal(launching(&fine, &x, 7), "");
    l.grid[1] = 0;
    assert_non_null(strstr(launching(&l, &x, 0), "kernel k: a grid of 3 x 0 x 1 blocks"));
    l.grid[1] = 65536;
    assert_non_null(strstr(launching(&l, &x, 0), "kernel k: a grid of 3 x 65536 x 1 blocks"));
    l = fine;
    l.block[0] = 64;
    assert_string_equal(launching(&l, &x, 0),
                        "kernel k: a block of 64 x 2 x 1 threads, compiled for 64");
    l.block[0] = 0;
    assert_non_null(strstr(launching(&l, &x, 0), "a block of 0 x 2 x 1 threads"));
    l = fine;
    l.shared = 1001;
    assert_string_equal(launching(&l, &x, 0),
                        "kernel k: 1001 bytes of shared memory, a block may use 1000");
    l.shared = 1000;
    l.sample = inside;
    l.samples = 2;
    assert_string_equal(launching(&l, &x, 0), "");
    l.sample = outside;
    assert_string_equal(launching(&l, &x, 0), "kernel k: block 6 is sampled, there are 6");
    assert_string_equal(launching(&fine, NULL, 0), "kernel k: argument x has no buffer");
    assert_string_equal(launching(&fine, &x, 8),
                        "kernel k: argument x begins at 8 in a buffer of 8 bytes");
}

static void a_device_without_an_order_says_so(void **state)
{
    (void)state;
    lt_err err;
    fake_device d = new_fake();
    const lt_play play = {.order = 1};
    assert_int_equal(lt_device_play(&d.base, &play, &err), -1);
    assert_string_equal(err.text, "device fake: has no order to play with (use cpu)");
    lt_timing timing;
    assert_int_equal(lt_device_time(&d.base, NULL, 0, false, &timing, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_is_none_is_refused_with_the_legal_ones),
        cmocka_unit_test(no_name_means_the_setting_or_what_there_is),
        cmocka_unit_test(what_is_opened_ahead_is_the_next_open_of_that_name),
        cmocka_unit_test(nothing_can_be_closed_and_freed),
        cmocka_unit_test(a_range_must_lie_inside_its_buffer),
        cmocka_unit_test(a_launch_that_cannot_be_meant_is_refused_with_the_kernels_name),
        cmocka_unit_test(a_device_without_an_order_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
