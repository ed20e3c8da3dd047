/* Effects of a power loss on the files and names of a directory; part of `preload.c`.

   Each file keeps its content at the last sync and a random part of the later writes: each of these
   is complete, missing, torn at a sector boundary, or has only extended the file. Of the names
   created, moved and removed since the last sync of their directory, only the first few changes
   remain, in order: a file may be gone again, or be back. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { SECTOR = 512, MOST_FILES = 64, MOST_NAMES = 64 };

/* A change of a file since its last sync: `length` bytes at `at` became `fresh`, and `stale` is what
   they were before; or, without `fresh`, the file was truncated or extended from `size` to `at`. */
struct change {
    off_t at, size;
    size_t length, stale_length;
    unsigned char *stale, *fresh;
};

static struct {
    char path[PATH_MAX];
    struct change *changes;
    size_t count, room;
} files[MOST_FILES];

/* Changes of names since their directory's last sync: `from`, if there is one, became `to`; or `to`
   was created; or, if `removed`, it was deleted. `kept` is a second name of the file that was called
   `to` before. */
static struct {
    char from[PATH_MAX], to[PATH_MAX], kept[PATH_MAX];
    int removed;
} names[MOST_NAMES];

static char directory[PATH_MAX];
static int known, renamed, kept;

static int power; /* true if a power loss will follow, so that all changes are recorded */
static unsigned seed;

#define REAL(type, name, ...)                                       \
    typedef type (*name##_t)(__VA_ARGS__);                          \
    static name##_t name##_real(void) {                             \
        static name##_t found;                                      \
        if (found == NULL) found = (name##_t)dlsym(RTLD_NEXT, #name); \
        return found;                                               \
    }

REAL(int, open64, const char *, int, ...)
REAL(int, close, int)
REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)
REAL(int, ftruncate64, int, off64_t)
REAL(int, unlink, const char *)
REAL(int, rename, const char *, const char *)

/* Writes since the last sync */

static void remember(int file, off_t at, size_t length, const void *fresh, int handle) {
    struct stat status;
    if (!power || fstat(handle, &status) != 0) return;
    if (files[file].count == files[file].room) {
        files[file].room = files[file].room * 2 + 16;
        files[file].changes = realloc(files[file].changes, files[file].room * sizeof(struct change));
    }
    struct change *change = &files[file].changes[files[file].count++];
    memset(change, 0, sizeof *change);
    change->at = at;
    change->size = status.st_size;
    off_t end = fresh == NULL ? change->size : at + (off_t)length;
    if (end > change->size) end = change->size;
    if (end > at) {
        change->stale = malloc((size_t)(end - at));
        ssize_t got = pread(handle, change->stale, (size_t)(end - at), at);
        change->stale_length = got < 0 ? 0 : (size_t)got;
    }
    if (fresh != NULL) {
        change->length = length;
        change->fresh = malloc(length);
        memcpy(change->fresh, fresh, length);
    }
}

static void forget(int file) {
    for (size_t n = 0; n < files[file].count; n++) {
        free(files[file].changes[n].stale);
        free(files[file].changes[n].fresh);
    }
    files[file].count = 0;
}

/* Changes of names since the last sync of the directory */

static int number_of(const char *path) {
    for (int file = 0; file < known; file++)
        if (strcmp(path, files[file].path) == 0) return file;
    return -1;
}

/* Record that `to` will be created, renamed from `from`, or `removed`: the file that has the name so
   far gets a second one, under which a power loss finds it. */
static void remember_name(const char *from, const char *to, int removed) {
    if (!power) return;
    if (renamed == MOST_NAMES) abort();
    snprintf(names[renamed].from, PATH_MAX, "%s", from == NULL ? "" : from);
    snprintf(names[renamed].to, PATH_MAX, "%s", to);
    names[renamed].removed = removed;
    names[renamed].kept[0] = '\0';
    char other[PATH_MAX];
    if (snprintf(other, PATH_MAX, "%s/.kept-%d", directory, kept++) >= PATH_MAX) abort();
    unlink_real()(other);
    if ((from != NULL || removed) && link(to, other) == 0) {
        snprintf(names[renamed].kept, PATH_MAX, "%s", other);
        int gone = number_of(to);
        if (gone >= 0) snprintf(files[gone].path, PATH_MAX, "%s", other);
    }
    int moved = from == NULL ? -1 : number_of(from);
    if (moved >= 0) snprintf(files[moved].path, PATH_MAX, "%s", to);
    renamed++;
}

/* All changes of names are durable, or were undone: second names are no longer needed. */
static void forget_names(void) {
    for (int n = 0; n < renamed; n++) {
        if (names[n].kept[0] == '\0') continue;
        int gone = number_of(names[n].kept);
        if (gone >= 0) {
            forget(gone);
            files[gone].path[0] = '\0';
        }
        unlink_real()(names[n].kept);
    }
    renamed = 0;
}

/* The power loss */

static void put(int handle, const unsigned char *bytes, size_t length, off_t at) {
    while (length > 0) {
        ssize_t done = pwrite64_real()(handle, bytes, length, at);
        if (done <= 0) return;
        bytes += done, length -= (size_t)done, at += done;
    }
}

/* Apply `change` like a disk that had no time to finish. */
static void redo(int handle, const struct change *change) {
    unsigned luck = (unsigned)rand_r(&seed) % 4;
    if (change->fresh == NULL) {
        if (luck < 2) ftruncate64_real()(handle, change->at);
        return;
    }
    off_t end = change->at + (off_t)change->length;
    if (luck == 0) return;
    if (luck == 1) {
        put(handle, change->fresh, change->length, change->at);
        return;
    }
    struct stat status;
    if (luck == 2 && fstat(handle, &status) == 0 && status.st_size < end) {
        ftruncate64_real()(handle, end);
        return;
    }
    for (off_t from = change->at; from < end;) {
        off_t until = (from / SECTOR + 1) * SECTOR;
        if (until > end) until = end;
        if (rand_r(&seed) % 2)
            put(handle, change->fresh + (from - change->at), (size_t)(until - from), from);
        from = until;
    }
}

/* Undo a random number of the latest changes of names. */
static void lose_names(void) {
    int left = renamed == 0 ? 0 : (int)((unsigned)rand_r(&seed) % (unsigned)(renamed + 1));
    for (int n = renamed; n-- > left;) {
        if (names[n].from[0] != '\0')
            rename_real()(names[n].to, names[n].from);
        else if (!names[n].removed)
            unlink_real()(names[n].to);
        if (names[n].kept[0] != '\0') rename_real()(names[n].kept, names[n].to);
        names[n].kept[0] = '\0';
    }
    forget_names();
}

static void lose_power(void) {
    for (int file = 0; file < known; file++) {
        if (files[file].count == 0) continue;
        int handle = open64_real()(files[file].path, O_RDWR | O_CLOEXEC);
        if (handle < 0) continue;
        for (size_t n = files[file].count; n-- > 0;) {
            const struct change *change = &files[file].changes[n];
            put(handle, change->stale, change->stale_length, change->at);
            ftruncate64_real()(handle, change->size);
        }
        for (size_t n = 0; n < files[file].count; n++) redo(handle, &files[file].changes[n]);
        close_real()(handle);
    }
    lose_names();
}
