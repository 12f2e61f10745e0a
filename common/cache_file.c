#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/cache_file.h"

#define FOLDER "layerops"

/* Writes the sentence; false, so that it can end a function. */
__attribute__((format(printf, 2, 3))) static bool tell(char *why, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(why, LO_CACHE_WHY, format, list);
  va_end(list);
  return false;
}

bool lo_cache_on(const layerops_open_args *args) {
  const char *text = getenv("LAYEROPS_CACHE");
  bool own = geteuid() == getuid() && getegid() == getgid();
  return own && !args->no_cache && !(text && !strcmp(text, "0"));
}

/* ---- The directory */
static bool find_base(char *path, size_t size, char *why) {
  const char *base = getenv("XDG_CACHE_HOME"), *below = "";
  if (!base || base[0] != '/') {
    base = getenv("HOME");
    below = "/.cache";
  }
  if (!base || base[0] != '/') return tell(why, "neither XDG_CACHE_HOME nor HOME is set");
  int length = snprintf(path, size, "%s%s", base, below);
  return (length > 0 && (size_t)length < size) || tell(why, "the cache's path is too long");
}

/* Each folder of the path; opening the last will tell. */
static void make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    mkdir(path, 0700);
    *slash = '/';
  }
  mkdir(path, 0700);
}

/* That nobody but the user can have written it. */
static bool check_owner(const struct stat *st, const char *folder, const char *name, char *why) {
  if (st->st_uid != geteuid())
    return tell(why, "%.300s/%s belongs to another user (%ld)", folder, name, (long)st->st_uid);
  if (st->st_mode & (S_IWGRP | S_IWOTH))
    return tell(why, "%.300s/%s can be written by others (mode %03o)", folder, name,
                (unsigned)st->st_mode & 0777);
  return true;
}

/* What openat said of a thing that must not be a symbolic link. */
static bool tell_open(char *why, const char *folder, const char *name) {
  return tell(why, "%.300s/%s: %s", folder, name,
              errno == ELOOP     ? "a symbolic link is not followed"
              : errno == ENOTDIR ? "not a directory, or a symbolic link"
                                 : strerror(errno));
}

/* The open directory, or -1. `path` receives the one above it. */
static int open_folder(const layerops_open_args *args, bool create, char path[4096], char *why) {
  struct stat st;
  *why = 0;
  if (!lo_cache_on(args) || !find_base(path, 4096, why)) return -1;
  if (create) make_folders(path);
  int base = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (base < 0) {
    if (create || errno != ENOENT) tell(why, "%.300s: %s", path, strerror(errno));
    return -1;
  }
  if (create) mkdirat(base, FOLDER, 0700);
  int fd = openat(base, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && (create || errno != ENOENT)) tell_open(why, path, FOLDER);
  close(base);
  if (fd < 0) return -1;
  if (fstat(fd, &st) == 0 && check_owner(&st, path, FOLDER, why)) return fd;
  close(fd);
  return -1;
}

/* ---- Reading */
static bool check_file(int fd, const char *folder, const char *name, size_t most, struct stat *st,
                       char *why) {
  if (fstat(fd, st)) return tell_open(why, folder, name);
  if (!S_ISREG(st->st_mode)) return tell(why, "%.300s/%s is no regular file", folder, name);
  if (!check_owner(st, folder, name, why)) return false;
  return (uintmax_t)st->st_size <= most ||
         tell(why, "%.300s/%s has %lld bytes, and %zu are the most", folder, name,
              (long long)st->st_size, most);
}

