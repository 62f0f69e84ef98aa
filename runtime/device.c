/* device.c: opens a device by its name and forwards to it. What a device is asked is checked here
 * once, so that neither implementation has to: ranges inside buffers, the number of arguments,
 * sizes of a launch. */
#include "device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The N of "cuda:N"; -1 for any other name. */
static int cuda_index(const char *name)
{
    if (strncmp(name, "cuda:", 5)) return -1;
    const char *digits = name + 5;
    const size_t len = strlen(digits);
    if (len < 1 || len > 4 || strspn(digits, "0123456789") != len) return -1;
    return atoi(digits);
}

static int open_named(lt_device **out, const char *name, lt_err *err)
{
    if (!strcmp(name, "cpu")) return lt_cpu_open(out, err);
    const int index = cuda_index(name);
    if (index < 0)
        return lt_fail(err, "device '%s': no such name (give cuda:0, cuda:1 and so on, or cpu)",
                       name);
    const int count = lt_cuda_count();
    if (count > 0 && index >= count)
        return lt_fail(err, "device '%s': the last one here is cuda:%d (give that or cpu)", name,
                       count - 1);
    return lt_cuda_open(out, index, err);
}

static int open_now(lt_device **out, const char *name, lt_err *err)
{
    if (!*name) name = lt_cuda_count() > 0 ? "cuda:0" : "cpu";
    if (open_named(out, name, err)) return -1;
    const lt_device_info *i = &(*out)->info;
    lt_debug(1, "device %s: %s, %s, %d multiprocessors, %zu bytes of shared memory, driver %s",
             i->name, i->model, i->arch, i->sms, i->shared_per_block, *i->driver ? i->driver : "-");
    return 0;
}

void lt_device_close(lt_device *dev)
{
    if (dev) dev->ops->close(dev);
}

/* ---- ahead ---- */

/* The process has one driver, which takes a quarter of a second to begin: a thread lets it while
 * the files of a model are read. */
static struct {
    pthread_t opener;
    bool begun;
    lt_device *dev;
    int failed;
    lt_err err;
} ahead;

static void *open_ahead(void *unused)
{
    (void)unused;
    ahead.failed = open_now(&ahead.dev, lt_config_text(LT_SET_DEVICE), &ahead.err);
    return NULL;
}

void lt_device_open_ahead(void)
{
    if (ahead.begun || !strcmp(lt_config_text(LT_SET_DEVICE), "cpu")) return;
    ahead.begun = !pthread_create(&ahead.opener, NULL, open_ahead, NULL);
}

static void wait_ahead(void)
{
    pthread_join(ahead.opener, NULL);
    ahead.begun = false;
}

static int take_ahead(lt_device **out, lt_err *err)
{
    wait_ahead();
    if (ahead.failed) return lt_fail(err, "%s", ahead.err.text);
    *out = ahead.dev;
    return 0;
}

void lt_device_close_ahead(void)
{
    if (!ahead.begun) return;
    wait_ahead();
    if (!ahead.failed) lt_device_close(ahead.dev);
}

int lt_device_open(lt_device **out, const char *name, lt_err *err)
{
    const char *set = lt_config_text(LT_SET_DEVICE);
    if (!*name) name = set;
    return ahead.begun && !strcmp(name, set) ? take_ahead(out, err) : open_now(out, name, err);
}

const lt_device_info *lt_device_describe(const lt_device *dev)
{
    return &dev->info;
}

int lt_device_play(lt_device *dev, const lt_play *play, lt_err *err)
{
    if (!dev->ops->play)
        return lt_fail(err, "device %s: has no order to play with (use cpu)", dev->info.name);
    return dev->ops->play(dev, play, err);
}

int lt_device_alloc(lt_device *dev, size_t bytes, lt_buffer **out, lt_err *err)
{
    if (!bytes) return lt_fail(err, "device %s: a buffer of 0 bytes is asked for", dev->info.name);
    return dev->ops->alloc(dev, bytes, out, err);
}

void lt_device_free(lt_device *dev, lt_buffer *buf)
{
    if (dev && buf) dev->ops->free(dev, buf);
}

/* Is [offset, offset + bytes) inside the buffer? */
static int check_range(const lt_device *dev, const lt_buffer *buf, size_t offset, size_t bytes,
                       const char *what, lt_err *err)
{
    if (offset <= buf->bytes && bytes <= buf->bytes - offset) return 0;
    return lt_fail(err, "device %s: %s of %zu bytes at %zu is outside a buffer of %zu bytes",
                   dev->info.name, what, bytes, offset, buf->bytes);
}

