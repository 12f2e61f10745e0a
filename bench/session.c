#include <config.h>

#include "bench/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/folders.h"
#include "bench/host.h"
#include "bench/peaks.h"

/* ---- devices ---- */

/* "cuda:0" is of kind "cuda"; the reference runs on the CPU. */
static void find_kind(struct bench_target *target) {
  const char *name = strcmp(target->info.name, "reference") ? target->info.name : "cpu";
  const size_t length = strcspn(name, ":");
  memcpy(target->kind, name, length);
  target->kind[length] = 0;
}

static bool plan_peaks(const struct bench_target *target, struct bench_peaks *peaks) {
  int index;
  if (sscanf(target->info.name, "cuda:%d", &index) == 1) return bench_peaks_plan_cuda(peaks, index);
  return !strcmp(target->kind, "cpu") && bench_peaks_plan(peaks, target->threads);
}

/* What the device reaches now, in place of a device file: all of a CUDA device, of a processor what
   bench_peaks_device takes. */
static bool measure_bound(struct bench_target *target) {
  struct bench_peaks peaks;
  if (!plan_peaks(target, &peaks)) {
    fprintf(stderr, "layerops bench: --bound measure: %s: %s\n", target->info.name,
            strcmp(target->kind, "cpu") ? "only processors and CUDA devices can be measured"
                                        : "hwloc finds no topology of this machine");
    return false;
  }
  for (int i = 0; i < peaks.count; i++)
    if (!target->threads || peaks.list[i].fma || !strcmp(peaks.list[i].how, "read")) {
      if (bench_peaks_measure(&peaks.list[i])) continue;
      fprintf(stderr, "layerops bench: --bound measure: %s: out of memory, or it failed\n",
              target->info.name);
      return false;
    }
  bench_peaks_device(&peaks, target->threads, &target->bound);
  return target->has_bound = true;
}

static bool find_bound(const struct bench_session *s, struct bench_target *target) {
  char folder[4096], why[512], name[192];
  if (s->bound_file && !strcmp(s->bound_file, "measure")) return measure_bound(target);
  bench_devices_folder(folder, sizeof folder);
  snprintf(name, sizeof name, "%s", target->info.description);
  if (!target->info.is_gpu) bench_cpu_name(name, sizeof name);
  target->has_bound =
      s->bound_file
          ? bench_device_read(s->bound_file, &target->bound, why, sizeof why)
          : bench_device_find(folder, target->kind, name, &target->bound, why, sizeof why);
  if (target->has_bound) return true;
  if (s->bound_file) {
    fprintf(stderr, "layerops bench: --bound: %s\n", why);
    return false;
  }
  fprintf(stderr, "layerops bench: %s: no sol_pct, since %s%s\n", target->info.name,
          *why ? why : "no device file describes it in ", *why ? "" : folder);
  return true;
}

static int thread_count(const layerops_device_info *info, int threads) {
  if (!strcmp(info->name, "reference")) return 1;
  if (strcmp(info->name, "cpu")) return 0;
  return threads > 0 && threads < info->units ? threads : (int)info->units;
}

/* Opens it again in a stream that can be held, where there is one. */
static layerops_status open_gated(struct bench_target *target, layerops_open_args *args) {
  int index;
  if (sscanf(target->info.name, "cuda:%d", &index) != 1) return LAYEROPS_OK;
  target->gate = bench_gate_make(index);
  if (!target->gate) return LAYEROPS_OK;
  layerops_close(target->ctx);
  target->ctx = NULL;
  args->device = target->info.name;
  args->queue = bench_gate_stream(target->gate);
  return layerops_open_with(args, &target->ctx);
}

/* Then each call waits for its end, which must not lie behind a closed gate. */
static bool is_verbose(void) {
  const char *level = getenv("LAYEROPS_VERBOSE");
  return level && atoi(level) > 0;
}

static layerops_status open_target(struct bench_target *target, layerops_open_args *args) {
  layerops_status status = layerops_open_with(args, &target->ctx);
  if (status == LAYEROPS_OK) status = layerops_context_info(target->ctx, &target->info);
  if (status != LAYEROPS_OK) return status;
  find_kind(target);
  status = open_gated(target, args);
  return status == LAYEROPS_OK
             ? bench_clock_make(target->ctx, is_verbose() ? NULL : target->gate, &target->clock)
             : status;
}

bool bench_session_open(struct bench_session *s, const char *device, int threads) {
  if (s->target_count == BENCH_MAX_DEVICES) {
    fprintf(stderr, "layerops bench: --device: at most %d devices\n", BENCH_MAX_DEVICES);
    return false;
  }
  struct bench_target *target = &s->targets[s->target_count];
  layerops_open_args args = {.device = device, .threads = threads, .no_cache = 1};
  *target = (struct bench_target){0};
  s->target_count++;
  if (open_target(target, &args) != LAYEROPS_OK) {
    fprintf(stderr, "layerops bench: --device: %s\n", layerops_last_error());
    return false;
  }
  target->threads = thread_count(&target->info, threads);
  return find_bound(s, target);
}

