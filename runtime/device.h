/* device.h: the one interface that both devices implement. A device struct begins with lt_device;
 * buffers and kernels are the device's own structs, which begin with lt_buffer and lt_kernel.
 * runtime/device.c forwards the public calls to it. */
#ifndef LT_DEVICE_H
#define LT_DEVICE_H

#include "lathe.h"

struct lt_buffer {
    size_t bytes;
};

struct lt_kernel {
    char name[256];
    lt_param params[LT_MAX_PARAMS];
    int param_count;
    int threads; /* a block */
    int cluster; /* blocks */
};

typedef struct lt_graph lt_graph; /* a device's way to start a sequence of launches again */

typedef struct {
    void (*close)(lt_device *dev);
    int (*play)(lt_device *dev, const lt_play *play, lt_err *err);
    int (*alloc)(lt_device *dev, size_t bytes, lt_buffer **out, lt_err *err);
    void (*free)(lt_device *dev, lt_buffer *buf);
    int (*write)(lt_device *dev, lt_buffer *buf, size_t offset, lt_span from, lt_err *err);
    int (*read)(lt_device *dev, const lt_buffer *buf, size_t offset, void *to, size_t bytes,
                lt_err *err);
    int (*fill)(lt_device *dev, lt_buffer *buf, int byte, lt_err *err);
    /* image: a cubin. A device whose `compiles` is set takes src->text instead and needs no cache
     * (libtcc: a millisecond). */
    int (*load)(lt_device *dev, const lt_source *src, lt_span image, lt_kernel **out, lt_err *err);
    void (*unload)(lt_device *dev, lt_kernel *k);
    int (*launch)(lt_device *dev, lt_kernel *k, const lt_launch *l, const lt_arg *args,
                  lt_err *err);
    int (*sync)(lt_device *dev, lt_err *err);
    int (*time)(lt_device *dev, const lt_step *steps, int count, bool brief, lt_timing *out,
                lt_err *err);
    /* The steps are borrowed until forget. replay only starts them: sync waits. */
    int (*record)(lt_device *dev, const lt_step *steps, int count, lt_graph **out, lt_err *err);
    int (*replay)(lt_device *dev, lt_graph *g, lt_err *err);
    void (*forget)(lt_device *dev, lt_graph *g);
} lt_device_ops;

struct lt_device {
    const lt_device_ops *ops;
    lt_device_info info;
    bool compiles; /* load takes the text */
};

/* Is the step one that a launch takes? For what is launched without lt_device_launch. */
int lt_device_check_step(const lt_device *dev, const lt_step *s, lt_err *err);
void lt_device_tell(const lt_kernel *k, const lt_launch *l); /* LATHE_DEBUG=5 */
int lt_cpu_open(lt_device **out, lt_err *err);               /* runtime/cpu/device.c */
int lt_cuda_open(lt_device **out, int index, lt_err *err);   /* runtime/cuda/device.c */
int lt_cuda_count(void); /* GPUs; 0 without a driver; opens libcuda */

#endif
