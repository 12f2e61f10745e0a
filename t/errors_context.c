/* What bad calls on contexts, buffers, events and recordings get, and a device that is lost. */
#include <config.h>

#include "common/context.h"
#include "t/errors.h"

/* The address sanitizer's allocator ends the program where there is no memory, unless told not to.
 */
#ifdef __SANITIZE_ADDRESS__
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}
#endif

static layerops_copy_args valid_copy(void) {
  return (layerops_copy_args){.x = view(in, 5, 7), .y = view(out, 5, 7)};
}

static void test_open(void) {
  layerops_context *c = (layerops_context *)in;
  GETS(layerops_open("toaster", &c), NO_DEVICE, "\"toaster\"", "opencl[:P.D]");
  ok(!c, "a failed open gives NULL");
  GETS(layerops_open("cpu:1", &c), NO_DEVICE, "cpu:1");
  GETS(layerops_open("cuda:x", &c), NO_DEVICE, "cuda:x");
  GETS(layerops_open("opencl:99.99", &c), NO_DEVICE, "opencl:99.99");
  GETS(layerops_open("cpu", NULL), INVALID, "ctx is NULL");
  GETS(layerops_open_with(NULL, &c), INVALID, "args is NULL");
  layerops_open_args a = {.device = "cpu", .threads = -1};
  GETS(layerops_open_with(&a, &c), INVALID, "threads is -1");
  a = (layerops_open_args){.device = "cpu", .threads = 4097};
  GETS(layerops_open_with(&a, &c), INVALID, "threads is 4097", "4096");
  a = (layerops_open_args){.device = "cpu", .bind = LAYEROPS_BIND_COUNT};
  GETS(layerops_open_with(&a, &c), INVALID, "bind is 4");
  a = (layerops_open_args){.device = "cpu", .release = (void (*)(void *, void *))abort};
  GETS(layerops_open_with(&a, &c), INVALID, "alloc and release");
  a = (layerops_open_args){.device = "cpu", .queue = in};
  GETS(layerops_open_with(&a, &c), INVALID, "queue", "cpu");
  a = (layerops_open_args){.device = "cpu", .workspace = foreign};
  GETS(layerops_open_with(&a, &c), INVALID, "workspace", "reference");
  a = (layerops_open_args){.device = "cpu", .no_cache = 2};
  GETS(layerops_open_with(&a, &c), INVALID, "no_cache is 2");
  size_t count;
  GETS(layerops_devices(NULL, 3, &count), INVALID, "list is NULL", "3");
  GETS(layerops_devices(NULL, 0, NULL), INVALID, "count is NULL");
  setenv("LAYEROPS_DEVICE", "toaster", 1);
  GETS(layerops_open("auto", &c), NO_DEVICE, "toaster");
  GETS(layerops_open(NULL, &c), NO_DEVICE, "toaster");
  unsetenv("LAYEROPS_DEVICE");
}

static void test_contexts(void) {
  layerops_device_info info;
  GETS(layerops_sync(NULL), INVALID, "sync", "context is NULL");
  GETS(layerops_wait(ctx, NULL), INVALID, "wait", "context is NULL");
  GETS(layerops_wait(ctx, other), INVALID, "wait", "cpu", "reference");
  GETS(layerops_context_info(ctx, NULL), INVALID, "info is NULL");
  GETS(layerops_context_info(NULL, &info), INVALID, "context is NULL");
  GETS(layerops_supports(ctx, (layerops_op)0, LAYEROPS_F32), INVALID, "unknown operation 0");
  GETS(layerops_supports(ctx, (layerops_op)99, LAYEROPS_F32), INVALID, "unknown operation 99");
  GETS(layerops_supports(ctx, LAYEROPS_OP_gemm, 0), INVALID, "unknown type 0");
  GETS(layerops_supports(ctx, LAYEROPS_OP_gemm, LAYEROPS_I32), UNSUPPORTED, "gemm", "i32");
  GETS(layerops_supports(ctx, LAYEROPS_OP_softmax, LAYEROPS_I8), UNSUPPORTED, "softmax", "i8");
  GETS(layerops_supports(ctx, LAYEROPS_OP_bsr_linear_forward, LAYEROPS_U8), UNSUPPORTED, "u8");
  GETS(layerops_supports_pair(ctx, LAYEROPS_OP_bsr_linear_forward, LAYEROPS_F16, LAYEROPS_BF16),
       UNSUPPORTED, "bf16");
  GETS(layerops_supports_pair(ctx, LAYEROPS_OP_bsr_linear_backward, LAYEROPS_F32, LAYEROPS_I8),
       UNSUPPORTED, "i8");
  GETS(layerops_supports_pair(ctx, LAYEROPS_OP_gemm, LAYEROPS_F16, 9), INVALID, "unknown type 9");
  GETS(layerops_supports_pair(ctx, LAYEROPS_OP_linear_forward, LAYEROPS_F32, LAYEROPS_I8),
       UNSUPPORTED, "i8 with f32; supported: f32");
  GETS(layerops_supports_pair(ctx, LAYEROPS_OP_gemm, LAYEROPS_F16, -1), INVALID, "unknown type -1");
  layerops_close(NULL);
  ok(!strcmp(layerops_last_kernel(NULL), ""), "the last kernel of no context is \"\"");
}

