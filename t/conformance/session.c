/* Runs the checks: opens the devices, walks the table, reports. */
#include <config.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "t/conformance/session.h"

/* ---- cases ---- */

void cf_case(cf_session *s, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(s->label, sizeof s->label, format, list);
  va_end(list);
  cf_free_case(s); /* what an earlier case has not ended */
  s->cases++;
}

void cf_fail(cf_session *s, const char *format, ...) {
  if (s->failed++) return;
  int used = snprintf(s->failure, sizeof s->failure, "%s: ", s->label);
  if (used < 0 || (size_t)used >= sizeof s->failure) return;
  va_list list;
  va_start(list, format);
  vsnprintf(s->failure + used, sizeof s->failure - (size_t)used, format, list);
  va_end(list);
}

void cf_expect(cf_session *s, bool holds, const char *format, ...) {
  if (holds) return;
  char text[512];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  cf_fail(s, "%s", text);
}

bool cf_has(cf_session *s, layerops_status status) {
  if (status == LAYEROPS_ERROR_UNSUPPORTED)
    snprintf(s->missing, sizeof s->missing, "%s", layerops_last_error());
  else if (status)
    cf_fail(s, "a small call returned %s: %s", layerops_status_name(status), layerops_last_error());
  cf_free_case(s);
  return status == LAYEROPS_OK;
}

bool cf_in_full(const cf_session *s) {
  return s->options->full || s->variant == CF_BUFFERS ||
         (s->options->kernels && s->variant == CF_HOST);
}

bool cf_next_side(cf_session *s, int *side) {
  static const int after[] = {[CF_DEVICE] = CF_AGAIN, [CF_AGAIN] = CF_REFERENCE};
  *side = *side < 0 ? CF_DEVICE : *side == CF_REFERENCE ? CF_SIDE_COUNT : after[*side];
  if (*side == CF_AGAIN && s->variant != CF_TWICE) *side = CF_REFERENCE;
  return *side != CF_SIDE_COUNT;
}

static bool replays(const cf_session *s, int side) {
  return s->variant == CF_REPLAY && side == CF_DEVICE;
}

void cf_before(cf_session *s, int side) {
  if (replays(s, side) && layerops_record_begin(s->ctx[side]))
    cf_fail(s, "recording: %s", layerops_last_error());
}

static layerops_status replay(layerops_context *ctx) {
  layerops_graph *graph = NULL;
  layerops_status status = layerops_record_end(ctx, &graph);
  if (!status) status = layerops_graph_replay(graph);
  if (!status) status = layerops_sync(ctx);
  layerops_graph_destroy(graph);
  return status;
}

void cf_after(cf_session *s, int side, layerops_status status) {
  const char *what = side == CF_REFERENCE ? "the reference" : "the call";
  if (replays(s, side)) {
    char message[512] = "";
    if (status) snprintf(message, sizeof message, "%s", layerops_last_error());
    layerops_status replayed = replay(s->ctx[side]);
    if (status)
      cf_fail(s, "recording returned %s: %s", layerops_status_name(status), message);
    else if (replayed)
      cf_fail(s, "replay returned %s: %s", layerops_status_name(replayed), layerops_last_error());
  } else if (status) {
    cf_fail(s, "%s returned %s: %s", what, layerops_status_name(status), layerops_last_error());
  }
}

/* ---- checks ---- */

static const char *variant_name(const cf_session *s) {
  switch (s->variant) {
  case CF_HOST:
    return s->on_host ? ", before no-access pages" : ", host views";
  case CF_PAGE_START:
    return ", after no-access pages";
  case CF_REPLAY:
    return ", replayed";
  case CF_TWICE:
    return ", the same bits twice";
  default:
    return "";
  }
}

/* Seeds a check by what it is, so that it does not depend on what ran before. */
static uint64_t seed_of(const cf_session *s, const char *name) {
  uint64_t hash = s->options->seed ^ 0xcbf29ce484222325u; /* FNV-1a */
  for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  return hash;
}

static void report(const cf_session *s, cf_result result, const char *name, const char *detail) {
  s->options->report(s->options->user, result, name, detail);
}

/* Operations that only move data are exact in every type, and read some that f32 does not hold. */
static bool moves(layerops_op op) {
  return op == LAYEROPS_OP_fill || op == LAYEROPS_OP_copy || op == LAYEROPS_OP_transpose ||
         op == LAYEROPS_OP_gather;
}

