/* Writing a file so that a reader, a full disk or a crash finds the old file or the new, whole. */
#ifndef LO_REPLACE_FILE_H
#define LO_REPLACE_FILE_H

#include <layerops/base.h>

typedef struct lo_replacement {
  int fd;
  char *path;      /* symbolic links followed */
  char *temporary; /* in the same folder, so that rename is atomic */
} lo_replacement;

/* Refuses a target that is there and is no regular file (renaming over /dev/null would replace it)
 * or is not writable. */
layerops_status lo_replacement_open(lo_replacement *r, const char *path);
layerops_status lo_replacement_write(lo_replacement *r, const void *data, size_t size);

/* Forces the data to the disk, then gives it its name. */
layerops_status lo_replacement_commit(lo_replacement *r);

/* Removes what was written. To be called after a failure; does nothing after a commit. */
void lo_replacement_cancel(lo_replacement *r);

#endif
