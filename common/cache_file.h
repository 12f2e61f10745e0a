/* Files that the library keeps for itself, in $XDG_CACHE_HOME/layerops or ~/.cache/layerops.
 *
 * Only what nobody else can have written is read: the directory and the file must belong to the
 * user, be no symbolic links and not be writable by others (they are made so: 0700 and 0600). All
 * access is relative to the open directory, so that it cannot be exchanged in between. Symbolic
 * links above it are followed: a home often has its cache on another disk. A file is written under
 * another name and then renamed: readers find the old one or the new.
 *
 * A cache is never needed, so nothing here sets the thread's last error: `why` (LO_CACHE_WHY bytes)
 * receives a sentence, "" where all is well, the cache is off or the file just is not there. */
#ifndef LO_CACHE_FILE_H
#define LO_CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <layerops/device.h>

enum { LO_CACHE_WHY = 512 };

/* False with LAYEROPS_CACHE=0, where the context was opened without it, and where the process has
 * rights that its user lacks (setuid): his environment names the directory. */
bool lo_cache_on(const layerops_open_args *args);

/* The file's content, at most `most` bytes, to be freed; NULL where there is none that may be used.
 * A 0 follows it. `name` is without folders. */
void *lo_cache_read(const layerops_open_args *args, const char *name, size_t most, size_t *size,
                    char *why);

/* Makes or replaces the file, and the directory where it is missing. */
bool lo_cache_write(const layerops_open_args *args, const char *name, const void *bytes,
                    size_t size, char *why);

/* The same with what `change` makes (by malloc) of the present content, NULL where there is none:
 * one process after the other, so that none loses what another adds. Nothing is written where it
 * returns NULL. */
typedef void *lo_cache_change(void *user, const void *old, size_t old_size, size_t *size);
bool lo_cache_update(const layerops_open_args *args, const char *name, size_t most,
                     lo_cache_change *change, void *user, char *why);

/* Removes the file; true where it is not there either. */
bool lo_cache_remove(const layerops_open_args *args, const char *name, char *why);

#endif