static void run_check(cf_session *s, const cf_check *check, layerops_type type, const char *name) {
  char detail[sizeof s->failure + 64];
  s->random = seed_of(s, name);
  s->layout = (cf_layout){0};
  s->narrow = moves(check->op);
  s->cases = s->failed = 0;
  s->worst = 0;
  s->failure[0] = s->missing[0] = s->label[0] = 0;
  check->run(s, type);
  cf_free_case(s);
  if (s->missing[0]) {
    report(s, s->options->strict ? CF_FAILED : CF_SKIPPED, name, s->missing);
    return;
  }
  if (!s->cases) cf_fail(s, "no case ran");
  if (s->failed)
    snprintf(detail, sizeof detail, "%" PRId64 " faults in %" PRId64 " cases; the first: %s",
             s->failed, s->cases, s->failure);
  else if (s->worst > 0)
    snprintf(detail, sizeof detail,
             "%" PRId64 " cases, the largest error is %.2g of what is allowed", s->cases, s->worst);
  else
    snprintf(detail, sizeof detail, "%" PRId64 " cases, exact", s->cases);
  report(s, s->failed ? CF_FAILED : CF_PASSED, name, detail);
}

static bool has_variant(const cf_session *s, const cf_check *check, int variant) {
  const bool paged = s->on_host && check->variants & CF_BIT(CF_HOST);
  if (variant == CF_BUFFERS) return !(s->options->kernels && paged);
  if (variant == CF_PAGE_START && !s->on_host) return false;
  if (s->options->kernels && (variant == CF_REPLAY || variant == CF_TWICE)) return false;
  return check->variants & CF_BIT(variant);
}

static void run_type(cf_session *s, const cf_check *check, layerops_type type) {
  char name[160];
  layerops_status status =
      layerops_supports_pair(s->ctx[CF_DEVICE], check->op, type, s->second ? s->second : type);
  for (int variant = 0; variant < CF_VARIANT_COUNT; variant++) {
    if (!has_variant(s, check, variant)) continue;
    s->variant = (cf_variant)variant;
    snprintf(name, sizeof name, "%s %s%s%s: %s%s", layerops_op_name(check->op),
             layerops_type_name(type), s->second ? " with " : "",
             s->second ? layerops_type_name(s->second) : "", check->name, variant_name(s));
    if (status == LAYEROPS_OK)
      run_check(s, check, type, name);
    else if (status == LAYEROPS_ERROR_UNSUPPORTED && !s->options->strict)
      report(s, CF_SKIPPED, name, layerops_last_error());
    else
      report(s, CF_FAILED, name, layerops_last_error());
  }
}

static void run_types(cf_session *s, const cf_check *check, layerops_type type) {
  const unsigned seconds = check->types / CF_WITH(1u);
  s->second = LAYEROPS_NONE_TYPE;
  if (!seconds) run_type(s, check, type);
  for (s->second = 1; s->second < LAYEROPS_TYPE_COUNT; s->second++)
    if (seconds & CF_BIT(s->second)) run_type(s, check, type);
}

/* Whether the operation's name begins with one of the comma-separated words. */
static bool wanted(const cf_session *s, layerops_op op) {
  const char *name = layerops_op_name(op), *word = s->options->only;
  if (!word) return true;
  for (; *word; word += *word == ',') {
    size_t length = strcspn(word, ",");
    if (length && !strncmp(name, word, length)) return true;
    word += length;
  }
  return false;
}

static const cf_check *const families[] = {
    cf_gemm_checks,    cf_linear_checks,       cf_backward_checks, cf_activation_checks,
    cf_softmax_checks, cf_loss_checks,         cf_move_checks,     cf_optimizer_checks,
    cf_bsr_checks,     cf_bsr_backward_checks, cf_packed_checks,   cf_scale_checks,
};

static void run_all(cf_session *s) {
  for (int64_t f = 0; f < CF_COUNT(families); f++)
    for (const cf_check *check = families[f]; check->name; check++)
      for (layerops_type type = 1; wanted(s, check->op) && type < LAYEROPS_TYPE_COUNT; type++)
        if (check->types & CF_BIT(type)) run_types(s, check, type);
}

static bool host_memory(layerops_context *ctx) {
  layerops_device_info info;
  if (layerops_context_info(ctx, &info)) return false;
  return !strcmp(info.name, "cpu") || !strcmp(info.name, "reference");
}

layerops_status cf_run(const cf_options *options) {
  cf_session s = {.options = options};
  layerops_status status = layerops_open(options->device, &s.ctx[CF_DEVICE]);
  if (!status) status = layerops_open("reference", &s.ctx[CF_REFERENCE]);
  if (!status) {
    s.ctx[CF_AGAIN] = s.ctx[CF_DEVICE];
    s.on_host = host_memory(s.ctx[CF_DEVICE]);
    run_all(&s);
  }
  layerops_close(s.ctx[CF_REFERENCE]);
  layerops_close(s.ctx[CF_DEVICE]);
  return status;
}
