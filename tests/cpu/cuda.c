/* cuda.c: the CUDA device over a driver in memory: the table of functions, memory, launches,
 * whose fault an error is, and what happens when any call of the driver fails. */
#include "cuda_kit.h"

/* ---- the device ---- */

static void a_device_says_what_it_is(void **state)
{
    (void)state;
    lt_cuda_fake_use();
    assert_int_equal(lt_cuda_count(), 1);
    lt_device *dev = open_device();
    const lt_device_info *i = lt_device_describe(dev);
    assert_string_equal(i->name, "cuda:0");
    assert_string_equal(i->model, "NVIDIA H200");
    assert_string_equal(i->key, "nvidia-h200");
    assert_string_equal(i->arch, "sm_90a");
    assert_string_equal(i->driver, "580.159.04 (CUDA 13.0)");
    assert_int_equal(i->sms, 132);
    assert_int_equal(i->shared_per_block, 232448);
    assert_int_equal(i->memory, (size_t)141 << 30);
    assert_false(dev->compiles);
    close_clean(dev);
}

static void the_architecture_follows_the_compute_capability(void **state)
{
    (void)state;
    static const struct {
        int major, minor;
        const char *model, *arch, *key;
    } cases[] = {{9, 0, "NVIDIA H100 80GB HBM3", "sm_90a", "nvidia-h100-80gb-hbm3"},
                 {10, 0, "NVIDIA B200", "sm_100a", "nvidia-b200"},
                 {12, 0, " NVIDIA (R) RTX 5090 ", "sm_120a", "nvidia-r-rtx-5090"},
                 {12, 1, "NVIDIA GB10", "sm_121a", "nvidia-gb10"}};
    for (size_t i = 0; i < lt_countof(cases); i++) {
        lt_cuda_fake *fake = lt_cuda_fake_use();
        fake->major = cases[i].major;
        fake->minor = cases[i].minor;
        fake->model = cases[i].model;
        lt_device *dev = open_device();
        assert_string_equal(lt_device_describe(dev)->arch, cases[i].arch);
        assert_string_equal(lt_device_describe(dev)->key, cases[i].key);
        close_clean(dev);
    }
}

static void a_gpu_that_no_text_is_made_for_is_refused(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    lt_device *dev = NULL;
    lt_err err;
    fake->major = 8;
    fake->model = "NVIDIA A100";
    assert_int_equal(lt_cuda_open(&dev, 0, &err), -1);
    assert_string_equal(err.text,
                        "cuda:0: NVIDIA A100 has compute capability 8.0, kernels are made "
                        "for 9.0, 10.0, 12.0 and 12.1 (use the device cpu)");
    assert_null(dev);
    assert_int_equal(lt_cuda_fake_alive(), 0);
}

static void a_gpu_that_is_not_there_is_refused(void **state)
{
    (void)state;
    lt_cuda_fake_use();
    lt_device *dev = NULL;
    lt_err err;
    assert_int_equal(lt_cuda_open(&dev, 1, &err), -1);
    assert_string_equal(err.text, "cuda:1: there is 1 GPU, counted from 0");
    assert_int_equal(lt_cuda_fake_alive(), 0);
}

static void a_context_that_cannot_be_made_is_told_by_every_operation(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    lt_device *dev = NULL;
    lt_err err;
    fake->fail_at = 10;
    fake->fail_with = LT_CU_OUT_OF_MEMORY;
    assert_int_equal(lt_cuda_open(&dev, 0, &err), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lt_device_sync(dev, &err), -1);
        assert_string_equal(err.text, "cuda:0: cuDevicePrimaryCtxRetain: out of memory (2)");
    }
    close_clean(dev);
}

static void a_device_may_be_closed_before_its_context_is_there(void **state)
{
    (void)state;
    lt_cuda_fake_use();
    lt_device *dev = NULL;
    lt_err err;
    assert_int_equal(lt_cuda_open(&dev, 0, &err), 0);
    close_clean(dev);
}

static void memory_begins_as_ff_and_copies_have_landed_when_they_return(void **state)
{
    (void)state;
    lt_cuda_fake_use();
    lt_device *dev = open_device();
    lt_buffer *buf = NULL;
    lt_err err;
    unsigned char back[16], from[4] = {1, 2, 3, 4};
    assert_int_equal(lt_device_alloc(dev, 16, &buf, &err), 0);
    assert_int_equal(lt_device_read(dev, buf, 0, back, 16, &err), 0);
    for (int i = 0; i < 16; i++) assert_int_equal(back[i], 0xff);
    assert_int_equal(lt_device_fill(dev, buf, 7, &err), 0);
    assert_int_equal(lt_device_write(dev, buf, 3, (lt_span){from, 4}, &err), 0);
    memset(from, 0, sizeof from); /* the driver must have read them by now */
    assert_int_equal(lt_device_read(dev, buf, 2, back, 6, &err), 0);
    assert_memory_equal(back, ((unsigned char[]){7, 1, 2, 3, 4, 7}), 6);
    lt_device_free(dev, buf);
    close_clean(dev);
}