static bool read_all(int fd, char *to, size_t size) {
  while (size) {
    ssize_t n = read(fd, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= (size_t)n;
  }
  return true;
}

static char *read_open(int fd, const char *folder, const char *name, size_t most, size_t *size,
                       char *why) {
  struct stat st;
  if (!check_file(fd, folder, name, most, &st, why)) return NULL;
  *size = (size_t)st.st_size;
  char *bytes = malloc(*size + 1);
  if (bytes && read_all(fd, bytes, *size)) {
    bytes[*size] = 0;
    return bytes;
  }
  tell(why, "%.300s/%s: %s", folder, name, bytes ? "it cannot be read" : "out of memory");
  free(bytes);
  return NULL;
}

/* O_NONBLOCK: opening a pipe must not wait. */
static void *read_at(int directory, const char *folder, const char *name, size_t most, size_t *size,
                     char *why) {
  int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  *size = 0;
  if (fd < 0) {
    if (errno != ENOENT) tell_open(why, folder, name);
    return NULL;
  }
  void *bytes = read_open(fd, folder, name, most, size, why);
  close(fd);
  return bytes;
}

void *lo_cache_read(const layerops_open_args *args, const char *name, size_t most, size_t *size,
                    char *why) {
  char folder[4096];
  *size = 0;
  int directory = open_folder(args, false, folder, why);
  if (directory < 0) return NULL;
  void *bytes = read_at(directory, folder, name, most, size, why);
  close(directory);
  return bytes;
}

/* ---- Writing */

/* Names that are taken are leftovers of a killed process, or of one in another container. */
static int create_temporary(int directory, const char *name, char *temporary, size_t size) {
  static atomic_uint counter;
  for (int tries = 0; tries < 1000; tries++) {
    snprintf(temporary, size, ".%s.%ld-%u.tmp", name, (long)getpid(),
             atomic_fetch_add(&counter, 1));
    int fd =
        openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

/* Beyond the process's limit write() would raise SIGXFSZ, which ends a program that wanted no file
   of this library. */
static bool exceeds_limit(size_t size) {
  struct rlimit limit;
  return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
         size > limit.rlim_cur;
}

static bool write_all(int fd, const char *from, size_t size) {
  if (exceeds_limit(size)) {
    errno = EFBIG;
    return false;
  }
  while (size) {
    ssize_t n = write(fd, from, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    size -= (size_t)n;
  }
  return true;
}

static bool write_at(int directory, const char *folder, const char *name, const void *bytes,
                     size_t size, char *why) {
  char temporary[256];
  int fd = create_temporary(directory, name, temporary, sizeof temporary);
  if (fd < 0) return tell_open(why, folder, name);
  bool done = write_all(fd, bytes, size);
  if (!done) tell_open(why, folder, name);
  if (close(fd) && done) done = tell_open(why, folder, name);
  if (done && renameat(directory, temporary, directory, name)) done = tell_open(why, folder, name);
  if (!done) unlinkat(directory, temporary, 0);
  return done;
}

bool lo_cache_write(const layerops_open_args *args, const char *name, const void *bytes,
                    size_t size, char *why) {
  char folder[4096];
  int directory = open_folder(args, true, folder, why);
  if (directory < 0) return false;
  bool done = write_at(directory, folder, name, bytes, size, why);
  close(directory);
  return done;
}

/* One after the other. Where a file system has no locks, or whoever holds it was stopped, the work
 * goes on: at worst a row is lost. */
static void lock(int directory) {
  const struct timespec pause = {.tv_nsec = 2000000};
  for (int tries = 0; tries < 1000; tries++) {
    if (!flock(directory, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) return;
    nanosleep(&pause, NULL);
  }
}

bool lo_cache_update(const layerops_open_args *args, const char *name, size_t most,
                     lo_cache_change *change, void *user, char *why) {
  char folder[4096];
  size_t old_size, size = 0;
  int directory = open_folder(args, true, folder, why);
  if (directory < 0) return false;
  lock(directory);
  void *old = read_at(directory, folder, name, most, &old_size, why);
  void *bytes = change(user, old, old_size, &size);
  *why = 0; /* what could not be read is replaced */
  bool done = bytes && write_at(directory, folder, name, bytes, size, why);
  free(old);
  free(bytes);
  close(directory); /* and unlocks */
  return done;
}

bool lo_cache_remove(const layerops_open_args *args, const char *name, char *why) {
  char folder[4096];
  int directory = open_folder(args, false, folder, why);
  if (directory < 0) return !*why;
  bool done = !unlinkat(directory, name, 0) || errno == ENOENT || tell_open(why, folder, name);
  close(directory);
  return done;
}