int lt_device_write(lt_device *dev, lt_buffer *buf, size_t offset, lt_span from, lt_err *err)
{
    if (check_range(dev, buf, offset, from.len, "a write", err)) return -1;
    return from.len ? dev->ops->write(dev, buf, offset, from, err) : 0;
}

int lt_device_read(lt_device *dev, const lt_buffer *buf, size_t offset, void *to, size_t bytes,
                   lt_err *err)
{
    if (check_range(dev, buf, offset, bytes, "a read", err)) return -1;
    return bytes ? dev->ops->read(dev, buf, offset, to, bytes, err) : 0;
}

int lt_device_fill(lt_device *dev, lt_buffer *buf, int byte, lt_err *err)
{
    if (byte < 0 || byte > 255)
        return lt_fail(err, "device %s: %d is not a byte to fill with", dev->info.name, byte);
    return dev->ops->fill(dev, buf, byte, err);
}

/* CUDA's limits of a grid; the CPU device keeps the same ones. */
#define MAX_GRID_X 2147483647u
#define MAX_GRID_YZ 65535u

static int check_sizes(const lt_device *dev, const lt_kernel *k, const lt_launch *l, lt_err *err)
{
    const unsigned *g = l->grid, *b = l->block;
    if (!g[0] || !g[1] || !g[2] || g[0] > MAX_GRID_X || g[1] > MAX_GRID_YZ || g[2] > MAX_GRID_YZ)
        return lt_fail(err, "a grid of %u x %u x %u blocks (1 to %u, then 1 to %u)", g[0], g[1],
                       g[2], MAX_GRID_X, MAX_GRID_YZ);
    const uint64_t threads = (uint64_t)b[0] * b[1] * b[2];
    if (threads > 1024 || threads != (uint64_t)k->threads)
        return lt_fail(err, "a block of %u x %u x %u threads, compiled for %d", b[0], b[1], b[2],
                       k->threads);
    if (g[0] % (unsigned)k->cluster)
        return lt_fail(err, "a grid of %u blocks in x, in clusters of %d", g[0], k->cluster);
    if (l->shared > dev->info.shared_per_block)
        return lt_fail(err, "%u bytes of shared memory, a block may use %zu", l->shared,
                       dev->info.shared_per_block);
    const uint64_t blocks = (uint64_t)g[0] * g[1] * g[2];
    for (size_t i = 0; l->sample && i < l->samples; i++)
        if (l->sample[i] >= blocks)
            return lt_fail(err, "block %u is sampled, there are %llu", l->sample[i],
                           (unsigned long long)blocks);
    return 0;
}

static int check_launch(const lt_device *dev, const lt_kernel *k, const lt_launch *l,
                        const lt_arg *args, lt_err *err)
{
    if (check_sizes(dev, k, l, err)) goto fail;
    for (int i = 0; i < k->param_count; i++) {
        const lt_arg *a = &args[i];
        if (!a->buffer) {
            lt_fail(err, "argument %s has no buffer", k->params[i].name);
            goto fail;
        }
        if (a->offset >= a->buffer->bytes) {
            lt_fail(err, "argument %s begins at %zu in a buffer of %zu bytes", k->params[i].name,
                    a->offset, a->buffer->bytes);
            goto fail;
        }
    }
    return 0;
fail:
    return lt_wrap(err, "kernel %s", k->name);
}

void lt_device_tell(const lt_kernel *k, const lt_launch *l)
{
    lt_debug(5, "launch %s grid %u,%u,%u block %u,%u,%u shared %u%s", k->name, l->grid[0],
             l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2], l->shared,
             l->programmatic ? " programmatic" : "");
}

int lt_device_launch(lt_device *dev, lt_kernel *k, const lt_launch *l, const lt_arg *args,
                     lt_err *err)
{
    if (check_launch(dev, k, l, args, err)) return -1;
    lt_device_tell(k, l);
    return dev->ops->launch(dev, k, l, args, err);
}

int lt_device_sync(lt_device *dev, lt_err *err)
{
    return dev->ops->sync(dev, err);
}

int lt_device_check_step(const lt_device *dev, const lt_step *s, lt_err *err)
{
    return check_launch(dev, s->kernel, &s->launch, s->args, err);
}

int lt_device_time(lt_device *dev, const lt_step *steps, int count, bool brief, lt_timing *out,
                   lt_err *err)
{
    if (count < 1) return lt_fail(err, "device %s: %d steps to time", dev->info.name, count);
    for (int i = 0; i < count; i++)
        if (check_launch(dev, steps[i].kernel, &steps[i].launch, steps[i].args, err)) return -1;
    return dev->ops->time(dev, steps, count, brief, out, err);
}

void lt_kernel_unload(lt_device *dev, lt_kernel *k)
{
    if (dev && k) dev->ops->unload(dev, k);
}
