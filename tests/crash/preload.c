/* A disk that fails on demand, between SQLite and the C library.

   Preloaded into a process, it does nothing until `disk_arm` names a database. From then on it counts
   the operations on that database's files (writes, truncations, syncs, renames and deletions). At the
   chosen operation the process dies, or the machine loses power (see `power.h`). `disk_refuse` makes
   the disk full or read-only for a while.

   The files are those whose names begin with the database's: the database, its log, its rollback
   journal, and temporary files that it is created from. The `-shm` file is excluded: it is shared
   memory that is never written with write(2) and never synced. The first process that opens the
   database after a crash rebuilds it from the log, so nothing in it can be lost. The `.lock` file is
   excluded because it has no content. SQLite writes the database through mapped memory only if
   mmap_size is set; it is 0 here. */

#include "power.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>

enum { MOST_HANDLES = 4096, DIRECTORY = 255 };
enum { SYNC_TAKES = 2000 }; /* microseconds, as on an ordinary disk, so that other events happen during a sync */
enum when { NEVER, BEFORE, AMID, AFTER };
enum operation { WRITE = 1, SYNC = 2, OPEN = 4, DELETE = 8 }; /* a rename counts as a deletion */
static const char *const unwatched[] = {"-shm", ".lock"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char file_of[MOST_HANDLES]; /* number of the file plus one, or DIRECTORY */
static enum when death = NEVER;
static char database[PATH_MAX];
static int armed, only, refused, refused_error;
static long at_operation, operations;

REAL(int, openat64, int, const char *, int, ...)
REAL(ssize_t, write, int, const void *, size_t)
REAL(int, fsync, int)
REAL(int, fdatasync, int)

/* Functions called by the harness */

/* Watch the database at `path`. The process dies before, amid or after (`when`) operation number `at`,
   counting only those in the mask `kinds` (0 for all); with `power_loss` unsynced data is first
   undone in part. */
void disk_arm(const char *path, int when, long at, int kinds, int power_loss, unsigned random_seed) {
    pthread_mutex_lock(&lock);
    snprintf(database, PATH_MAX, "%s", path);
    snprintf(directory, PATH_MAX, "%s", path);
    *strrchr(directory, '/') = '\0';
    death = (enum when)when;
    at_operation = at;
    only = kinds;
    power = power_loss;
    seed = random_seed;
    armed = 1;
    pthread_mutex_unlock(&lock);
}

/* Make operations in the mask `kinds` fail with `error` from now on; 0 for none. */
void disk_refuse(int error, int kinds) {
    pthread_mutex_lock(&lock);
    refused = kinds;
    refused_error = error;
    pthread_mutex_unlock(&lock);
}

/* Return the number of counted operations. */
long disk_operations(void) { return operations; }

/* Ways to die */

static void die(void) {
    for (;;) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

/* Return whether the process dies `now`, in the present operation of this `kind`. */
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
    if (kind != WRITE) end_if(kind, AMID); /* only a write can be done in part */
}

static void end(enum operation kind) {
    end_if(kind, AMID);
    end_if(kind, AFTER);
    pthread_mutex_unlock(&lock);
}

/* Return how much is written if the process dies amid a write, or the disk becomes full. */
static size_t half(size_t length) { return length > SECTOR ? length / 2 : 0; }

static int is_refused(enum operation kind) {
    if ((refused & kind) == 0) return 0;
    errno = refused_error;
    return 1;
}

static int watched(int handle) {
    if (!armed || handle < 0 || handle >= MOST_HANDLES || file_of[handle] == DIRECTORY) return -1;
    return file_of[handle] - 1;
}

static int is_directory(int handle) {
    return armed && handle >= 0 && handle < MOST_HANDLES && file_of[handle] == DIRECTORY;
}

static int is_ours(const char *path) {
    return armed && strncmp(path, database, strlen(database)) == 0;
}

/* Return the number of the file at `path`, assigning a new one if needed; -1 if it is not watched. */
static int file_at(const char *path) {
    if (!is_ours(path)) return -1;
    size_t length = strlen(path);
    for (size_t n = 0; n < sizeof unwatched / sizeof *unwatched; n++) {
        size_t ending = strlen(unwatched[n]);
        if (length > ending && strcmp(path + length - ending, unwatched[n]) == 0) return -1;
    }
    int file = number_of(path);
    if (file >= 0) return file;
    if (known == MOST_FILES) abort();
    snprintf(files[known].path, PATH_MAX, "%s", path);
    return known++;
}

/* Functions called by SQLite */

static int opened(const char *path, int handle, int made) {
    if (!armed || handle < 0 || handle >= MOST_HANDLES) return handle;
    pthread_mutex_lock(&lock);
    int file = file_at(path);
    file_of[handle] = (unsigned char)(strcmp(path, directory) == 0 ? DIRECTORY : file + 1);
    if (file >= 0 && made) remember_name(NULL, path, 0);
    pthread_mutex_unlock(&lock);
    return handle;
}

/* Return whether opening creates the file. */
static int makes(const char *path, int flags) {
    return (flags & O_CREAT) && is_ours(path) && access(path, F_OK) != 0;
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
    int made = makes(path, flags);
    return may_open(path, flags) ? opened(path, open64_real()(path, flags, mode), made) : -1;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open64(path, flags, mode);
}

int openat64(int parent, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    int made = makes(path, flags);
    if (!may_open(path, flags)) return -1;
    return opened(path, openat64_real()(parent, path, flags, mode), made);
}

int openat(int parent, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return openat64(parent, path, flags, mode);
}

int close(int handle) {
    if (watched(handle) >= 0 || is_directory(handle)) file_of[handle] = 0;
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

static int synced(int handle, int (*sync)(int)) {
    int file = watched(handle);
    if (file < 0 && !is_directory(handle)) return sync(handle);
    int done = -1;
    begin(SYNC);
    if (!is_refused(SYNC)) {
        done = sync(handle);
        usleep(SYNC_TAKES);
        if (done == 0 && file >= 0) forget(file);
        if (done == 0 && file < 0) forget_names();
    }
    end(SYNC);
    return done;
}

int fsync(int handle) { return synced(handle, fsync_real()); }

int fdatasync(int handle) { return synced(handle, fdatasync_real()); }

static int is_watched(const char *path) {
    pthread_mutex_lock(&lock);
    int file = file_at(path);
    pthread_mutex_unlock(&lock);
    return file >= 0;
}

int unlink(const char *path) {
    if (!is_watched(path) || access(path, F_OK) != 0) return unlink_real()(path);
    int done = -1;
    begin(DELETE);
    if (!is_refused(DELETE)) {
        remember_name(NULL, path, 1);
        done = unlink_real()(path);
    }
    end(DELETE);
    return done;
}

int rename(const char *from, const char *to) {
    if (!is_watched(from)) return rename_real()(from, to);
    int done = -1;
    begin(DELETE);
    if (!is_refused(DELETE)) {
        remember_name(from, to, 0);
        done = rename_real()(from, to);
    }
    end(DELETE);
    return done;
}
