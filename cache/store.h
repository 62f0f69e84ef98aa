/* store.h: compiled images that outlive a process: one file an entry. Knows bytes and names,
 * nothing of CUDA.
 *
 * An entry's file is DIR/<name>.<first 16 hex of the key>. It holds a digest of the rest, the key
 * text, the generated text, the compiler's log and the image, and appears whole or not at all.
 * Entries are immutable. */
#ifndef LT_STORE_H
#define LT_STORE_H

#include <sys/types.h>

#include "../runtime/lathe.h"

typedef struct lt_store lt_store;

typedef struct {
    lt_bytes key_text; /* "field value" lines; its SHA-256 is the key */
    lt_bytes text;     /* what the compiler got, without #line */
    lt_bytes log;
    lt_bytes image;
} lt_entry; /* owned; all zero is empty */

typedef enum {
    LT_STORE_HIT,    /* out is filled */
    LT_STORE_MISS,   /* compile, then publish */
    LT_STORE_FAILED, /* err says why: only for errors that a compile would not mend */
} lt_store_result;

/* dir NULL: LATHE_CACHE_DIR and its defaults. A directory that cannot be made, written or trusted
 * (another's, or writable by others) is said once on stderr; the store then keeps entries in
 * memory, or serves hits from a readable, trusted one. */
int lt_store_open(lt_store **out, const char *dir, lt_err *err);
void lt_store_close(lt_store *s);
const char *lt_store_dir(const lt_store *s); /* "" when there is none */
bool lt_store_is_writable(const lt_store *s);

lt_store_result lt_store_find(lt_store *s, const char *name, const char key[65], lt_entry *out,
                              lt_err *err);
/* The newest entry of this name whose key text agrees in every line but those that begin with
 * `except`. */
lt_store_result lt_store_find_nearest(lt_store *s, const char *name, const char *key_text,
                                      const char *except, lt_entry *out, lt_err *err);
/* The entry of a file that walk named; it does not count as used. */
lt_store_result lt_store_read(lt_store *s, const char *file, lt_entry *out, lt_err *err);
/* Held while an entry is compiled: dies with its holder. Waits; says who holds it after 5 s, gives
 * up (0, unlocked) after `seconds`. *lock < 0 means not held (no directory, time over). Look again
 * with find once it is held. */
int lt_store_lock(lt_store *s, const char *name, const char key[65], double seconds, int *lock,
                  lt_err *err);
void lt_store_unlock(lt_store *s, int lock);
/* Losing a race to another writer is success. A full or read-only disk is said once, the entry
 * stays in memory. */
int lt_store_publish(lt_store *s, const char *name, const char key[65], const lt_entry *entry,
                     lt_err *err);
void lt_entry_clear(lt_entry *e);

typedef struct {
    char name[300]; /* of the file */
    size_t bytes;
    double age_seconds; /* since it was last used */
    bool whole;         /* the digest agrees; only filled by verify */
    char why[128];      /* what is wrong with it */
} lt_store_item;

/* Calls each for every entry, sorted by name; verify reads them whole. Stops when each answers
 * non-zero. */
int lt_store_walk(lt_store *s, bool verify, int (*each)(void *ctx, const lt_store_item *item),
                  void *ctx, lt_err *err);
/* Removes least recently used entries until at most limit_bytes are left, private files that a dead
 * writer left, and damaged ones. Entries that are being written or whose lock is held stay, and
 * folders in an entry's place that are not empty. *removed: entries; *removed_bytes: of private
 * files too. */
int lt_store_gc(lt_store *s, size_t limit_bytes, size_t *removed, size_t *removed_bytes,
                lt_err *err);
/* The same down to nothing, notes too. */
int lt_store_clear(lt_store *s, size_t *removed, lt_err *err);
/* A small text beside the entries (the compiler's identity): whole or not at all, like an entry.
 * MISS where there is none. */
lt_store_result lt_store_note_read(lt_store *s, const char *name, lt_bytes *out, lt_err *err);
int lt_store_note_write(lt_store *s, const char *name, lt_span text, lt_err *err);

typedef struct {
    int (*open)(int folder, const char *name, int flags, mode_t mode); /* openat */
    int (*mkdir)(const char *path, mode_t mode);
    ssize_t (*read)(int fd, void *to, size_t bytes);
    ssize_t (*write)(int fd, const void *from, size_t bytes);
    int (*sync)(int fd);                                         /* fsync */
    int (*rename)(int folder, const char *from, const char *to); /* renameat */
    double (*now)(void);                                         /* seconds, monotonic */
    void (*pause)(double seconds);
} lt_store_io;

/* For tests: the calls of stores that are opened afterwards; NULL = the system's. */
void lt_store_set_io(const lt_store_io *io);

#endif
