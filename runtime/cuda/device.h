/* device.h: the CUDA device inside: what device.c, kernel.c and time.c share. */
#ifndef LT_CUDA_DEVICE_H
#define LT_CUDA_DEVICE_H

#include "../device.h"
#include "driver.h"

#include <pthread.h>

enum { LT_CUDA_NOTES = 8 }; /* launches whose names an error can tell */

typedef struct {
    char kernel[256];
    unsigned grid[3], block[3];
} lt_cuda_note;

typedef struct {
    lt_device base;
    lt_cuda_api cu;
    lt_cu_device device;
    pthread_t opener; /* makes the context while the caller goes on: a tenth of a second */
    bool opening;     /* it was not yet waited for */
    bool retained;    /* the primary context is ours to release */
    lt_cu_context context;
    lt_cu_stream stream; /* everything goes here, copies too: they are seen in order */
    lt_cu_event from, to;
    uint64_t launches;                 /* since the device was opened */
    uint64_t settled;                  /* how many of them are known to have ended well */
    lt_cuda_note notes[LT_CUDA_NOTES]; /* launch n, counted from 0, is at n % LT_CUDA_NOTES */
    double busy_until; /* lt_now_us() where the last timing that warmed up ended; 0: none did */
    lt_err dead;       /* the error after which the driver refuses everything; empty = alive */
} lt_cuda_device;

typedef struct {
    lt_buffer base;
    lt_cu_pointer address;
} lt_cuda_buffer;

typedef struct {
    lt_kernel base;
    lt_cu_library library;
    lt_cu_function function;
    size_t shared_most; /* dynamic bytes that a launch may ask for */
} lt_cuda_kernel;

/* Calls a function of the driver: 0, or -1 and a sentence that names the device and the call. */
#define lt_cuda_try(d, name, args, err) lt_cuda_result(d, (d)->cu.name args, "cu" #name, err)

int lt_cuda_enter(lt_cuda_device *d, lt_err *err); /* first in each operation: open, current */
int lt_cuda_result(lt_cuda_device *d, lt_cu_result result, const char *call, lt_err *err);
int lt_cuda_settle(lt_cuda_device *d, lt_err *err); /* waits for all launches */
void lt_cuda_record(lt_cuda_device *d, const lt_kernel *k, const lt_launch *l); /* a launch */

/* kernel.c */
int lt_cuda_load(lt_device *dev, const lt_source *src, lt_span image, lt_kernel **out, lt_err *err);
void lt_cuda_unload(lt_device *dev, lt_kernel *k);
/* Puts a launch into the stream or the graph that is being captured from it; nothing else. */
int lt_cuda_enqueue(lt_cuda_device *d, lt_kernel *k, const lt_launch *l, const lt_arg *args,
                    lt_err *err);
int lt_cuda_launch(lt_device *dev, lt_kernel *k, const lt_launch *l, const lt_arg *args,
                   lt_err *err);

/* graph.c */
int lt_cuda_graph_make(lt_cuda_device *d, const lt_step *steps, int count, int repeats,
                       lt_cu_exec *out, lt_err *err); /* the steps, `repeats` times in a row */
/* Starts it, with the steps as suspects of what goes wrong. */
int lt_cuda_graph_start(lt_cuda_device *d, const lt_step *steps, int count, lt_cu_exec exec,
                        lt_err *err);
int lt_cuda_record_graph(lt_device *dev, const lt_step *steps, int count, lt_graph **out,
                         lt_err *err);
int lt_cuda_replay_graph(lt_device *dev, lt_graph *g, lt_err *err);
void lt_cuda_forget(lt_device *dev, lt_graph *g);

/* time.c */
int lt_cuda_time(lt_device *dev, const lt_step *steps, int count, bool brief, lt_timing *out,
                 lt_err *err);

#endif
