/* files.c: the project's own files: scripts, families, templates, shipped records. A checkout's own
 * file wins over the embedded one of the same name. */
#include "lathe.h"

#include "embedded.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Is this folder a checkout of the project? */
static bool is_checkout(const char *folder)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/families", folder);
    if (!is_folder(path)) return false;
    snprintf(path, sizeof path, "%s/gen/emit.lua", folder);
    return access(path, R_OK) == 0;
}

static bool find_root(char root[PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", root, PATH_MAX - 1);
    if (n > 0) {
        root[n] = 0;
        *strrchr(root, '/') = 0;
        if (is_checkout(root)) return true;
    }
    return getcwd(root, PATH_MAX) && is_checkout(root);
}

/* LATHE_ROOT, else the folder of the program, else the one that it began in. */
const char *lt_files_root(void)
{
    static char root[PATH_MAX];
    static enum { UNKNOWN, NONE, FOUND } state; /* a start reads 200 files: it is looked for once */
    const char *given = lt_config_text(LT_SET_ROOT);
    if (*given) return given;
    if (state == UNKNOWN) state = find_root(root) ? FOUND : NONE;
    return state == FOUND ? root : NULL;
}

/* Is name a path inside the project: relative, and never upwards? */
static bool is_inside(const char *name)
{
    if (!*name || *name == '/') return false;
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2])) return false;
    }
    return true;
}

/* The path of name in the checkout; an empty one where there is none. */
static int find_path(const char *name, char path[2 * PATH_MAX], lt_err *err)
{
    *path = 0;
    if (!is_inside(name))
        return lt_fail(err, "%s: not a file of the project (names are relative, without '..')",
                       name);
    const char *root = lt_files_root();
    if (!root) return 0;
    if (!is_folder(root))
        return lt_fail(err, "LATHE_ROOT: '%s' is not a folder (unset it or name a checkout)", root);
    snprintf(path, 2 * PATH_MAX, "%s/%s", root, name);
    return 0;
}

static int read_all(FILE *f, const char *path, lt_bytes *out, lt_err *err)
{
    char part[16384];
    size_t n;
    do {
        n = fread(part, 1, sizeof part, f);
        if (lt_bytes_append(out, part, n, err)) return -1;
    } while (n == sizeof part);
    return ferror(f) ? lt_fail(err, "%s: cannot be read: %s", path, strerror(errno)) : 0;
}

/* Appends to out, which is cleared on failure. */
int lt_files_read(const char *name, lt_bytes *out, lt_err *err)
{
    char path[2 * PATH_MAX];
    if (find_path(name, path, err)) return -1;
    FILE *f = *path ? fopen(path, "rb") : NULL;
    if (f) {
        const int failed = read_all(f, path, out, err);
        fclose(f);
        if (failed) lt_bytes_clear(out);
        return failed;
    }
    if (*path && errno != ENOENT && errno != ENOTDIR)
        return lt_fail(err, "%s: cannot be opened: %s", path, strerror(errno));
    for (size_t i = 0; i < lt_embedded_count; i++) {
        const lt_embedded *e = &lt_embedded_files[i];
        if (!strcmp(e->name, name)) return lt_bytes_append(out, e->ptr, e->len, err);
    }
    return lt_fail(err, "%s: no such file in the program%s%s", name, *path ? " or in " : "",
                   *path ? lt_files_root() : "");
}

typedef struct {
    char **at;
    size_t count;
} names;

static int add_name(names *n, const char *name, lt_err *err)
{
    char **at = realloc(n->at, (n->count + 1) * sizeof *at);
    if (!at) return lt_fail(err, "%s: out of memory", name);
    n->at = at;
    at[n->count] = strdup(name);
    if (!at[n->count]) return lt_fail(err, "%s: out of memory", name);
    n->count++;
    return 0;
}

static void clear_names(names *n)
{
    for (size_t i = 0; i < n->count; i++) free(n->at[i]);
    free(n->at);
}

/* The files of the checkout's folder; hidden ones are an editor's. */
static int add_checkout(names *n, const char *path, lt_err *err)
{
    DIR *dir = *path ? opendir(path) : NULL;
    if (!dir) return 0;
    int failed = 0;
    for (struct dirent *d; !failed && (d = readdir(dir));) {
        char file[3 * PATH_MAX];
        struct stat st;
        snprintf(file, sizeof file, "%s/%s", path, d->d_name);
        if (d->d_name[0] != '.' && stat(file, &st) == 0 && S_ISREG(st.st_mode))
            failed = add_name(n, d->d_name, err);
    }
    closedir(dir);
    return failed;
}

static int add_embedded(names *n, const char *folder, lt_err *err)
{
    const size_t len = strlen(folder);
    for (size_t i = 0; i < lt_embedded_count; i++) {
        const char *name = lt_embedded_files[i].name;
        if (strncmp(name, folder, len) || name[len] != '/' || strchr(name + len + 1, '/')) continue;
        if (add_name(n, name + len + 1, err)) return -1;
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names without the folder, of the checkout and embedded together. Appends to out, which is cleared
 * on failure. A folder that is nowhere is empty. */
int lt_files_list(const char *folder, lt_bytes *out, lt_err *err)
{
    char path[2 * PATH_MAX];
    names n = {0};
    if (find_path(folder, path, err)) return -1;
    if (add_checkout(&n, path, err) || add_embedded(&n, folder, err)) goto fail;
    if (n.count) qsort(n.at, n.count, sizeof *n.at, by_name);
    for (size_t i = 0; i < n.count; i++) {
        if (i && !strcmp(n.at[i], n.at[i - 1])) continue;
        if (lt_bytes_print(out, err, "%s\n", n.at[i])) goto fail;
    }
    clear_names(&n);
    return 0;
fail:
    clear_names(&n);
    lt_bytes_clear(out);
    return -1;
}
