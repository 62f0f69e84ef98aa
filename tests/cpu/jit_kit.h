/* jit_kit.h: a device that loads nothing, texts of small kernels and a cache folder for each test.
 */
#ifndef JIT_KIT_H
#define JIT_KIT_H

#include "cache/store.h"
#include "runtime/cuda/nvrtc.h"
#include "runtime/device.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- a device that loads nothing ---- */

typedef struct {
    lt_device base;
    size_t image_bytes; /* of the last load */
    int loads;
} fake_device;

static inline int fake_load(lt_device *dev, const lt_source *src, lt_span image, lt_kernel **out,
                            lt_err *err)
{
    fake_device *d = (fake_device *)dev;
    lt_kernel *k = calloc(1, sizeof *k);
    if (!k) return lt_fail(err, "out of memory");
    snprintf(k->name, sizeof k->name, "%s", src->name);
    d->image_bytes = image.len;
    d->loads++;
    *out = k;
    return 0;
}

static const lt_device_ops fake_ops = {.load = fake_load};

/* ---- texts ---- */

#define ONE(name, body)                                                                            \
    "extern \"C\" __global__ void __launch_bounds__(32) " name "(float *y)\n{\n    " body "\n}\n"

static const lt_param one_param[] = {{"y", true}};

/* text and plain are the same until a test says otherwise. */
static inline lt_source source(const char *name, const char *text)
{
    return (lt_source){.name = name,
                       .arch = "sm_90a",
                       .text = lt_span_text(text),
                       .plain = lt_span_text(text),
                       .params = one_param,
                       .param_count = 1,
                       .threads = 32,
                       .model = 90};
}

/* ---- a cache folder for each test ---- */

static char scratch[300], cache[320];

static inline int make_scratch(void **state)
{
    (void)state;
    lt_err err;
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/lathe-jit-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(scratch)) return -1;
    snprintf(cache, sizeof cache, "%s/cache", scratch);
    for (lt_setting s = 0; s < LT_SETTINGS; s++)
        if (s != LT_SET_NVRTC) unsetenv(lt_config_info(s).env);
    return lt_config_read(&err) || lt_config_set("cache_dir", cache, &err);
}

static inline int remove_scratch(void **state)
{
    (void)state;
    char command[320];
    snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

static inline void need_nvrtc(void)
{
    lt_err err;
    lt_nvrtc_compiler compiler;
    static int have = -1;
    if (have < 0) have = !lt_nvrtc_identity(&compiler, NULL, &err);
    if (!have) skip();
}

/* Entries in the cache folder; the path of the last one in `path`, if that is asked for. */
static inline int count_entries(char *path)
{
    DIR *dir = opendir(cache);
    int count = 0;
    if (!dir) return 0;
    for (struct dirent *d; (d = readdir(dir));) {
        const char *dot = strrchr(d->d_name, '.');
        if (d->d_name[0] == '.' || !dot || strlen(dot) != 17) continue;
        if (path) snprintf(path, 800, "%s/%s", cache, d->d_name);
        count++;
    }
    closedir(dir);
    return count;
}

/* Loads and forgets. The message of a failure is in *err, else empty. */
static inline int load(const lt_source *src, lt_jit_report *report, lt_err *err)
{
    fake_device d = {.base = {.ops = &fake_ops}};
    lt_kernel *k = NULL;
    err->text[0] = 0;
    if (lt_jit_load(&d.base, src, &k, report, err)) {
        assert_null(k);
        assert_int_equal(d.loads, 0);
        return -1;
    }
    assert_int_equal(d.loads, 1);
    assert_int_equal(d.image_bytes, report->facts.image_bytes);
    free(k);
    return 0;
}

static inline void load_from(const lt_source *src, lt_origin origin)
{
    lt_err err;
    lt_jit_report report;
    if (load(src, &report, &err)) fail_msg("%s", err.text);
    assert_int_equal(report.origin, origin);
    assert_int_equal(report.compile_ms > 0, origin == LT_FROM_COMPILER);
    assert_true(report.facts.registers > 0);
}

#define with_cache(f) cmocka_unit_test_setup_teardown(f, make_scratch, remove_scratch)

#endif
