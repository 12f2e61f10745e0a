#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "network/replace_file.h"

static layerops_status io_error(const char *path, const char *what) {
  return lo_fail(LAYEROPS_ERROR_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* *mode receives the old file's permissions, 0 where there is none. */
static layerops_status check_target(const char *path, mode_t *mode) {
  struct stat st;
  *mode = 0;
  if (stat(path, &st)) return errno == ENOENT ? LAYEROPS_OK : io_error(path, "cannot be written");
  if (!S_ISREG(st.st_mode))
    return lo_fail(LAYEROPS_ERROR_IO, "%s: is there and is not a regular file", path);
  if (access(path, W_OK)) return io_error(path, "cannot be written");
  *mode = st.st_mode & 0777;
  return LAYEROPS_OK;
}

static layerops_status create_temporary(lo_replacement *r) {
  static atomic_uint counter;
  const char *slash = strrchr(r->path, '/');
  int folder = slash ? (int)(slash - r->path + 1) : 0;
  /* Names that are taken are leftovers of a killed process with this number. */
  for (int tries = 0; tries < 1000; tries++) {
    free(r->temporary);
    if (asprintf(&r->temporary, "%.*s.layerops-%ld-%u.tmp", folder, r->path, (long)getpid(),
                 atomic_fetch_add(&counter, 1)) < 0) {
      r->temporary = NULL;
      return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "%s: out of memory", r->path);
    }
    r->fd = open(r->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (r->fd >= 0) return LAYEROPS_OK;
    if (errno != EEXIST) break;
  }
  layerops_status status = io_error(r->path, "cannot create a file beside it");
  free(r->temporary);
  r->temporary = NULL;
  return status;
}

layerops_status lo_replacement_open(lo_replacement *r, const char *path) {
  mode_t mode;
  *r = (lo_replacement){.fd = -1};
  LO_TRY(check_target(path, &mode));
  r->path = mode ? realpath(path, NULL) : strdup(path);
  if (!r->path) return io_error(path, "cannot be written");
  layerops_status status = create_temporary(r);
  if (!status && mode && fchmod(r->fd, mode)) status = io_error(path, "cannot keep permissions");
  if (status) lo_replacement_cancel(r);
  return status;
}

layerops_status lo_replacement_write(lo_replacement *r, const void *data, size_t size) {
  const char *p = data;
  while (size > 0) {
    ssize_t n = write(r->fd, p, size < 1u << 30 ? size : 1u << 30);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(r->path, "writing failed");
    p += n;
    size -= (size_t)n;
  }
  return LAYEROPS_OK;
}

/* So that the new name survives a power failure. Some file systems refuse; the file is whole then
 * too. */
static void sync_folder(const char *path) {
  char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
  if (slash) slash[slash == copy] = 0;
  int fd = copy ? open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(copy);
}

layerops_status lo_replacement_commit(lo_replacement *r) {
  layerops_status status = LAYEROPS_OK;
  if (fsync(r->fd)) status = io_error(r->path, "writing failed");
  int closed = close(r->fd);
  r->fd = -1;
  if (!status && closed) status = io_error(r->path, "writing failed");
  if (!status && rename(r->temporary, r->path)) status = io_error(r->path, "cannot be replaced");
  if (!status) {
    sync_folder(r->path);
    free(r->temporary);
    r->temporary = NULL;
  }
  lo_replacement_cancel(r);
  return status;
}

void lo_replacement_cancel(lo_replacement *r) {
  if (r->fd >= 0) close(r->fd);
  if (r->temporary) unlink(r->temporary);
  free(r->temporary);
  free(r->path);
  *r = (lo_replacement){.fd = -1};
}
