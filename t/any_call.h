/* A call of any operation. */
#ifndef LO_TEST_ANY_CALL_H
#define LO_TEST_ANY_CALL_H

#include <layerops/layerops.h>

typedef struct any_call {
  layerops_op op;
  union {
#define X(name, number) layerops_##name##_args name;
    LAYEROPS_OP_LIST(X)
#undef X
  } args;
} any_call;

static inline layerops_status run_any_call(layerops_context *ctx, const any_call *c) {
  switch (c->op) {
#define X(name, number)                                                                            \
  case LAYEROPS_OP_##name:                                                                         \
    return layerops_##name(ctx, &c->args.name);
    LAYEROPS_OP_LIST(X)
#undef X
  default:
    return LAYEROPS_ERROR_INVALID;
  }
}

#endif