/* One call of each operation that takes a pair of types, or one type twice, with views of 8 x 8. */
static layerops_status call_with(layerops_context *c, layerops_op op, layerops_type first,
                                 layerops_type second) {
  static float memory[5][64]; /* zeros: also indices and sums that are in order */
  layerops_matrix x = layerops_host_matrix(memory[0], first, 8, 8);
  layerops_matrix w = layerops_host_matrix(memory[1], second, 8, 8);
  layerops_matrix y = layerops_host_matrix(memory[2], LAYEROPS_F32, 8, 8);
  layerops_matrix to = layerops_host_matrix(memory[3], second, 8, 8);
  layerops_matrix index = layerops_host_matrix(memory[4], LAYEROPS_I32, 1, 8);
  switch (op) {
  case LAYEROPS_OP_gemm:
    return layerops_gemm(c, &(layerops_gemm_args){.a = x, .b = w, .c = y});
  case LAYEROPS_OP_linear_forward:
    return layerops_linear_forward(c, &(layerops_linear_args){.x = x, .w = w, .y = y});
  case LAYEROPS_OP_linear_backward:
    return layerops_linear_backward(c, &(layerops_linear_backward_args){.dy = x, .w = w, .dx = to});
  case LAYEROPS_OP_copy:
    return layerops_copy(c, &(layerops_copy_args){.x = x, .y = to});
  case LAYEROPS_OP_gather:
    return layerops_gather(c, &(layerops_gather_args){.x = x, .index = index, .y = to});
  case LAYEROPS_OP_transpose:
    return layerops_transpose(c, &(layerops_transpose_args){.x = x, .y = to});
  default:
    return layerops_softmax(c, &(layerops_softmax_args){.x = x, .y = to});
  }
}

/* What supports() tells of every pair of types is what a call with them gets. */
static void test_supports(layerops_context *c, const char *device) {
  static const layerops_op ops[] = {
      LAYEROPS_OP_gemm,   LAYEROPS_OP_linear_forward, LAYEROPS_OP_linear_backward, LAYEROPS_OP_copy,
      LAYEROPS_OP_gather, LAYEROPS_OP_transpose,      LAYEROPS_OP_softmax};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    int taken = 0, wrong = 0;
    for (layerops_type first = 1; first < LAYEROPS_TYPE_COUNT; first++)
      for (layerops_type second = 1; second < LAYEROPS_TYPE_COUNT; second++) {
        layerops_status told = layerops_supports_pair(c, ops[i], first, second);
        layerops_status got = call_with(c, ops[i], first, second);
        taken += !told;
        if (told == got) continue;
        wrong++;
        diag("%s with %s: supports tells %s, the call gets %s", layerops_type_name(first),
             layerops_type_name(second), layerops_status_name(told), layerops_status_name(got));
      }
    ok(taken && !wrong, "%s on %s takes the pairs of types that supports tells of",
       layerops_op_name(ops[i]), device);
  }
}

