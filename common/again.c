#include <config.h>

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/again.h"

/* The operations whose calls are kept: their struct's size, and where it differs from call to call,
 * as a rule. */
static const struct {
  size_t size, views[3];
} kinds[LAYEROPS_OP_COUNT] = {
#define KIND(name, first, second, third)                                                           \
  [LAYEROPS_OP_##                                                                                  \
      name] = {sizeof(layerops_##name##_args),                                                     \
               {offsetof(layerops_##name##_args, first), offsetof(layerops_##name##_args, second), \
                offsetof(layerops_##name##_args, third)}}
    KIND(gemm, a, b, c),
    KIND(linear_forward, x, w, y),
    KIND(linear_backward, dy, x, w),
#undef KIND
};

typedef struct object {
  const uint64_t *number; /* of a buffer or of packed weights: reached by the user's own pointer */
  uint64_t was;
} object;

typedef struct kept_call {
  lo_call call;
  object objects[LO_MAX_OPERANDS + 1];
  int object_count;
  void *native;         /* the backend's (struct lo_again_form) */
  unsigned char user[]; /* the user's struct */
} kept_call;

enum { SLOT_BITS = 6 };
struct lo_calls {
  struct {
    uint64_t seen; /* of the call that was here last and is not kept */
    kept_call *kept;
  } slots[1 << SLOT_BITS];
};

static uint64_t hash_of(layerops_op op, const void *user) {
  uint64_t h = (uint64_t)op;
  for (int i = 0; i < 3; i++) {
    const layerops_matrix *m = (const layerops_matrix *)((const char *)user + kinds[op].views[i]);
    h = (h ^ (uintptr_t)m->buffer ^ (uintptr_t)m->host ^ (uint64_t)m->offset << 20) *
        0x9e3779b97f4a7c15u;
  }
  return h;
}

static bool same_objects(const kept_call *k) {
  for (int i = 0; i < k->object_count; i++)
    if (*k->objects[i].number != k->objects[i].was) return false;
  return true;
}

static layerops_status run(layerops_context *ctx, kept_call *k) {
  const struct lo_again_form *form = ctx->backend->again;
  LO_TRY(lo_enter(ctx, layerops_op_name(k->call.op)));
  ctx->kernel = "";
  return form ? form->run(ctx, &k->call, &k->native) : lo_call_dispatch(ctx, &k->call);
}

bool lo_call_again(layerops_context *ctx, layerops_op op, const void *user, size_t size,
                   layerops_status *status) {
  if (!ctx || !ctx->calls || !user || size != kinds[op].size) return false;
  if (ctx->recording || ctx->preparing || ctx->tuning || ctx->verbose) return false;
  kept_call *k = ctx->calls->slots[hash_of(op, user) >> (64 - SLOT_BITS)].kept;
  if (!k || k->call.op != op || memcmp(k->user, user, size) || !same_objects(k)) return false;
  *status = run(ctx, k);
  return true;
}

static void release(const layerops_context *ctx, kept_call *k) {
  if (k && k->native) ctx->backend->again->release(k->native);
  free(k);
}

/* An operand that packed weights gave is theirs: they may be gone when the next call comes. */
static void find_objects(const lo_door *door, kept_call *k) {
  if (door->packed) k->objects[k->object_count++] = (object){&door->packed->number, 0};
  for (int i = 0; i < door->count; i++) {
    const layerops_buffer *b = door->operands[i].view->buffer;
    if (b && (!door->packed || b != door->packed->shape.buffer))
      k->objects[k->object_count++] = (object){&b->number, 0};
  }
  for (int i = 0; i < k->object_count; i++) k->objects[i].was = *k->objects[i].number;
}

void lo_call_keep(const lo_door *door) {
  layerops_context *ctx = door->ctx;
  const layerops_op op = door->call.op;
  if (!kinds[op].size || door->user_size != kinds[op].size) return;
  if (!ctx->calls && !(ctx->calls = calloc(1, sizeof *ctx->calls))) return;
  const uint64_t hash = hash_of(op, door->user), at = hash >> (64 - SLOT_BITS);
  if (ctx->calls->slots[at].seen != hash) {
    ctx->calls->slots[at].seen = hash;
    return;
  }
  kept_call *k = malloc(sizeof *k + kinds[op].size);
  if (!k) return;
  k->call = door->call;
  k->object_count = 0;
  k->native = NULL;
  memcpy(k->user, door->user, kinds[op].size);
  find_objects(door, k);
  release(ctx, ctx->calls->slots[at].kept);
  ctx->calls->slots[at].kept = k;
  ctx->calls->slots[at].seen = 0;
}

void lo_calls_forget(layerops_context *ctx) {
  if (!ctx->calls) return;
  for (int i = 0; i < 1 << SLOT_BITS; i++) release(ctx, ctx->calls->slots[i].kept);
  free(ctx->calls);
  ctx->calls = NULL;
}
