/* One checked call: what the door makes, the recorder keeps and the dispatcher runs. */
#ifndef LO_CALL_H
#define LO_CALL_H

#include "common/context.h"

struct lo_call {
  layerops_op op;
  /* for the verbose line */
  int64_t m, n, k, batch;
  double flops;
  layerops_type type, out_type;
  layerops_type second_type; /* as a backend is asked about it (common/backend.h) */
  char detail[112];          /* further key=value pairs */
  union {
#define LO_CALL_ARGS(name, number) layerops_##name##_args name;
    LAYEROPS_OP_LIST(LO_CALL_ARGS)
#undef LO_CALL_ARGS
  } args;
};

/* Runs the call on the context's device, and tells of it where the context is verbose. */
layerops_status lo_call_run(layerops_context *ctx, const lo_call *call);

/* The backend's function alone. */
layerops_status lo_call_dispatch(layerops_context *ctx, const lo_call *call);

/* Warms the call without running it, where the backend can. */
layerops_status lo_call_prepare(layerops_context *ctx, const lo_call *call);

/* Appends the call to the context's recording, warm. */
layerops_status lo_record(layerops_context *ctx, const lo_call *call);

/* Prints a line through the context's log function or to stderr. */
void lo_log(layerops_context *ctx, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
