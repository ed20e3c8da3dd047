/* A disk that fails on demand, between SQLite and the C library.

   Preloaded into a process, it does nothing until `disk_arm` names a database. From then on it counts what
   is done to that database's files (writes, truncations, syncs and deletions), and at the chosen one the
   process dies, or the machine loses power; `disk_refuse` makes the disk full or read-only for a while.

   A power loss leaves of each file what it held at its last sync and a random part of what was written
   since: each write is there, or missing, or torn at a sector, or only its space is. File names are taken
   to be durable at once. The files are those whose names begin with the database's: itself, its log, its
   rollback journal, and what it is made from. The `-shm` file is not among them: it is shared memory that
   is never written with write(2), is never synced, and is built anew from the log by whoever opens the
   database first after a crash, so that nothing in it can be lost. Nor is the `.lock`, which has no content.
   SQLite writes the database itself through memory only where mmap_size says so, which is 0 here. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { SECTOR = 512, MOST_HANDLES = 4096, MOST_FILES = 32 };
enum when { NEVER, BEFORE, AMID, AFTER };
enum operation { WRITE = 1, SYNC = 2, OPEN = 4, DELETE = 8 };
static const char *const unwatched[] = {"-shm", ".lock"};

/* What was done to a file since its last sync: `length` bytes at `at` became `fresh`, `stale` of them
   existed before; or, without `fresh`, the file was cut or grown from `size` to `at`. */
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

static char database[PATH_MAX];
static int known;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char file_of[MOST_HANDLES]; /* the file's number plus one */
static enum when death = NEVER;
static int armed, power, only, refused, refused_error;
static long at_operation, operations;
static unsigned seed;

