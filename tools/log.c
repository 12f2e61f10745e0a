#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/log.h"

bool log_open(struct log *log, const char *path) {
  *log = (struct log){.path = path, .fd = -1};
  log->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  return log->fd >= 0;
}

static bool write_all(int fd, const char *text, size_t size) {
  while (size) {
    ssize_t n = write(fd, text, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text += n;
    size -= (size_t)n;
  }
  return true;
}

/* A line cut short by a full disk is taken back, where the file can be cut (a pipe cannot). */
static bool write_line(int fd, const char *text, size_t size) {
  struct stat before;
  bool regular = !fstat(fd, &before) && S_ISREG(before.st_mode);
  if (write_all(fd, text, size)) return true;
  int error = errno;
  if (regular && ftruncate(fd, before.st_size)) errno = error;
  errno = error;
  return false;
}

bool log_write(struct log *log, json_t *object) {
  char *text = object ? json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
  json_decref(object);
  size_t length = text ? strlen(text) : 0;
  char *line = text ? realloc(text, length + 2) : NULL;
  if (!line) {
    free(text);
    errno = ENOMEM;
    return false;
  }
  line[length] = '\n';
  bool good = write_line(log->fd, line, length + 1);
  int error = errno;
  free(line);
  errno = error;
  return good;
}

bool log_close(struct log *log) {
  int fd = log->fd;
  log->fd = -1;
  return fd < 0 || !close(fd);
}

json_t *log_number(double value) {
  return isfinite(value) ? json_real(value) : json_null();
}
