/* folder.h: one trusted directory. Its files appear whole or not at all, each with a digest of what
 * follows; locks die with their holder. Knows nothing of what the files mean. Only for cache/. */
#ifndef LT_FOLDER_H
#define LT_FOLDER_H

#include <time.h>

#include "store.h"

typedef struct {
    const lt_store_io *io;
    int fd;        /* -1 = there is none: every file is absent */
    char *path;    /* owned, without slashes at the end; NULL = there is none */
    bool writable; /* by this process */
    unsigned next; /* number of the next private name */
} lt_folder;

extern const lt_store_io lt_folder_system_io;

const lt_store_io *lt_folder_io(void); /* the system's calls, or those of a test */

/* Opens path, makes what is missing of it. -1: it cannot be opened or trusted, f has no directory
 * and err says why. */
int lt_folder_open(lt_folder *f, const char *path, const lt_store_io *io, lt_err *err);
void lt_folder_close(lt_folder *f);

/* HIT: *out holds what follows the magic line and the digest. MISS: err->text is empty where there
 * is no such file, else it says what is wrong with the one that is there. */
lt_store_result lt_folder_read(const lt_folder *f, const char *file, const char *magic,
                               lt_bytes *out, lt_err *err);
/* -1: err has the reason, nothing of the new file is left, an older one is as it was. */
int lt_folder_write(lt_folder *f, const char *file, const char *magic, lt_span body, lt_err *err);
/* The same for a file that holds the body alone. */
int lt_folder_replace(lt_folder *f, const char *file, lt_span body, lt_err *err);
/* A file's descriptor: a regular file's, which only this user or root may have written. -1:
 * err->text is empty where there is none and flags do not make one, else it says what is wrong. */
int lt_folder_open_file(const lt_folder *f, const char *file, int flags, lt_err *err);
/* All bytes of an opened file. It keeps the time of its last use: a look at the whole cache is no
 * use of each entry. */
lt_store_result lt_folder_take(const lt_folder *f, int fd, lt_bytes *out, lt_err *err);
/* Does the name still mean this opened file? */
bool lt_folder_is_named(const lt_folder *f, int fd, const char *file);
/* Marks the file as used now. */
void lt_folder_use(const lt_folder *f, const char *file);

/* The lock file's descriptor, or -1 when it cannot be had within `seconds`. who: whose work it
 * guards, for the line that says who holds it. */
int lt_folder_lock(const lt_folder *f, const char *lock, double seconds, const char *who);
void lt_folder_unlock(const lt_folder *f, const char *lock, int fd);

typedef struct {
    char name[256];
    size_t bytes;
    struct timespec written, used; /* used: the later of written and read that a clock may show */
} lt_listed;

typedef struct {
    lt_listed *at; /* owned */
    size_t count, room;
} lt_listing;

/* All files whose name begins so, by name; the caller frees out->at. What goes away meanwhile is
 * left out. */
int lt_folder_list(const lt_folder *f, const char *begin, lt_listing *out, lt_err *err);
int lt_folder_compare_times(const struct timespec *a, const struct timespec *b); /* as strcmp */

/* Removes file unless somebody holds the lock file `lock`, which may be the file itself and is
 * removed too. Whether file is gone now. */
bool lt_folder_remove(const lt_folder *f, const char *file, const char *lock);
/* Is this a private file that its writer left? */
bool lt_folder_is_stale(const char *file, double age_seconds);

#endif
