/* lathe.h: the runtime as Lua and the tests see it; the only public header.
 *
 * Ownership: what *_open, *_new, *_load and *_alloc give is the caller's, until the matching
 * *_close, *_free or *_unload, all of which accept NULL and half-built objects. Spans borrow. A
 * function that can fail returns 0 or -1 and writes one sentence into its last argument. One thread
 * at a time, unless a line says otherwise. */
#ifndef LATHE_H
#define LATHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LT_VERSION "0.1"
#define lt_countof(a) (sizeof(a) / sizeof *(a))

/* ---- errors: runtime/err.c ---- */

typedef struct {
    char text[1024]; /* subject: what happened (what to do) */
} lt_err;

int lt_fail(lt_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* writes text, returns -1 */
int lt_wrap(lt_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* "where: " in front, returns -1 */

/* ---- bytes: runtime/bytes.c ---- */

typedef struct {
    const void *ptr;
    size_t len;
} lt_span; /* borrowed */

typedef struct {
    char *ptr; /* ptr[len] is 0 once something was appended */
    size_t len, cap;
} lt_bytes; /* owned; all zero is empty */

int lt_bytes_append(lt_bytes *b, const void *ptr, size_t len, lt_err *err);
int lt_bytes_print(lt_bytes *b, lt_err *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void lt_bytes_clear(lt_bytes *b); /* frees and zeroes */
lt_span lt_bytes_view(const lt_bytes *b);
lt_span lt_span_text(const char *text);
void lt_sha256_hex(lt_span data, char out[65]); /* lower case, zero at the end */

/* ---- settings: runtime/config.c, the only reader of the environment ---- */

typedef enum {
    LT_SET_DEVICE, /* LATHE_DEVICE: cuda:N, cpu, or empty = cuda:0 where there is one, else cpu */
    LT_SET_ROOT,   /* LATHE_ROOT: folder whose files win over the embedded ones; empty = a checkout
                      around the program or here */
    LT_SET_CACHE_DIR, /* LATHE_CACHE_DIR: empty = $XDG_CACHE_HOME/lathe, else $HOME/.cache/lathe */
    LT_SET_CACHE_LIMIT,     /* LATHE_CACHE_LIMIT: MiB that `cache gc` leaves */
    LT_SET_JIT,             /* LATHE_JIT: on, off (a miss is an error) */
    LT_SET_JOBS,            /* LATHE_JOBS: compilers at once; 0 = one a core */
    LT_SET_COMPILE_SECONDS, /* LATHE_COMPILE_SECONDS: after which a compiler is killed */
    LT_SET_TUNE_SECONDS,    /* LATHE_TUNE_SECONDS: after which a candidate counts as hanging */
    LT_SET_NVRTC,           /* LATHE_NVRTC: path of libnvrtc; empty = search */
    LT_SET_SPILL,           /* LATHE_SPILL: warn, error */
    LT_SET_DEBUG,           /* LATHE_DEBUG: 0..5 */
    LT_SET_DUMP,            /* LATHE_DUMP: folder for texts, images and logs; empty = none */
    LT_SET_CPU_ORDER, /* LATHE_CPU_ORDER: 0 forward, 1 reverse, 2 and up random with that seed */
    LT_SET_CPU_LAZY,  /* LATHE_CPU_LAZY: on = asynchronous copies land as late as they may */
    LT_SET_CPU_LEFT, /* LATHE_CPU_LEFT: on = buffers start at a page, so that reads before the start
                        fault */
    LT_SET_CPU_CHECK,   /* LATHE_CPU_CHECK: on = gcc compiles, and each access is checked */
    LT_SET_CPU_SECONDS, /* LATHE_CPU_SECONDS: after which a launch counts as endless */
    LT_SETTINGS
} lt_setting;

typedef struct {
    const char *name, *env, *value, *source, *help; /* source: default, environment, flag */
} lt_setting_info;

int lt_config_read(lt_err *err); /* once, at start; a bad value is an error */
int lt_config_set(const char *name, const char *value,
                  lt_err *err); /* a flag of the command line */
lt_setting_info lt_config_info(lt_setting s);
const char *lt_config_default_cache_dir(void); /* where LATHE_CACHE_DIR is empty; NULL = nowhere */
const char *lt_config_text(lt_setting s);
long lt_config_int(lt_setting s); /* words count from 0 in the order of the comment: off = 0, on =
                                     1; warn = 0, error = 1 */
void lt_debug(int level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3))); /* a line on stderr if LATHE_DEBUG >= level */

/* ---- the project's own files: runtime/files.c; a checkout's win over the embedded ones ---- */

int lt_files_read(const char *name, lt_bytes *out,
                  lt_err *err); /* name as in the repository: "gen/emit.lua" */
int lt_files_list(const char *folder, lt_bytes *out,
                  lt_err *err);  /* sorted names, one a line, no folders */
const char *lt_files_root(void); /* the checkout in use, or NULL */

/* ---- number formats of the host: runtime/number.c ---- */

float lt_number_bf16(uint16_t bits);
float lt_number_f16(uint16_t bits);
float lt_number_e4m3(uint8_t bits);  /* 0x7f and 0xff are NaN */
float lt_number_e2m1(uint8_t code);  /* low four bits */
uint16_t lt_number_to_bf16(float x); /* nearest even; NaN gives 0x7fff */
uint16_t lt_number_to_f16(float x);  /* nearest even, overflow gives infinity; NaN gives 0x7fff */
uint8_t lt_number_to_e4m3(float x);  /* nearest even, saturates at 448; NaN gives 0x7f */
uint8_t
lt_number_to_e2m1(float x); /* nearest even, saturates at 6; NaN gives 7; a zero has no sign */

/* ---- devices: runtime/device.c over cuda/ and cpu/ ---- */

typedef struct lt_device lt_device;
typedef struct lt_buffer lt_buffer; /* device memory */
typedef struct lt_kernel lt_kernel; /* loaded, ready to launch */

typedef struct {
    char name[64];           /* "cuda:0", "cpu" */
    char model[96];          /* "NVIDIA H200", "CPU device" */
    char key[64];            /* of tuning records: "nvidia-h200", "cpu" */
    char arch[16];           /* whose text it runs: "sm_90a"; "cpu" */
    char driver[32];         /* "580.159.04 (CUDA 13.0)"; empty on the CPU */
    int sms;                 /* multiprocessors; 1 on the CPU */
    size_t shared_per_block; /* bytes a block may use, dynamic and static together */
    size_t memory;           /* bytes in all; 0 = unknown */
} lt_device_info;

typedef struct {
    char name[32]; /* as in the family's table */
    bool out;      /* the kernel may write it */
} lt_param;        /* every parameter of a kernel is one device pointer: 8 bytes */

enum { LT_MAX_PARAMS = 24 };

typedef struct {
    const char *name;       /* of the kernel: symbol, cache entry */
    const char *arch;       /* "sm_90a"; "cpu" for the CPU device */
    lt_span text;           /* prelude and generated text with #line: what the compiler gets */
    lt_span plain;          /* the same without #line: what the key covers */
    const lt_param *params; /* in order */
    int param_count;
    int threads; /* a block; what the launch bounds say */
    int cluster; /* blocks beside each other in x that reach each other's shared memory; 0: as 1 */
    int model;   /* tensor-core model of the CPU device: 90 or 120 */
} lt_source;

typedef struct {
    int registers, stack_bytes, shared_bytes, spills; /* spills: instructions; shared: static */
    size_t image_bytes;
} lt_facts;

typedef enum { LT_FROM_CACHE, LT_FROM_COMPILER, LT_FROM_OLDER_COMPILER } lt_origin;

typedef struct {
    lt_origin origin;
    double compile_ms; /* 0 from the cache */
    lt_facts facts;    /* zero on the CPU device */
    char key[65];      /* of the entry; empty on the CPU device */
    char code[17];     /* 16 hex of the machine code's SHA-256, whatever the kernel's name; empty on
                          the CPU device, and where lt_jit_build loads */
} lt_jit_report;

typedef struct {
    unsigned grid[3], block[3];
    unsigned shared;        /* bytes of dynamic shared memory */
    bool programmatic;      /* may start before the launch in front of it has ended */
    const unsigned *sample; /* CPU device: only these blocks (x + grid.x * (y + grid.y * z)), NULL =
                               all; with clusters one of each, which brings the others */
    size_t samples;
} lt_launch;

typedef struct {
    lt_buffer *buffer;
    size_t offset; /* bytes */
} lt_arg;

typedef struct {
    int order; /* as LATHE_CPU_ORDER */
    bool lazy; /* as LATHE_CPU_LAZY */
    bool left; /* as LATHE_CPU_LEFT, for buffers allocated afterwards */
} lt_play;

typedef struct {
    lt_kernel *kernel;
    lt_launch launch;
    lt_arg args[LT_MAX_PARAMS];
} lt_step; /* one launch of a sequence that is timed */

typedef struct {
    double us;     /* a step: median over the replays */
    double spread; /* |median of the first half - of the second| / us */
    int replays, nodes;
} lt_timing;

int lt_device_open(lt_device **out, const char *name,
                   lt_err *err); /* "cuda:0", "cpu", "" = the default */
/* Begins to open the default one, if that may be a GPU: the next lt_device_open of it has less to
 * wait for. What nobody has opened when the program ends is closed by the second. */
void lt_device_open_ahead(void);
void lt_device_close_ahead(void);
void lt_device_close(lt_device *dev);
const lt_device_info *lt_device_describe(const lt_device *dev);
int lt_device_play(lt_device *dev, const lt_play *play, lt_err *err); /* the CPU device only */
int lt_device_alloc(lt_device *dev, size_t bytes, lt_buffer **out,
                    lt_err *err); /* contents: 0xff */
void lt_device_free(lt_device *dev, lt_buffer *buf);
int lt_device_write(lt_device *dev, lt_buffer *buf, size_t offset, lt_span from, lt_err *err);
int lt_device_read(lt_device *dev, const lt_buffer *buf, size_t offset, void *to, size_t bytes,
                   lt_err *err);
int lt_device_fill(lt_device *dev, lt_buffer *buf, int byte, lt_err *err);
int lt_device_launch(lt_device *dev, lt_kernel *k, const lt_launch *l, const lt_arg *args,
                     lt_err *err);
int lt_device_sync(lt_device *dev,
                   lt_err *err); /* an error of an earlier launch appears here at the latest */
/* brief: a few milliseconds on a GPU, for telling slow kernels from fast ones. */
int lt_device_time(lt_device *dev, const lt_step *steps, int count, bool brief, lt_timing *out,
                   lt_err *err);
void lt_kernel_unload(lt_device *dev, lt_kernel *k);

/* ---- programs: runtime/program.c: launches with resolved parameters, started again and again ----
 */

typedef struct lt_program lt_program;

/* Copies the steps. On a GPU they become one graph, which serves as long as the buffers live: what
 * changes from run to run is in device memory. Kernels and buffers stay the caller's. */
int lt_program_new(lt_program **out, lt_device *dev, const lt_step *steps, int count, lt_err *err);
void lt_program_free(lt_program *p);
int lt_program_run(lt_program *p, lt_err *err); /* starts it; lt_device_sync or a read waits */
/* How long a launch of the program takes on average, with the launches in their order and with
 * their programmatic edges: us times the number of steps is a run. */
int lt_program_time(lt_program *p, lt_timing *out, lt_err *err);
/* One step alone, and waits: for looking at what each wrote. */
int lt_program_run_step(lt_program *p, int step, lt_err *err);

/* ---- from text to a loaded kernel: runtime/jit.c ---- */

int lt_jit_prepare(lt_err *err); /* makes LATHE_DUMP's folder; -1: it cannot be used */
int lt_jit_load(lt_device *dev, const lt_source *src, lt_kernel **out, lt_jit_report *report,
                lt_err *err);

typedef struct {
    lt_source source;
    lt_jit_report report; /* filled */
    lt_kernel *kernel;    /* where a device is given: loaded there; NULL where it failed */
    bool failed;
    lt_err err;
} lt_build; /* one of many kernels */

/* Compiles into the cache, with several compilers at once (LATHE_JOBS), and loads onto dev unless
 * that is NULL. Calls progress after each; a non-zero answer stops the rest. 0, or -1 when stopped:
 * what was loaded is then unloaded. */
int lt_jit_build(lt_device *dev, lt_build *builds, size_t count,
                 int (*progress)(void *ctx, size_t done, size_t count), void *ctx, lt_err *err);
/* The key of an entry as text, one "field value" a line: format, arch, compiler, options, text. */
int lt_jit_key(const lt_source *src, lt_bytes *key_text, char key[65], lt_err *err);
/* The cache that all of these share and open when they need it: borrowed until lt_jit_close. */
struct lt_store; /* cache/store.h */
int lt_jit_store(struct lt_store **out, lt_err *err);
void lt_jit_close(void); /* gives it back */

/* ---- what `check` needs has headers of its own: ctype.h (formats of arrays), sample.h (random
 * inputs), compare.h, tensor.h (safetensors files) ---- */

double lt_now_us(void); /* monotonic: runtime/time.c */

#endif