static void test_buffers(void) {
  layerops_buffer *b = (layerops_buffer *)in;
  GETS(layerops_buffer_create(ctx, -1, &b), INVALID, "bytes is -1");
  ok(!b, "a failed create gives NULL");
  GETS(layerops_buffer_create(ctx, 8, NULL), INVALID, "buffer is NULL");
  GETS(layerops_buffer_create(NULL, 8, &b), INVALID, "context is NULL");
  GETS(layerops_buffer_create(ctx, INT64_MAX / 2, &b), OUT_OF_MEMORY, "4611686018427387903 bytes");
  GETS(layerops_buffer_from(ctx, NULL, 8, &b), INVALID, "host is NULL", "8");
  GETS(layerops_buffer_wrap(ctx, NULL, 8, &b), INVALID, "native is NULL", "8");
  GETS(layerops_buffer_write_at(ctx, small, 60, in, 8), INVALID, "offset 60", "bytes 8",
       "64 bytes");
  GETS(layerops_buffer_write_at(ctx, small, -1, in, 8), INVALID, "offset -1");
  GETS(layerops_buffer_read_at(ctx, small, 0, out, -8), INVALID, "bytes -8");
  GETS(layerops_buffer_read_at(ctx, small, INT64_MAX, out, 8), INVALID, "leave the buffer");
  GETS(layerops_buffer_read(ctx, NULL, out, 8), INVALID, "buffer is NULL");
  GETS(layerops_buffer_read(ctx, foreign, out, 8), INVALID, "reference", "cpu");
  GETS(layerops_buffer_read(ctx, small, NULL, 8), INVALID, "host is NULL");
  layerops_buffer_destroy(NULL);
  ok(!layerops_buffer_native(NULL) && !layerops_buffer_bytes(NULL), "a NULL buffer has no memory");
}

static void test_events(void) {
  layerops_event *e = NULL, *f = NULL;
  double ms;
  GETS(layerops_event_create(ctx, NULL), INVALID, "event is NULL");
  GETS(layerops_event_create(NULL, &e), INVALID, "context is NULL");
  GETS(layerops_event_record(NULL), INVALID, "event is NULL");
  GETS(layerops_event_wait(NULL), INVALID, "event is NULL");
  ok(!layerops_event_create(ctx, &e) && !layerops_event_create(other, &f), "two events");
  GETS(layerops_event_wait(e), STATE, "not recorded");
  GETS(layerops_event_elapsed(e, e, &ms), STATE, "not recorded");
  GETS(layerops_event_elapsed(e, e, NULL), INVALID, "milliseconds is NULL");
  GETS(layerops_event_elapsed(e, f, &ms), INVALID, "two contexts");
  GETS(layerops_event_elapsed(e, NULL, &ms), INVALID, "event is NULL");
  layerops_event_destroy(NULL);
  layerops_event_destroy(e);
  layerops_event_destroy(f);
}

static void test_recording(void) {
  layerops_graph *g = NULL;
  layerops_buffer *b;
  layerops_bsr *w;
  layerops_weights *p = NULL;
  layerops_weights_args pack = {.w = view(in, 2, 4)};
  layerops_event *e;
  layerops_bsr_args args = {0};
  GETS(layerops_record_end(ctx, &g), STATE, "not recording");
  GETS(layerops_record_begin(NULL), INVALID, "context is NULL");
  GETS(layerops_graph_replay(NULL), INVALID, "graph is NULL");
  layerops_graph_destroy(NULL);
  ok(!layerops_event_create(ctx, &e), "an event");
  ok(!layerops_weights_pack(ctx, &pack, &p), "packed weights");
  ok(!layerops_record_begin(ctx), "recording begins");
  GETS(layerops_record_begin(ctx), STATE, "recording already");
  GETS(layerops_sync(ctx), STATE, "recording");
  GETS(layerops_wait(ctx, ctx), STATE, "recording");
  GETS(layerops_buffer_read(ctx, small, out, 8), STATE, "recording");
  GETS(layerops_buffer_write(ctx, small, in, 8), STATE, "recording");
  GETS(layerops_buffer_from(ctx, in, 8, &b), STATE, "recording");
  GETS(layerops_bsr_create(ctx, &args, &w), STATE, "recording");
  GETS(layerops_weights_update(ctx, p, pack.w), STATE, "weights_update", "recording");
  GETS(layerops_weights_unpack(ctx, p, view(out, 2, 4)), STATE, "weights_unpack", "recording");
  layerops_weights_destroy(p);
  GETS(layerops_weights_pack(ctx, &pack, &p), STATE, "weights_pack", "recording");
  GETS(layerops_event_record(e), STATE, "recording");
  GETS(layerops_record_end(ctx, NULL), INVALID, "graph is NULL");
  layerops_copy_args bad = valid_copy();
  bad.y.rows = 1;
  GETS(layerops_copy(ctx, &bad), INVALID, "y is 1 x 7");
  ok(!layerops_record_end(ctx, &g) && g, "a refused call does not end the recording");
  ok(!layerops_graph_replay(g) && untouched(), "and is not in it");
  layerops_graph_destroy(g);
  layerops_event_destroy(e);
}

