#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "format.h"

#define GZIP_ONLY  (15 + 16) /* inflateInit2: the largest window, a gzip header required */
#define GZIP_RATIO 1032

struct source {
  struct dataset *d;
  char *path;
  int fd;
  int64_t file_size;
  bool packed, inside_member, file_ended;
  z_stream z; /* next_in and avail_in are the read position for plain files too */
  unsigned char input[1 << 16];
};

static const char *kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

static enum dataset_status refill(struct source *s) {
  ssize_t n;
  do {
    n = read(s->fd, s->input, sizeof s->input);
  } while (n < 0 && errno == EINTR);
  if (n < 0)
    return dataset_fail(s->d, DATASET_ERROR_FILE, "%s: cannot read: %s", s->path, strerror(errno));
  s->file_ended = n == 0;
  s->z.next_in = s->input;
  s->z.avail_in = (uInt)n;
  return DATASET_OK;
}

static enum dataset_status open_file(struct source *s) {
  struct stat st;
  /* O_NONBLOCK: opening a pipe must not wait for a writer. */
  s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (s->fd < 0 || fstat(s->fd, &st))
    return dataset_fail(s->d, DATASET_ERROR_FILE, "%s: cannot open: %s", s->path, strerror(errno));
  if (!S_ISREG(st.st_mode))
    return dataset_fail(s->d, DATASET_ERROR_FILE, "%s: is %s, not a regular file", s->path,
                        kind_of(st.st_mode));
  s->file_size = st.st_size;
  enum dataset_status status = refill(s);
  if (status) return status;
  s->packed = s->z.avail_in >= 2 && s->input[0] == 0x1f && s->input[1] == 0x8b;
  if (s->packed && inflateInit2(&s->z, GZIP_ONLY) != Z_OK) {
    s->packed = false;
    return dataset_fail(s->d, DATASET_ERROR_MEMORY, "%s: out of memory for unpacking", s->path);
  }
  s->inside_member = s->packed;
  return DATASET_OK;
}

enum dataset_status source_open(struct dataset *d, const char *path, struct source **out) {
  struct source *s = calloc(1, sizeof *s);
  *out = NULL;
  if (s) s->path = strdup(path);
  if (!s || !s->path) {
    free(s);
    return dataset_fail(d, DATASET_ERROR_MEMORY, "%s: out of memory", path);
  }
  s->d = d;
  s->fd = -1;
  enum dataset_status status = open_file(s);
  if (status)
    source_close(s);
  else
    *out = s;
  return status;
}

void source_close(struct source *s) {
  if (!s) return;
  if (s->packed) inflateEnd(&s->z);
  if (s->fd >= 0) close(s->fd);
  free(s->path);
  free(s);
}

/* Between members: the file ends, another member begins, or there is garbage. */
static enum dataset_status next_member(struct source *s) {
  if (s->file_ended) return DATASET_OK;
  if (s->z.next_in[0] != 0x1f)
    return dataset_fail(s->d, DATASET_ERROR_FORMAT,
                        "%s: bytes that are not gzip follow the end of "
                        "the gzip data",
                        s->path);
  s->inside_member = inflateReset(&s->z) == Z_OK;
  return DATASET_OK;
}

static enum dataset_status unpack(struct source *s) {
  int code = inflate(&s->z, Z_NO_FLUSH);
  if (code == Z_STREAM_END) {
    s->inside_member = false;
    return DATASET_OK;
  }
  if (code == Z_OK || code == Z_BUF_ERROR) return DATASET_OK;
  if (code == Z_MEM_ERROR)
    return dataset_fail(s->d, DATASET_ERROR_MEMORY, "%s: out of memory for unpacking", s->path);
  return dataset_fail(s->d, DATASET_ERROR_FORMAT, "%s: damaged gzip data: %s", s->path,
                      s->z.msg ? s->z.msg : zError(code));
}

static enum dataset_status read_packed(struct source *s) {
  while (s->z.avail_out > 0) {
    enum dataset_status status = DATASET_OK;
    if (s->z.avail_in == 0 && !s->file_ended) status = refill(s);
    if (status) return status;
    if (!s->inside_member) {
      status = next_member(s);
      if (status || !s->inside_member) return status;
    } else if (s->file_ended) {
      return dataset_fail(s->d, DATASET_ERROR_FORMAT,
                          "%s: truncated: the file of %lld bytes ends "
                          "inside its gzip data",
                          s->path, (long long)s->file_size);
    }
    status = unpack(s);
    if (status) return status;
  }
  return DATASET_OK;
}

static enum dataset_status read_plain(struct source *s) {
  while (s->z.avail_out > 0 && !s->file_ended) {
    uInt n = s->z.avail_in < s->z.avail_out ? s->z.avail_in : s->z.avail_out;
    memcpy(s->z.next_out, s->z.next_in, n);
    s->z.next_in += n, s->z.avail_in -= n;
    s->z.next_out += n, s->z.avail_out -= n;
    enum dataset_status status = s->z.avail_in == 0 ? refill(s) : DATASET_OK;
    if (status) return status;
  }
  return DATASET_OK;
}

enum dataset_status source_read(struct source *s, void *buffer, size_t size, size_t *got) {
  *got = 0;
  while (*got < size) {
    uInt want = size - *got < 1u << 30 ? (uInt)(size - *got) : 1u << 30;
    s->z.next_out = (unsigned char *)buffer + *got;
    s->z.avail_out = want;
    enum dataset_status status = s->packed ? read_packed(s) : read_plain(s);
    if (status) return status;
    *got += want - s->z.avail_out;
    if (s->z.avail_out > 0) break;
  }
  return DATASET_OK;
}

int64_t source_largest(const struct source *s) {
  int64_t largest = s->file_size;
  if (s->packed && __builtin_mul_overflow(largest, GZIP_RATIO, &largest)) return INT64_MAX;
  return largest;
}

bool source_is_packed(const struct source *s) {
  return s->packed;
}

const char *source_path(const struct source *s) {
  return s->path;
}

struct dataset *source_dataset(const struct source *s) {
  return s->d;
}