static void no_memory_left_is_told_with_the_size(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    lt_device *dev = open_device();
    lt_buffer *buf = NULL;
    lt_err err;
    fake->fail_at = fake->calls + 2; /* after cuCtxSetCurrent */
    fake->fail_with = LT_CU_OUT_OF_MEMORY;
    assert_int_equal(lt_device_alloc(dev, 4096, &buf, &err), -1);
    assert_string_equal(err.text, "buffer of 4096 bytes: cuda:0: cuMemAlloc: out of memory (2)");
    assert_null(buf);
    assert_int_equal(lt_device_alloc(dev, 4096, &buf, &err), 0); /* not the end of the device */
    lt_device_free(dev, buf);
    close_clean(dev);
}

/* ---- kernels ---- */

static void a_launch_carries_its_sizes_and_addresses(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    bench b = set_up_bench();
    lt_err err;
    b.launch.shared = 1000;
    b.launch.programmatic = true;
    assert_int_equal(launch(&b, &err), 0);
    const lt_cuda_fake_launch *l = &fake->last;
    assert_string_equal(l->kernel, "twice__n64__w1");
    assert_memory_equal(l->grid, ((unsigned[]){4, 2, 1}), sizeof l->grid);
    assert_memory_equal(l->block, ((unsigned[]){64, 1, 1}), sizeof l->block);
    assert_int_equal(l->shared, 1000);
    assert_true(l->programmatic);
    assert_int_equal(l->param_count, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(l->params[i] - l->params[0], 256 * i);
    b.launch.programmatic = false;
    assert_int_equal(launch(&b, &err), 0);
    assert_false(fake->last.programmatic);
    assert_int_equal(fake->launches, 2);
    assert_int_equal(lt_device_sync(b.dev, &err), 0);
    close_bench(&b);
}

static void shared_memory_may_reach_the_limit_and_not_pass_it(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    bench b = set_up_bench();
    lt_err err;
    assert_int_equal(fake->dynamic_most, 232448 - 256);
    b.launch.shared = 232448 - 256;
    assert_int_equal(launch(&b, &err), 0);
    b.launch.shared++;
    assert_int_equal(launch(&b, &err), -1);
    assert_string_equal(err.text, "twice__n64__w1: 232193 bytes of dynamic shared memory, at most "
                                  "232192 are left here");
    close_bench(&b);
}

static void static_shared_memory_beyond_the_device_is_refused(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->shared_most = 101376;
    lt_device *dev = open_device();
    lt_kernel *kernel = NULL;
    lt_cuda_fake_image image = twice;
    const lt_source src = source_of(&twice);
    lt_err err;
    image.shared = 101376;
    assert_int_equal(load_image(dev, &image, &src, &kernel, &err), 0);
    assert_int_equal(fake->dynamic_most, 0);
    lt_kernel_unload(dev, kernel);
    kernel = NULL;
    image.shared++;
    assert_int_equal(load_image(dev, &image, &src, &kernel, &err), -1);
    assert_holds(err.text,
                 "twice__n64__w1: 101377 bytes of static shared memory, cuda:0 has 101376");
    assert_null(kernel);
    close_clean(dev);
}

static void clusters_that_not_every_gpu_has_are_asked_for(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    lt_device *dev = open_device();
    lt_kernel *kernel = NULL;
    lt_cuda_fake_image image = twice;
    lt_source src = source_of(&twice);
    lt_err err;
    for (int blocks = 8; blocks <= 16; blocks += 8) {
        image.cluster = (unsigned)blocks;
        src.cluster = blocks;
        assert_int_equal(load_image(dev, &image, &src, &kernel, &err), 0);
        assert_int_equal(fake->large_clusters, blocks > 8);
        lt_kernel_unload(dev, kernel);
    }
    close_clean(dev);
}

static void an_image_that_is_not_what_the_source_says_is_not_loaded(void **state)
{
    (void)state;
    lt_cuda_fake_use();
    lt_device *dev = open_device();
    lt_kernel *kernel = NULL;
    lt_err err;
    lt_source src = source_of(&twice);
    src.param_count = 2;
    assert_int_equal(load_image(dev, &twice, &src, &kernel, &err), -1);
    assert_holds(err.text, "twice__n64__w1: the image has 3 parameters, the generator means 2");
    src = source_of(&twice);
    assert_int_equal(dev->ops->load(dev, &src, lt_span_text("no image"), &kernel, &err), -1);
    assert_holds(err.text, "twice__n64__w1: this is no CUDA image");
    assert_null(kernel);
    close_clean(dev);
}

static void an_image_that_the_driver_refuses_is_told_with_both_architectures(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    lt_device *dev = open_device();
    lt_kernel *kernel = NULL;
    lt_err err;
    const lt_source src = source_of(&twice);
    fake->fail_at = fake->calls + 2;
    fake->fail_with = LT_CU_INVALID_IMAGE;
    assert_int_equal(load_image(dev, &twice, &src, &kernel, &err), -1);
    assert_string_equal(err.text, "twice__n64__w1 for sm_90a on an sm_90a: cuda:0: "
                                  "cuLibraryLoadData: device kernel image is invalid (200)");
    close_clean(dev);
}

/* ---- whose fault it is ---- */

static void a_fault_kills_the_device_and_every_call_says_so(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->fault_at = 2;
    bench b = set_up_bench();
    lt_err first, err;
    char byte = 0;
    lt_timing timing;
    lt_buffer *buf = NULL;
    lt_kernel *kernel = NULL;
    const lt_source src = source_of(&twice);
    for (int i = 0; i < 3; i++) assert_int_equal(launch(&b, &err), 0);
    assert_int_equal(lt_device_sync(b.dev, &first), -1);
    assert_string_equal(first.text,
                        "cuda:0: cuStreamSynchronize: an illegal memory access was encountered "
                        "(700); reported at cuStreamSynchronize, raised by one of launches 1..3 "
                        "since the last sync: twice__n64__w1 (LATHE_DEBUG=5 waits after each "
                        "launch)");
    const lt_step step = {b.kernel, b.launch, {b.args[0], b.args[1], b.args[2]}};
    const int calls = fake->calls;
    for (int i = 0; i < 8; i++) {
        const int result = i == 0   ? launch(&b, &err)
                           : i == 1 ? lt_device_sync(b.dev, &err)
                           : i == 2 ? lt_device_read(b.dev, b.buf, 0, &byte, 1, &err)
                           : i == 3 ? lt_device_write(b.dev, b.buf, 0, (lt_span){&byte, 1}, &err)
                           : i == 4 ? lt_device_fill(b.dev, b.buf, 0, &err)
                           : i == 5 ? lt_device_alloc(b.dev, 16, &buf, &err)
                           : i == 6 ? lt_device_time(b.dev, &step, 1, false, &timing, &err)
                                    : load_image(b.dev, &twice, &src, &kernel, &err);
        assert_int_equal(result, -1);
        if (i == 7)
            assert_holds(err.text, first.text); /* with the kernel's name in front */
        else
            assert_string_equal(err.text, first.text);
    }
    assert_int_equal(fake->calls, calls); /* the driver is not asked again */
    assert_null(buf);
    assert_null(kernel);
    close_bench(&b);
}

static void a_single_suspect_is_told_with_its_launch(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->fault_at = 3;
    fake->told_by = "MemcpyDtoHAsync";
    bench b = set_up_bench();
    lt_err err;
    char byte;
    for (int i = 0; i < 2; i++) assert_int_equal(launch(&b, &err), 0);
    assert_int_equal(lt_device_sync(b.dev, &err), 0);
    assert_int_equal(launch(&b, &err), 0);
    assert_int_equal(lt_device_read(b.dev, b.buf, 0, &byte, 1, &err), -1);
    assert_holds(err.text,
                 "reported at cuMemcpyDtoHAsync, raised by launch 3: twice__n64__w1 (grid "
                 "4x2x1, block 64x1x1)");
    close_bench(&b);
}

static void many_suspects_are_told_by_the_last_ones(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->fault_at = 40;
    bench b = set_up_bench();
    lt_err err;
    for (int i = 0; i < 40; i++) assert_int_equal(launch(&b, &err), 0);
    assert_int_equal(lt_device_sync(b.dev, &err), -1);
    assert_holds(err.text, "one of launches 1..40 since the last sync, the last of which are: "
                           "twice__n64__w1 (");
    close_bench(&b);
}

static void waiting_after_each_launch_names_the_right_one(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->fault_at = 2;
    bench b = set_up_bench();
    lt_err err;
    assert_int_equal(lt_config_set("debug", "5", &err), 0);
    assert_int_equal(launch(&b, &err), 0);
    assert_int_equal(launch(&b, &err), -1);
    assert_int_equal(lt_config_set("debug", "0", &err), 0);
    assert_holds(err.text, "raised by launch 2: twice__n64__w1");
    close_bench(&b);
}

/* ---- every call of the driver fails once ---- */

/* The life of a device: 0, or -1 and a sentence. kernel: the error came while one was at work. */
static int live(bool *kernel, lt_err *err)
{
    lt_device *dev = NULL;
    bench b = {.launch = {.grid = {1, 1, 1}, .block = {64, 1, 1}}};
    lt_timing t;
    char bytes[64] = {0};
    const lt_source src = source_of(&twice);
    int result = -1;
    *kernel = false;
    if (lt_cuda_open(&dev, 0, err)) goto fail;
    if (lt_device_alloc(dev, 4096, &b.buf, err) ||
        lt_device_write(dev, b.buf, 0, (lt_span){bytes, sizeof bytes}, err) ||
        lt_device_fill(dev, b.buf, 0, err))
        goto fail;
    for (int i = 0; i < 3; i++) b.args[i] = (lt_arg){b.buf, 0};
    b.dev = dev;
    *kernel = true;
    if (load_image(dev, &twice, &src, &b.kernel, err)) goto fail;
    const lt_step step = {b.kernel, b.launch, {b.args[0], b.args[1], b.args[2]}};
    if (lt_device_time(dev, &step, 1, false, &t, err)) goto fail;
    *kernel = false; /* the call before the launch is not the kernel's */
    if (launch(&b, err) || lt_device_sync(dev, err) ||
        lt_device_read(dev, b.buf, 8, bytes, sizeof bytes, err))
        goto fail;
    result = 0;
fail:
    lt_kernel_unload(dev, b.kernel);
    lt_device_free(dev, b.buf);
    lt_device_close(dev);
    return result;
}

static void fail_each_call(lt_cu_result with)
{
    int failures = 0;
    for (int n = 1;; n++) {
        lt_cuda_fake *fake = lt_cuda_fake_use();
        lt_err err = {""};
        bool kernel;
        fake->fail_at = n;
        fake->fail_with = with;
        const int result = live(&kernel, &err);
        assert_int_equal(lt_cuda_fake_alive(), 0);
        if (!fake->failed) {
            assert_int_equal(result, 0);
            break;
        }
        if (!result) continue; /* it was a call that ends something */
        failures++;
        assert_holds(err.text, fake->failed);
        assert_holds(err.text, with == 2 ? "out of memory (2)" : "(700)");
        if (kernel && strcmp(fake->failed, "CtxSetCurrent") != 0)
            assert_holds(err.text, "twice__n64__w1");
        if (!strcmp(fake->failed, "LaunchKernelEx")) assert_holds(err.text, "twice__n64__w1");
    }
    assert_true(failures > 100);
}

static void failing_the_nth_call_leaks_nothing_and_names_the_kernel(void **state)
{
    (void)state;
    fail_each_call(LT_CU_OUT_OF_MEMORY);
    fail_each_call(LT_CU_ILLEGAL_ADDRESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_says_what_it_is),
        cmocka_unit_test(the_architecture_follows_the_compute_capability),
        cmocka_unit_test(a_gpu_that_no_text_is_made_for_is_refused),
        cmocka_unit_test(a_gpu_that_is_not_there_is_refused),
        cmocka_unit_test(a_context_that_cannot_be_made_is_told_by_every_operation),
        cmocka_unit_test(a_device_may_be_closed_before_its_context_is_there),
        cmocka_unit_test(memory_begins_as_ff_and_copies_have_landed_when_they_return),
        cmocka_unit_test(no_memory_left_is_told_with_the_size),
        cmocka_unit_test(a_launch_carries_its_sizes_and_addresses),
        cmocka_unit_test(shared_memory_may_reach_the_limit_and_not_pass_it),
        cmocka_unit_test(static_shared_memory_beyond_the_device_is_refused),
        cmocka_unit_test(clusters_that_not_every_gpu_has_are_asked_for),
        cmocka_unit_test(an_image_that_is_not_what_the_source_says_is_not_loaded),
        cmocka_unit_test(an_image_that_the_driver_refuses_is_told_with_both_architectures),
        cmocka_unit_test(a_fault_kills_the_device_and_every_call_says_so),
        cmocka_unit_test(a_single_suspect_is_told_with_its_launch),
        cmocka_unit_test(many_suspects_are_told_by_the_last_ones),
        cmocka_unit_test(waiting_after_each_launch_names_the_right_one),
        cmocka_unit_test(failing_the_nth_call_leaks_nothing_and_names_the_kernel),
    };
    return cmocka_run_group_tests_name("cuda", tests, NULL, stop_using_the_fake);
}
