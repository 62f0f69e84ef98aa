/* cuda_kit.h: a device over a driver in memory, with one kernel, for the tests of the CUDA device.
 */
#ifndef CUDA_KIT_H
#define CUDA_KIT_H

#include "cuda_fake.h"
#include "runtime/device.h"

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

static const lt_cuda_fake_image twice = {
    .kernel = "twice__n64__w1", .params = 3, .threads = 64, .sm = 90, .exact = true, .shared = 256};

static const lt_param params[] = {{"y", true}, {"x", false}, {"scale", false}};

static inline lt_source source_of(const lt_cuda_fake_image *image)
{
    return (lt_source){.name = image->kernel,
                       .arch = "sm_90a",
                       .params = params,
                       .param_count = image->params,
                       .threads = image->threads,
                       .model = 90};
}

/* Its context is there. */
static inline lt_device *open_device(void)
{
    lt_device *dev = NULL;
    lt_err err = {""};
    if (lt_cuda_open(&dev, 0, &err) || lt_device_sync(dev, &err)) fail_msg("%s", err.text);
    return dev;
}

static inline void close_clean(lt_device *dev)
{
    lt_device_close(dev);
    assert_int_equal(lt_cuda_fake_alive(), 0);
}

typedef struct {
    lt_device *dev;
    lt_kernel *kernel;
    lt_buffer *buf;
    lt_arg args[3];
    lt_launch launch;
} bench; /* a device with one kernel that is ready to go */

static inline int load_image(lt_device *dev, const lt_cuda_fake_image *image, const lt_source *src,
                             lt_kernel **out, lt_err *err)
{
    lt_bytes bytes = {0};
    lt_cuda_fake_make(&bytes, image);
    const int failed = dev->ops->load(dev, src, lt_bytes_view(&bytes), out, err);
    lt_bytes_clear(&bytes);
    return failed;
}

static inline bench set_up_bench(void)
{
    bench b = {.dev = open_device(), .launch = {.grid = {4, 2, 1}, .block = {64, 1, 1}}};
    lt_err err = {""};
    const lt_source src = source_of(&twice);
    if (load_image(b.dev, &twice, &src, &b.kernel, &err) ||
        lt_device_alloc(b.dev, 4096, &b.buf, &err))
        fail_msg("%s", err.text);
    for (int i = 0; i < 3; i++) b.args[i] = (lt_arg){b.buf, (size_t)(256 * i)};
    return b;
}

static inline void close_bench(bench *b)
{
    lt_kernel_unload(b->dev, b->kernel);
    lt_device_free(b->dev, b->buf);
    close_clean(b->dev);
}

static inline int launch(bench *b, lt_err *err)
{
    return lt_device_launch(b->dev, b->kernel, &b->launch, b->args, err);
}

static inline int stop_using_the_fake(void **state)
{
    (void)state;
    lt_cuda_api_use(NULL);
    return 0;
}

#endif
