/* Memory, queue and events where the device is the host: what cpu and reference share. Calls are
 * done when they return, so there is nothing to wait for. */
#ifndef LO_CPU_HOST_H
#define LO_CPU_HOST_H

#include "common/context.h"

int lo_host_count(char *reason, size_t reason_size);
int lo_host_index_of(const char *rest);
layerops_status lo_host_sync(layerops_context *ctx);
layerops_status lo_host_buffer_create(layerops_context *ctx, layerops_buffer *buffer);
layerops_status lo_host_buffer_wrap(layerops_context *ctx, layerops_buffer *buffer);
void lo_host_buffer_release(layerops_buffer *buffer);
layerops_status lo_host_write(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                              const void *host, int64_t bytes);
layerops_status lo_host_read(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                             void *host, int64_t bytes);
layerops_status lo_host_event_create(layerops_context *ctx, void **event);
layerops_status lo_host_event_record(layerops_context *ctx, void *event);
layerops_status lo_host_event_wait(layerops_context *ctx, void *event);
layerops_status lo_host_event_elapsed(layerops_context *ctx, void *start, void *stop, double *ms);
void lo_host_event_destroy(layerops_context *ctx, void *event);

/* These members of a struct lo_backend. */
#define LO_HOST_BACKEND(create)                                                                    \
  .single = 1, .host_memory = 1, .count = lo_host_count, .index_of = lo_host_index_of,             \
  .sync = lo_host_sync, .buffer_create = create, .buffer_wrap = lo_host_buffer_wrap,               \
  .buffer_release = lo_host_buffer_release, .write = lo_host_write, .read = lo_host_read,          \
  .event_create = lo_host_event_create, .event_record = lo_host_event_record,                      \
  .event_wait = lo_host_event_wait, .event_elapsed = lo_host_event_elapsed,                        \
  .event_destroy = lo_host_event_destroy

#endif
