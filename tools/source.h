/* A file read as a stream, unpacked on the way where it is gzip. */
#ifndef LAYEROPS_TOOLS_SOURCE_H
#define LAYEROPS_TOOLS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataset.h"

struct source;

/* Only regular files open: a pipe or device may never end. */
enum dataset_status source_open(struct dataset *d, const char *path, struct source **out);

/* Reads up to size bytes; *got is less only at the end of the data. Damaged gzip data, a checksum
 * that disagrees and bytes behind the last gzip member are errors. */
enum dataset_status source_read(struct source *s, void *buffer, size_t size, size_t *got);

/* No honest file of this size holds more than this many bytes: the file's size, or 1032 times as
 * much for gzip (deflate spends at least 2 bits on 258 bytes). */
int64_t source_largest(const struct source *s);

bool source_is_packed(const struct source *s);
const char *source_path(const struct source *s);
struct dataset *source_dataset(const struct source *s);
void source_close(struct source *s);

#endif
