/* cuda_driver.c: the table of the driver's functions: how it is filled, and what is told where the
 * driver is missing, too old or not one. */
#include "cuda_fake.h"
#include "runtime/device.h"
#include "store_kit.h"

#include <stddef.h>
#include <stdint.h>

#define assert_holds(text, part)                                                                   \
    do {                                                                                           \
        if (!strstr(text, part)) fail_msg("'%s' does not hold '%s'", text, part);                  \
    } while (0)

static struct {
    const char *missing; /* this function is not in the driver */
    int versions[64], count;
} finder;

static lt_cu_result find_function(const char *symbol, void **function, int version, uint64_t flags,
                                  int *status)
{
    assert_int_equal(flags, 0);
    assert_true(finder.count < (int)lt_countof(finder.versions));
    finder.versions[finder.count++] = version;
    *status = 0;
    *function = &finder;
    if (finder.missing && !strcmp(symbol, finder.missing)) {
        *function = NULL;
        *status = 1;
    }
    return 0;
}

static void every_function_is_asked_for_in_the_version_of_its_signature(void **state)
{
    (void)state;
    static const int since[] = {
#define SINCE(name, version, parameters) version,
        LT_CUDA_CALLS(SINCE)
#undef SINCE
    };
    lt_cuda_api api;
    lt_err err;
    memset(&finder, 0, sizeof finder);
    assert_int_equal(lt_cuda_api_fill(&api, find_function, 13000, &err), 0);
    assert_int_equal(finder.count, lt_countof(since));
    assert_memory_equal(finder.versions, since, sizeof since);
    assert_int_equal(api.version, 13000);
    assert_ptr_equal(*(void **)&api.GraphDestroy, &finder);
    for (size_t i = 0; i < lt_countof(since); i++) assert_true(since[i] <= LT_CUDA_OLDEST);
}

static void a_function_that_the_driver_lacks_is_named(void **state)
{
    (void)state;
    lt_cuda_api api;
    lt_err err;
    memset(&finder, 0, sizeof finder);
    finder.missing = "cuFuncLoad";
    assert_int_equal(lt_cuda_api_fill(&api, find_function, 13010, &err), -1);
    assert_string_equal(err.text, "cuda: the driver has no cuFuncLoad of CUDA 12.4 (result 0, "
                                  "status 1; reinstall the driver)");
}

static void an_old_driver_is_refused_in_one_sentence(void **state)
{
    (void)state;
    const char *wanted = "cuda: the driver supports CUDA 12.9, 13.0 or later is needed (install a "
                         "driver of release 580 or later, or use the device cpu)";
    lt_cuda_api api;
    lt_device *dev = NULL;
    lt_err err;
    memset(&finder, 0, sizeof finder);
    assert_int_equal(lt_cuda_api_fill(&api, find_function, 12090, &err), -1);
    assert_string_equal(err.text, wanted);
    assert_int_equal(finder.count, 0);
    lt_cuda_fake_use();
    assert_int_equal(lt_cuda_api_open(&api, &err), 0);
    api.version = 12090;
    lt_cuda_api_use(&api);
    assert_int_equal(lt_cuda_open(&dev, 0, &err), -1);
    assert_string_equal(err.text, wanted);
    assert_null(dev);
    assert_int_equal(lt_cuda_count(), 0);
}

static void a_missing_library_is_one_sentence(void **state)
{
    (void)state;
    lt_cuda_api api;
    lt_err err;
    assert_int_equal(lt_cuda_api_load(&api, "libcuda-not-here.so.1", &err), -1);
    assert_holds(err.text, "cuda: no driver: libcuda-not-here.so.1: cannot open");
    assert_holds(err.text,
                 "(install the NVIDIA driver, release 580 or later, or use the device cpu)");
    assert_int_equal(lt_cuda_api_load(&api, "libm.so.6", &err), -1);
    assert_holds(err.text, "cuda: libm.so.6 is not a CUDA driver");
}

static void a_result_is_told_with_call_text_and_number(void **state)
{
    (void)state;
    lt_cuda_api api;
    lt_err err = {"untouched"};
    lt_cuda_fake_use();
    assert_int_equal(lt_cuda_api_open(&api, &err), 0);
    assert_int_equal(lt_cuda_check(&api, 0, "cuInit", &err), 0);
    assert_string_equal(err.text, "untouched");
    assert_int_equal(lt_cuda_check(&api, 2, "cuMemAlloc", &err), -1);
    assert_string_equal(err.text, "cuMemAlloc: out of memory (2)");
    assert_int_equal(lt_cuda_check(&api, 12345, "cuMemAlloc", &err), -1);
    assert_string_equal(err.text, "cuMemAlloc: an error that the driver cannot name (12345)");
}

/* Without a word the CPU device would take the place of a GPU that is only out of order. */
static void a_driver_that_cannot_begin_is_said_and_a_machine_without_a_gpu_is_not(void **state)
{
    (void)state;
    static const struct {
        int result;
        const char *said;
    } cases[] = {{999, "lathe: cuda: no GPU can be used: cuInit: an error that the driver cannot "
                       "name (999)\n"},
                 {LT_CU_NO_DEVICE, ""}};
    for (size_t i = 0; i < lt_countof(cases); i++) {
        char said[300];
        lt_cuda_fake *fake = lt_cuda_fake_use();
        fake->fail_at = 1;
        fake->fail_with = cases[i].result;
        const int old = begin_capture();
        assert_int_equal(lt_cuda_count(), 0);
        end_capture(old, said, sizeof said);
        assert_string_equal(said, cases[i].said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_function_is_asked_for_in_the_version_of_its_signature),
        cmocka_unit_test(a_function_that_the_driver_lacks_is_named),
        cmocka_unit_test(an_old_driver_is_refused_in_one_sentence),
        cmocka_unit_test(a_missing_library_is_one_sentence),
        cmocka_unit_test(a_result_is_told_with_call_text_and_number),
        cmocka_unit_test(a_driver_that_cannot_begin_is_said_and_a_machine_without_a_gpu_is_not),
    };
    return cmocka_run_group_tests_name("cuda_driver", tests, NULL, NULL);
}
