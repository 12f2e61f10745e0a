#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/cpu/host.h"

int lo_host_count(char *reason, size_t reason_size) {
  (void)reason, (void)reason_size;
  return 1;
}

int lo_host_index_of(const char *rest) {
  (void)rest;
  return -1;
}

layerops_status lo_host_sync(layerops_context *ctx) {
  (void)ctx;
  return LAYEROPS_OK;
}

static void release_plain(void *user, void *pointer) {
  (void)user;
  free(pointer);
}

/* 64-byte aligned: a cache line, and the widest vector. */
layerops_status lo_host_buffer_create(layerops_context *ctx, layerops_buffer *buffer) {
  buffer->native = lo_host_alloc(&ctx->args, (size_t)buffer->bytes, 64);
  if (!buffer->native)
    return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "buffer_create: no memory for %lld bytes",
                   (long long)buffer->bytes);
  buffer->release = ctx->args.alloc ? ctx->args.release : release_plain;
  buffer->release_user = ctx->args.alloc_user;
  return lo_host_buffer_wrap(ctx, buffer);
}

layerops_status lo_host_buffer_wrap(layerops_context *ctx, layerops_buffer *buffer) {
  (void)ctx;
  buffer->root = NULL; /* all of host memory is one root */
  buffer->root_offset = (int64_t)(intptr_t)buffer->native;
  return LAYEROPS_OK;
}

void lo_host_buffer_release(layerops_buffer *buffer) {
  buffer->release(buffer->release_user, buffer->native);
}

layerops_status lo_host_write(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                              const void *host, int64_t bytes) {
  (void)ctx;
  memmove((char *)buffer->native + offset, host, (size_t)bytes);
  return LAYEROPS_OK;
}

layerops_status lo_host_read(layerops_context *ctx, layerops_buffer *buffer, int64_t offset,
                             void *host, int64_t bytes) {
  (void)ctx;
  memmove(host, (char *)buffer->native + offset, (size_t)bytes);
  return LAYEROPS_OK;
}

typedef struct host_event {
  struct timespec time;
  bool recorded;
} host_event;

layerops_status lo_host_event_create(layerops_context *ctx, void **event) {
  (void)ctx;
  *event = calloc(1, sizeof(host_event));
  return *event ? LAYEROPS_OK : lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "event_create: no memory");
}

layerops_status lo_host_event_record(layerops_context *ctx, void *event) {
  (void)ctx;
  host_event *e = event;
  clock_gettime(CLOCK_MONOTONIC, &e->time);
  e->recorded = true;
  return LAYEROPS_OK;
}

static layerops_status check_recorded(const host_event *e, const char *function) {
  if (!e->recorded) return lo_fail(LAYEROPS_ERROR_STATE, "%s: the event is not recorded", function);
  return LAYEROPS_OK;
}

layerops_status lo_host_event_wait(layerops_context *ctx, void *event) {
  (void)ctx;
  return check_recorded(event, "event_wait");
}

layerops_status lo_host_event_elapsed(layerops_context *ctx, void *start, void *stop, double *ms) {
  (void)ctx;
  const host_event *a = start, *b = stop;
  LO_TRY(check_recorded(a, "event_elapsed"));
  LO_TRY(check_recorded(b, "event_elapsed"));
  *ms = 1e3 * (double)(b->time.tv_sec - a->time.tv_sec) +
        1e-6 * (double)(b->time.tv_nsec - a->time.tv_nsec);
  return LAYEROPS_OK;
}

void lo_host_event_destroy(layerops_context *ctx, void *event) {
  (void)ctx;
  free(event);
}