#define REAL(type, name, ...)                                       \
    typedef type (*name##_t)(__VA_ARGS__);                          \
    static name##_t name##_real(void) {                             \
        static name##_t found;                                      \
        if (found == NULL) found = (name##_t)dlsym(RTLD_NEXT, #name); \
        return found;                                               \
    }

REAL(int, open64, const char *, int, ...)
REAL(int, openat64, int, const char *, int, ...)
REAL(int, close, int)
REAL(ssize_t, write, int, const void *, size_t)
REAL(ssize_t, pwrite64, int, const void *, size_t, off64_t)
REAL(int, ftruncate64, int, off64_t)
REAL(int, fsync, int)
REAL(int, fdatasync, int)
REAL(int, unlink, const char *)

/* What the harness calls */

/* Watch the database at `path`. The process dies `when` its operation number `at` is done, counting only
   those in the mask `kinds` (0 for all); with `power_loss` what was not synced is undone in part first. */
void disk_arm(const char *path, int when, long at, int kinds, int power_loss, unsigned random_seed) {
    pthread_mutex_lock(&lock);
    snprintf(database, PATH_MAX, "%s", path);
    death = (enum when)when;
    at_operation = at;
    only = kinds;
    power = power_loss;
    seed = random_seed;
    armed = 1;
    pthread_mutex_unlock(&lock);
}

/* From now on operations in the mask `kinds` fail with `error`; 0 for none. */
void disk_refuse(int error, int kinds) {
    pthread_mutex_lock(&lock);
    refused = kinds;
    refused_error = error;
    pthread_mutex_unlock(&lock);
}

/* How many operations there were. */
long disk_operations(void) { return operations; }

/* What was written since the last sync */

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

/* The ends */

static void die(void) {
    for (;;) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

static void put(int handle, const unsigned char *bytes, size_t length, off_t at) {
    while (length > 0) {
        ssize_t done = pwrite64_real()(handle, bytes, length, at);
        if (done <= 0) return;
        bytes += done, length -= (size_t)done, at += done;
    }
}

/* Do `change` again as a disk may have done it that had no time to finish. */
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
}

/* Whether the process dies `now`, in its operation of this `kind`. */
static int is_end(enum operation kind, enum when now) {
    return death == now && operations == at_operation && (only == 0 || (only & kind) != 0);
}

static void end_if(enum operation kind, enum when now) {
    if (!is_end(kind, now)) return;
    if (power) lose_power();
    die();
}

static void begin(enum operation kind) {
    pthread_mutex_lock(&lock);
    if (only == 0 || (only & kind) != 0) operations++;
    end_if(kind, BEFORE);
    if (kind != WRITE) end_if(kind, AMID); /* only a write has a middle */
}

static void end(enum operation kind) {
    end_if(kind, AMID);
    end_if(kind, AFTER);
    pthread_mutex_unlock(&lock);
}

/* What is done of a write in whose middle the process dies, or for which there is no more space. */
static size_t half(size_t length) { return length > SECTOR ? length / 2 : 0; }

static int is_refused(enum operation kind) {
    if ((refused & kind) == 0) return 0;
    errno = refused_error;
    return 1;
}

static int watched(int handle) {
    return armed && handle >= 0 && handle < MOST_HANDLES ? file_of[handle] - 1 : -1;
}

static int is_ours(const char *path) {
    return armed && strncmp(path, database, strlen(database)) == 0;
}

/* The number of the file at `path`, which may be a new one; -1 for one that is not watched. */
static int file_at(const char *path) {
    if (!is_ours(path)) return -1;
    size_t length = strlen(path);
    for (size_t n = 0; n < sizeof unwatched / sizeof *unwatched; n++) {
        size_t ending = strlen(unwatched[n]);
        if (length > ending && strcmp(path + length - ending, unwatched[n]) == 0) return -1;
    }
    for (int file = 0; file < known; file++)
        if (strcmp(path, files[file].path) == 0) return file;
    if (known == MOST_FILES) abort();
    snprintf(files[known].path, PATH_MAX, "%s", path);
    return known++;
}

/* What SQLite calls */

static int opened(const char *path, int handle) {
    if (!armed || handle < 0 || handle >= MOST_HANDLES) return handle;
    pthread_mutex_lock(&lock);
    file_of[handle] = (unsigned char)(file_at(path) + 1);
    pthread_mutex_unlock(&lock);
    return handle;
}

static int may_open(const char *path, int flags) {
    int writes = (flags & (O_ACCMODE | O_CREAT)) != O_RDONLY;
    return !(writes && is_ours(path) && is_refused(OPEN));
}

static mode_t mode_of(int flags, va_list arguments) {
    return (flags & O_CREAT) ? va_arg(arguments, mode_t) : 0;
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return may_open(path, flags) ? opened(path, open64_real()(path, flags, mode)) : -1;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open64(path, flags, mode);
}

int openat64(int directory, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    if (!may_open(path, flags)) return -1;
    return opened(path, openat64_real()(directory, path, flags, mode));
}

int openat(int directory, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return openat64(directory, path, flags, mode);
}

int close(int handle) {
    if (watched(handle) >= 0) file_of[handle] = 0;
    return close_real()(handle);
}

static ssize_t written(int file, int handle, const void *bytes, size_t length, off_t at) {
    ssize_t done = -1;
    begin(WRITE);
    size_t part = length;
    if (is_end(WRITE, AMID))
        part = half(length);
    else if (is_refused(WRITE))
        part = refused_error == ENOSPC ? half(length) : 0;
    if (part > 0) {
        remember(file, at, part, bytes, handle);
        done = pwrite64_real()(handle, bytes, part, at);
    }
    end(WRITE);
    return done;
}

ssize_t pwrite64(int handle, const void *bytes, size_t length, off64_t at) {
    int file = watched(handle);
    if (file < 0) return pwrite64_real()(handle, bytes, length, at);
    return written(file, handle, bytes, length, at);
}

ssize_t pwrite(int handle, const void *bytes, size_t length, off_t at) {
    return pwrite64(handle, bytes, length, at);
}

ssize_t write(int handle, const void *bytes, size_t length) {
    int file = watched(handle);
    if (file < 0) return write_real()(handle, bytes, length);
    ssize_t done = written(file, handle, bytes, length, lseek(handle, 0, SEEK_CUR));
    if (done > 0) lseek(handle, done, SEEK_CUR);
    return done;
}

int ftruncate64(int handle, off64_t size) {
    int file = watched(handle);
    if (file < 0) return ftruncate64_real()(handle, size);
    int done = -1;
    begin(WRITE);
    if (!is_refused(WRITE)) {
        remember(file, size, 0, NULL, handle);
        done = ftruncate64_real()(handle, size);
    }
    end(WRITE);
    return done;
}

int ftruncate(int handle, off_t size) { return ftruncate64(handle, size); }

static int synced(int file, int handle, int (*sync)(int)) {
    int done = -1;
    begin(SYNC);
    if (!is_refused(SYNC)) {
        done = sync(handle);
        if (done == 0) forget(file);
    }
    end(SYNC);
    return done;
}

int fsync(int handle) {
    int file = watched(handle);
    return file < 0 ? fsync_real()(handle) : synced(file, handle, fsync_real());
}

int fdatasync(int handle) {
    int file = watched(handle);
    return file < 0 ? fdatasync_real()(handle) : synced(file, handle, fdatasync_real());
}

int unlink(const char *path) {
    pthread_mutex_lock(&lock);
    int file = file_at(path);
    pthread_mutex_unlock(&lock);
    if (file < 0) return unlink_real()(path);
    int done = -1;
    begin(DELETE);
    if (!is_refused(DELETE)) {
        done = unlink_real()(path);
        if (done == 0) forget(file);
    }
    end(DELETE);
    return done;
}