/* A device that failed stays failed, for all its contexts, and no other device does. */
static void test_lost_device(void) {
  layerops_context *lost, *sibling;
  ok(!layerops_open("reference", &lost) && !layerops_open("reference", &sibling), "two contexts");
  layerops_status status = lo_device_lost(lost, "error %d", 719);
  GETS(status, DEVICE_LOST, "reference", "error 719");
  layerops_copy_args a = valid_copy();
  GETS(layerops_copy(lost, &a), DEVICE_LOST, "copy", "reference failed earlier");
  GETS(layerops_sync(sibling), DEVICE_LOST, "sync", "reference failed earlier");
  ok(!layerops_sync(ctx), "another device goes on");
  atomic_store(&lost->device->lost, false);
  ok(!layerops_sync(sibling), "(the reference is mended)");
  layerops_close(lost);
  layerops_close(sibling);
}

static void *no_memory(void *user, size_t bytes, size_t alignment) {
  (void)user, (void)bytes, (void)alignment;
  return NULL;
}
static void release(void *user, void *pointer) {
  (void)user, (void)pointer;
}

static void test_out_of_memory(void) {
  layerops_open_args open = {.device = "cpu", .alloc = no_memory, .release = release};
  layerops_context *c = NULL;
  layerops_buffer *b;
  layerops_status status = layerops_open_with(&open, &c);
  if (status) {
    refused("open without memory", "", status, LAYEROPS_ERROR_OUT_OF_MEMORY, LIST("memory"));
    return;
  }
  GETS(layerops_buffer_create(c, 100, &b), OUT_OF_MEMORY, "100 bytes");
  layerops_close(c);
}

static void test_statuses(void) {
  static const layerops_status all[] = {
#define X(name, number, text) LAYEROPS_##name,
      LAYEROPS_STATUS_LIST(X)
#undef X
  };
  int good = 1;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    good = good && (size_t)all[i] == i && !strncmp(layerops_status_name(all[i]), "LAYEROPS_", 9) &&
           strlen(layerops_status_text(all[i])) > 3;
  ok(good, "each status has a number, a name and a text");
  ok(layerops_status_name((layerops_status)999) && layerops_status_text((layerops_status)-1),
     "an unknown status has them too");
  is_str(layerops_op_name((layerops_op)77), "?", "an unknown operation is ?");
  is_str(layerops_type_name(-1), "?", "an unknown type is ?");
  is_int(layerops_type_size(100), 0, "and has no size");
  is_str(layerops_activation_name(100), "?", "an unknown activation is ?");
  is_int(layerops_activation_from_name("reelu"), -1, "an unknown name is no activation");
  is_int(layerops_activation_from_name(NULL), -1, "nor is NULL");
}

int main(void) {
  if (!errors_begin()) return done();
  test_statuses();
  test_open();
  test_contexts();
  test_supports(ctx, "cpu");
  test_supports(other, "reference");
  test_buffers();
  test_events();
  test_recording();
  test_lost_device();
  test_out_of_memory();
  return errors_end();
}