bool bench_session_load_peers(struct bench_session *s) {
  char folder[4096];
  bench_peers_folder(folder, sizeof folder);
  s->peers = bench_peers_load(folder);
  for (const struct bench_peer_entry *p = s->peers; p->name; p++) {
    if (!p->peer) fprintf(stderr, "layerops bench: peer %s: %s\n", p->name, p->reason);
    if (!bench_report_peer(&s->report, p->name, p->peer ? NULL : p->reason)) return false;
  }
  return true;
}

/* ---- one call again and again ---- */

static double time_repeated(void *state) {
  struct bench_repeated *r = state;
  return bench_clock_time(r->clock, bench_call_replay, r->call);
}

struct bench_contender bench_session_repeat(struct bench_session *s, int t, struct bench_call *call,
                                            struct bench_repeated *repeated,
                                            const struct bench_plan **plan) {
  struct bench_target *target = &s->targets[t];
  *repeated = (struct bench_repeated){call, &target->clock};
  *plan = target->gate ? &s->timed_plan : &s->plan;
  if (!target->gate) return (struct bench_contender){.run = bench_call_run, .state = call};
  return (struct bench_contender){
      .timed = time_repeated, .state = repeated, .calls = BENCH_FEW_CALLS};
}

/* ---- a line of LAYEROPS_VERBOSE ---- */

static bool report_replay(struct bench_session *s, const struct bench_line *line,
                          const struct bench_target *target, const struct bench_stats *stats) {
  const char *op = layerops_op_name(line->op);
  struct bench_result r = {.id = op,
                           .op = op,
                           .device = target->info.name,
                           .dtype = layerops_type_name(line->type),
                           .contender = "layerops",
                           .kernel = layerops_last_kernel(target->ctx),
                           .activation = layerops_activation_name(line->activation),
                           .threads = target->threads,
                           .m = line->m,
                           .n = line->n,
                           .k = line->k,
                           .block = line->block,
                           .blocks = line->blocks,
                           .packed = line->packed,
                           .max_rel_err = NAN,
                           .repay = NAN,
                           .ratio = NAN,
                           .residency = bench_residencies[BENCH_WARM],
                           .way = bench_ways[BENCH_GRAPH],
                           .stats = stats};
  bench_line_work(line, &r.flops, &r.bytes);
  if (target->has_bound)
    r.bound = bench_bound(&target->bound, r.dtype, target->threads, r.flops, r.bytes);
  if (line->kernel[0] && strcmp(line->kernel, r.kernel))
    fprintf(stderr, "layerops bench: the line's kernel is %s, this call's %s\n", line->kernel,
            r.kernel);
  return bench_report_row(&s->report, &r);
}

bool bench_session_replay(struct bench_session *s, const struct bench_line *line, int t) {
  const struct bench_target *target = &s->targets[t];
  struct bench_call call;
  struct bench_stats stats;
  layerops_status status = bench_line_call(target->ctx, line, &call);
  if (status == LAYEROPS_OK) status = bench_call_prepare(&call);
  bool good = status == LAYEROPS_OK;
  if (!good) {
    s->faults++;
    const char *detail = layerops_last_error(); /* none where the operands could not be made */
    fprintf(stderr, "layerops bench: --replay: %s%s%s\n", layerops_status_text(status),
            *detail ? ": " : "", detail);
    bench_call_free(&call);
    return true;
  }
  struct bench_repeated repeated;
  const struct bench_plan *plan;
  struct bench_contender contender = bench_session_repeat(s, t, &call, &repeated, &plan);
  good = bench_measure(&contender, 1, plan, &stats);
  if (good && stats.failed) {
    s->faults++;
    fprintf(stderr, "layerops bench: --replay: %s\n", layerops_last_error());
  } else if (good) {
    good = report_replay(s, line, target, &stats);
  }
  if (good) bench_stats_free(&stats, 1);
  bench_call_free(&call);
  return good;
}

/* ---- the end ---- */

bool bench_session_end(struct bench_session *s) {
  layerops_device_info devices[BENCH_MAX_DEVICES];
  for (int t = 0; t < s->target_count; t++) {
    devices[t] = s->targets[t].info;
    const struct bench_summary *summaries = s->targets[t].summaries[0][0];
    for (int i = 0; i < BENCH_PRODUCTS * BENCH_RESIDENCIES * BENCH_SUMMARIES; i++)
      if (!bench_report_summary(&s->report, &summaries[i])) return false;
  }
  return bench_report_end(&s->report, devices, (size_t)s->target_count, &s->plan, &s->timed_plan);
}

void bench_session_close(struct bench_session *s) {
  for (int t = 0; t < s->target_count; t++) {
    bench_clock_free(&s->targets[t].clock);
    layerops_close(s->targets[t].ctx);
    bench_gate_free(s->targets[t].gate);
  }
  s->target_count = 0;
  bench_report_free(&s->report);
}
