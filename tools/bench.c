/* layerops bench: measures the rows of a suite. */
#include <config.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/network_run.h"
#include "bench/ops.h"
#include "bench/session.h"
#include "bench/training.h"
#include "bench/vary.h"
#include "tools/progress.h"
#include "tools/tool.h"

#define COMMAND "bench"

#define MAX_BATCHES 8

struct settings {
  const char *suite, *rows, *replay, *ops, *bound;
  const char *devices[BENCH_MAX_DEVICES + 1]; /* ends with NULL */
  char tier;                                  /* 0: as the device suits */
  const struct bench_type *type;
  int32_t threads, rounds; /* 0: not given */
  double seconds;          /* 0: not given */
  int weights;             /* BENCH_PLAIN, BENCH_PACKED or both; 0: not given */
  unsigned residencies;    /* a bit for each; 0: not given */
  int32_t way;
  unsigned products; /* a bit for each; 0: not given */
  double density;    /* negative: not given */
  bool peers, tsv, json;
  uint64_t seed, vary, pattern; /* 0: not given, but seed */
  int64_t train[MAX_BATCHES];   /* batches; 0 ends them */
  int64_t latency;              /* calls; 0: not given */
};

static bool parse_device(const char *text, void *field) {
  const char **devices = field;
  int count = 0;
  while (devices[count]) count++;
  if (count == BENCH_MAX_DEVICES || !*text) return false;
  devices[count] = text;
  return true;
}

static bool parse_tier(const char *text, void *field) {
  *(char *)field = text[0];
  return !strcmp(text, "S") || !strcmp(text, "L");
}

static bool parse_type(const char *text, void *field) {
  const struct bench_type **type = field;
  *type = bench_type_find(text);
  return *type != NULL;
}

static bool parse_weights(const char *text, void *field) {
  static const struct {
    const char *name;
    int weights;
  } names[] = {
      {"plain", BENCH_PLAIN}, {"packed", BENCH_PACKED}, {"both", BENCH_PLAIN | BENCH_PACKED}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i].name)) continue;
    *(int *)field = names[i].weights;
    return true;
  }
  return false;
}

static bool parse_residency(const char *text, void *field) {
  const int index = bench_name_index(bench_residencies, text);
  const bool both = !strcmp(text, "both");
  *(unsigned *)field = 0;
  for (int i = 0; i < BENCH_RESIDENCIES; i++)
    if (both || i == index) *(unsigned *)field |= 1u << i;
  return *(unsigned *)field != 0;
}

static bool parse_way(const char *text, void *field) {
  *(int32_t *)field = bench_name_index(bench_ways, text);
  return *(int32_t *)field >= 0;
}

static bool parse_product(const char *text, void *field) {
  const int index = bench_name_index(bench_products, text);
  *(unsigned *)field = !strcmp(text, "all") ? (1u << BENCH_PRODUCTS) - 1 : 1u << (index & 31);
  return index >= 0 || !strcmp(text, "all");
}

static bool parse_density(const char *text, void *field) {
  return parse_decay(text, field) && *(double *)field <= 1;
}

static bool parse_batch(const char *text, void *field) {
  int64_t *batches = field;
  int count = 0;
  while (count < MAX_BATCHES && batches[count]) count++;
  return count < MAX_BATCHES && parse_count(text, &batches[count]) &&
         batches[count] <= BENCH_SAMPLES;
}

static bool parse_vary(const char *text, void *field) {
  return parse_seed(text, field) && *(uint64_t *)field > 0;
}

#define FIELD(name) offsetof(struct settings, name)

static const struct tool_option options[] = {
    {"suite", "FILE", "a file", "the layers", parse_text, FIELD(suite)},
    {"device", "D", "a device; at most 16 are taken",
     "cpu, cuda:0, ...; may be repeated. Without it\nthe best device", parse_device,
     FIELD(devices)},
    {"tier", "S|L", "S or L", "rows of this tier. Without it S on a CPU,\nall on a GPU", parse_tier,
     FIELD(tier)},
    {"rows", "ID,ID", "a list of rows", "these rows, of whatever tier", parse_text, FIELD(rows)},
    {"dtype", "T", "f32, f16, bf16, int8, tf32, f8e4m3, f8e5m2 or a pair as f16:i8",
     "f32 (as without it), f16, bf16, tf32: f32 whose products\nmay be in TF32, int8: u8 by i8, "
     "scaled to f32;\non CUDA devices i8 by i8, scaled to i8;\nf8e4m3, f8e5m2: scaled to bf16, "
     "f8e4m3:fast with fast\nsums; X:W: f16 or bf16 by i8, f8e4m3 or f8e5m2",
     parse_type, FIELD(type)},
    {"threads", "N", "a whole number from 1 to 4096",
     "on a CPU at most so many. Without it all cores", parse_threads, FIELD(threads)},
    {"weights", "W", "plain, packed or both",
     "plain, packed beforehand, or both. Without it both,\non CUDA devices plain", parse_weights,
     FIELD(weights)},
    {"residency", "R", "warm, cold or both",
     "warm: each call finds its operands in the caches;\ncold: in memory. Without it cold on CUDA "
     "devices,\nelse warm",
     parse_residency, FIELD(residencies)},
    {"way", "W", "graph, chain or alone",
     "calls that do not depend on each other (graph, as\nwithout it), calls whose X is the Y of "
     "the one before\n(chain), or one call (alone)",
     parse_way, FIELD(way)},
    {"product", "P", "forward, dgrad, wgrad or all",
     "of block-sparse layers: forward (as without it),\ndgrad: dX = dY W, wgrad: dW = dY^T X at "
     "the kept\nblocks, or each; ids show it",
     parse_product, FIELD(products)},
    {"peers", NULL, NULL, "also the peer libraries, in turns with this one", parse_switch,
     FIELD(peers)},
    {"replay", "LINE", "a line",
     "repeat the call that a line of LAYEROPS_VERBOSE=1\ntells of; -: "
     "the line on standard input",
     parse_text, FIELD(replay)},
    {"ops", "LIST", "a list of operations",
     "instead of a suite these operations that are no products\n(gelu,adam; all), on shapes of "
     "each level of the memory,\nbeside a copy of as many bytes",
     parse_text, FIELD(ops)},
    {"train", "N", "a batch from 1 to 60000; at most 8 are taken",
     "an epoch of training 784-128-10 on 60000 samples\nin batches of N; may be repeated. With "
     "--peers\nbeside loops around each BLAS",
     parse_batch, FIELD(train)},
    {"latency", "N", "a whole number of 1 or more",
     "N forward passes of 784-128-10 with one sample", parse_count, FIELD(latency)},
    {"tsv", NULL, NULL, "tab-separated columns below a header", parse_switch, FIELD(tsv)},
    {"json", NULL, NULL, "a run file (JSON)", parse_switch, FIELD(json)},
    {"bound", "FILE|measure", "a file, or measure",
     "the device file for sol_pct, or measure: what the\ndevice reaches now. Without it a file "
     "that\n"
     "describes the device",
     parse_text, FIELD(bound)},
    {"rounds", "N", "a whole number from 1 to 4096",
     "turns of each contender (5; timed by the device 7)", parse_threads, FIELD(rounds)},
    {"seconds", "S", "a number above 0", "the least length of a turn (0.03; 0.01)", parse_positive,
     FIELD(seconds)},
    {"seed", "N", "a whole number", "of the data (1)", parse_seed, FIELD(seed)},
    {"vary", "N", "a whole number of 1 or more",
     "from this seed multiply each size by 0.7 to 1.4\nand make half of them odd; ids show the "
     "shapes",
     parse_vary, FIELD(vary)},
    {"density", "D", "a number from 0 to 1", "of block-sparse layers, in place of the suite's",
     parse_density, FIELD(density)},
    {"pattern", "N", "a whole number of 1 or more",
     "of block-sparse layers other blocks, from this seed,\nof the same pattern and density",
     parse_vary, FIELD(pattern)},
};

static const struct tool_usage usage = {
    .command = COMMAND,
    .synopsis = "--suite FILE | --replay LINE | --ops LIST | --train N | --latency N [OPTION]...",
    .text =
        "Measures each layer of a suite on data from a seed, and checks the results against\n"
        "float64. A suite has one layer a line, tab-separated: id tier m n k act source; or, with\n"
        "block-sparse weights, id tier m n k block density pattern source.",
    .after =
        "Columns of the table (of --tsv):\n"
        "  median (median_s)    of a call, over all samples\n"
        "  GFLOP/s (gflops)     of useful operations (kept blocks only)\n"
        "  error (max_rel_err)  of 1024 entries: largest |y - exact| / (sum of |x||w| + |bias|)\n"
        "  sol% (sol_pct)       speed of light, max(flops/peak, bytes/bandwidth), in per cent of\n"
        "                       the median; above 100: faster than the device file says\n"
        "  weights              plain: as stored; packed: in the library's own layout, made\n"
        "                       beforehand\n"
        "  repay                so many calls with packed weights win back what packing took;\n"
        "                       inf: none do\n"
        "  GB/s (gbs)           with --ops, in place of these two: of bytes, every operand moved\n"
        "                       once\n"
        "  ns/elem (ns_element) with --ops: time an element of [m, n]\n"
        "  ratio                a peer's time over ours with the same weights, above 1 ours is "
        "the\n"
        "                       faster; on our row, plain: the best plain peer's, packed: the "
        "best\n"
        "                       peer's, as with block-sparse weights. The median of the rounds'\n"
        "                       ratios, not the ratio of medians\n"
        "  residency, way       as the options have it\n"
        "  kernel               ours, dense: and ours for the dense product, or peer:NAME-VERSION\n"
        "CUDA devices time by their own clock a graph of 20 calls, of 100 where one takes less "
        "than\n"
        "40 us, which waits in the queue until the host has enqueued it, seven times at least,\n"
        "contenders in turns. cold: calls take turns on so many sets of operands as have 256 MiB\n"
        "together, at most 100, and before each repetition the L2 is filled with other data by\n"
        "reading them; a row that fills the L2 is not measured warm. A chain of a layer that is "
        "not\n"
        "square has every other call lead back, from n to k; its weights take turns. Other "
        "devices\n"
        "do the same with calls instead of a graph where cold, chain or alone is asked for; only\n"
        "peers that do as well are measured beside.\n"
        "Below the rows, with --peers: the geometric mean of the best peer's time over ours, with\n"
        "whatever weights, and with plain weights on both sides; and the worst row.\n"
        "What is not known is nan. A row that a device cannot do is left out, and told on\n"
        "standard error. Exit status 1: a result was wrong or a call failed.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

/* Whether the list "a,b" has the word. */
static bool list_has(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (!strncmp(at, word, length) && (at[length] == ',' || !at[length])) return true;
  }
  return false;
}

/* -1: every row that was asked for is there; else the exit status. */
static int check_rows(const struct settings *o, const struct bench_suite *suite) {
  char *list = strdup(o->rows), *rest = NULL;
  int status = list ? -1 : tool_fail(COMMAND, "out of memory");
  for (char *id = list ? strtok_r(list, ",", &rest) : NULL; id; id = strtok_r(NULL, ",", &rest)) {
    size_t i = 0;
    while (i < suite->count && strcmp(suite->rows[i].id, id)) i++;
    if (i == suite->count) status = tool_misused(COMMAND, "%s has no row '%.80s'", o->suite, id);
  }
  free(list);
  return status;
}

static bool wanted(const struct settings *o, const struct bench_row *row,
                   const struct bench_target *target) {
  if (o->rows && !list_has(o->rows, row->id)) return false;
  if (o->tier) return row->tier == o->tier;
  return o->rows || row->tier == 'S' || target->info.is_gpu;
}

/* A bit for each target that the row is for. */
static unsigned targets_of(const struct bench_session *s, const struct settings *o,
                           const struct bench_row *row) {
  unsigned targets = 0;
  for (int t = 0; t < s->target_count; t++)
    targets |= (unsigned)wanted(o, row, &s->targets[t]) << t;
  return targets;
}

/* The data are made once for all devices whose data type is the same. */
static bool make_operands(const struct bench_session *s, const struct bench_row *row,
                          enum bench_product product, int t, struct bench_operands *operands) {
  const struct bench_type *type = bench_type_on(s->type, s->targets[t].kind);
  if (operands->row && operands->type == type) return true;
  bench_operands_free(operands);
  if (!bench_operands_make(row, type, product, s->seed, operands)) return false;
  if (s->way == BENCH_CHAIN) bench_operands_damp(operands);
  return true;
}

static bool measure_product(struct bench_session *s, const struct bench_row *row,
                            enum bench_product product, unsigned targets) {
  struct bench_operands operands = {0};
  bool good = true;
  for (int t = 0; good && t < s->target_count; t++) {
    if (!(targets >> t & 1)) continue;
    if (!make_operands(s, row, product, t, &operands)) {
      s->faults++;
      tool_fail(COMMAND, "%s: no memory for its data", row->id);
      return bench_report_skip(&s->report, row->id, s->targets[t].info.name, "layerops",
                               "no memory for its data");
    }
    good = bench_session_row(s, &operands, t);
  }
  bench_operands_free(&operands);
  return good;
}

static bool measure_row(struct bench_session *s, const struct settings *o,
                        const struct bench_row *row, unsigned targets) {
  const unsigned products = o->products ? o->products : 1u << BENCH_FORWARD;
  bool good = true;
  for (int p = 0; good && p < BENCH_PRODUCTS; p++)
    if (products >> p & 1) good = measure_product(s, row, (enum bench_product)p, targets);
  return good;
}

/* Makes of it the row that is to be measured. */
static bool vary(const struct settings *o, struct bench_row *row) {
  return (!o->vary || bench_vary(row, o->vary)) &&
         (o->density < 0 || !row->block || bench_vary_density(row, o->density)) &&
         (!o->pattern || !row->block || bench_vary_pattern(row, o->pattern));
}

static bool measure_suite(struct bench_session *s, const struct settings *o,
                          struct bench_suite *suite) {
  struct progress progress;
  bool good = true;
  progress_start(&progress);
  for (size_t i = 0; good && i < suite->count; i++) {
    struct bench_row *row = &suite->rows[i];
    unsigned targets = targets_of(s, o, row); /* by its own id */
    if (!targets) continue;
    progress_show(&progress, row->id, (int64_t)i, (int64_t)suite->count);
    good = vary(o, row) && measure_row(s, o, row, targets);
  }
  progress_clear(&progress);
  return good;
}

static bool open_devices(struct bench_session *s, const struct settings *o, const char *fallback) {
  if (!o->devices[0]) return bench_session_open(s, fallback, o->threads);
  for (int i = 0; o->devices[i]; i++)
    if (!bench_session_open(s, o->devices[i], o->threads)) return false;
  return true;
}

static enum bench_format format_of(const struct settings *o) {
  return o->json ? BENCH_JSON : o->tsv ? BENCH_TSV : BENCH_TABLE;
}

static enum bench_kind kind_of(const struct settings *o) {
  return o->peers ? BENCH_BESIDE_PEERS : BENCH_LAYERS;
}

static int finish(struct bench_session *s, bool good) {
  good = good && bench_session_end(s);
  if (!good)
    return tool_fail(COMMAND, "the report is not complete: %s",
                     ferror(stdout) ? "writing it failed" : "out of memory");
  return s->faults ? TOOL_FAILED : TOOL_OK;
}

/* An option that was given and says something of block-sparse layers only; NULL: none. */
static const char *sparse_option_of(const struct settings *o) {
  return o->products ? "product" : o->density >= 0 ? "density" : o->pattern ? "pattern" : NULL;
}

static int run_suite(struct bench_session *s, const struct settings *o, struct bench_suite *suite) {
  int status = o->rows ? check_rows(o, suite) : -1;
  if (status >= 0) return status;
  const char *sparse = suite->rows[0].block ? NULL : sparse_option_of(o);
  if (sparse)
    return tool_misused(COMMAND, "--%s is for block-sparse layers: %s has dense ones", sparse,
                        o->suite);
  if (!open_devices(s, o, NULL)) return TOOL_FAILED;
  return finish(s, bench_report_begin(&s->report, format_of(o), kind_of(o), stdout) &&
                       (!o->peers || bench_session_load_peers(s)) && measure_suite(s, o, suite));
}

static int read_and_run_suite(struct bench_session *s, const struct settings *o) {
  struct bench_suite suite;
  char why[512];
  if (!bench_suite_read(o->suite, &suite, why, sizeof why))
    return tool_misused(COMMAND, "--suite: %s", why);
  int status = run_suite(s, o, &suite);
  bench_suite_free(&suite);
  return status;
}

static int run_replay(struct bench_session *s, const struct settings *o) {
  struct bench_line line;
  char why[512], text[1024];
  bool from_input = !strcmp(o->replay, "-");
  if (from_input && !fgets(text, sizeof text, stdin)) *text = 0;
  if (!bench_line_read(from_input ? text : o->replay, &line, why, sizeof why))
    return tool_misused(COMMAND, "--replay: %s", why);
  if (!open_devices(s, o, line.device)) return TOOL_FAILED;
  bool good = bench_report_begin(&s->report, format_of(o), BENCH_LAYERS, stdout);
  for (int t = 0; good && t < s->target_count; t++) good = bench_session_replay(s, &line, t);
  return finish(s, good);
}

static int run_ops(struct bench_session *s, const struct settings *o) {
  char why[1024];
  if (!bench_ops_known(o->ops, why, sizeof why)) return tool_misused(COMMAND, "--ops: %s", why);
  if (!open_devices(s, o, NULL)) return TOOL_FAILED;
  bool good = bench_report_begin(&s->report, format_of(o), BENCH_RATES, stdout);
  for (int t = 0; good && t < s->target_count; t++) good = bench_ops_measure(s, o->ops, t);
  return finish(s, good);
}

static int run_train(struct bench_session *s, const struct settings *o) {
  if (!open_devices(s, o, NULL)) return TOOL_FAILED;
  bool good = bench_report_begin(&s->report, format_of(o), kind_of(o), stdout) &&
              (!o->peers || bench_session_load_peers(s));
  for (int i = 0; good && i < MAX_BATCHES && o->train[i]; i++)
    for (int t = 0; good && t < s->target_count; t++) good = bench_session_train(s, o->train[i], t);
  return finish(s, good);
}

static int run_latency(struct bench_session *s, const struct settings *o) {
  if (!open_devices(s, o, NULL)) return TOOL_FAILED;
  bool good = bench_report_begin(&s->report, format_of(o), BENCH_LATENCIES, stdout);
  for (int t = 0; good && t < s->target_count; t++) good = bench_session_latency(s, o->latency, t);
  return finish(s, good);
}

typedef int run_function(struct bench_session *, const struct settings *);

/* What is to be measured; NULL: nothing, or more than one thing. */
static run_function *run_of(const struct settings *o) {
  const struct {
    bool given;
    run_function *run;
  } runs[] = {{o->suite != NULL, read_and_run_suite},
              {o->replay != NULL, run_replay},
              {o->ops != NULL, run_ops},
              {o->train[0] > 0, run_train},
              {o->latency > 0, run_latency}};
  run_function *run = NULL;
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    if (!runs[i].given) continue;
    if (run) return NULL;
    run = runs[i].run;
  }
  return run;
}

/* An option that was given and says something of a suite's layers only; NULL: none. */
static const char *suite_option_of(const struct settings *o) {
  const struct {
    bool given;
    const char *name;
  } options_of_suites[] = {{o->type != NULL, "dtype"},   {o->tier != 0, "tier"},
                           {o->rows != NULL, "rows"},    {o->vary != 0, "vary"},
                           {o->way != 0, "way"},         {o->products != 0, "product"},
                           {o->density >= 0, "density"}, {o->pattern != 0, "pattern"},
                           {o->weights != 0, "weights"}, {o->residencies != 0, "residency"}};
  for (size_t i = 0; i < sizeof options_of_suites / sizeof *options_of_suites; i++)
    if (options_of_suites[i].given) return options_of_suites[i].name;
  return NULL;
}

int tool_bench(int argc, char **argv) {
  struct settings o = {.seed = 1, .density = -1};
  int status = tool_parse(&usage, argc, argv, &o);
  if (status >= 0) return status;
  run_function *run = run_of(&o);
  if (!run)
    return tool_misused(COMMAND, "give one of --suite FILE, --replay LINE, --ops LIST, --train N, "
                                 "--latency N");
  const char *alone = o.suite ? NULL : suite_option_of(&o);
  if (alone) return tool_misused(COMMAND, "--%s is for --suite: the others have their own", alone);
  if (o.tsv && o.json) return tool_misused(COMMAND, "give either --tsv or --json");
  struct bench_session session = {.plan = BENCH_PLAN_DEFAULT,
                                  .timed_plan = BENCH_PLAN_TIMED,
                                  .type = o.type ? o.type : &bench_types[0],
                                  .seed = o.seed,
                                  .weights = o.weights,
                                  .residencies = o.residencies,
                                  .way = (enum bench_way)o.way,
                                  .bound_file = o.bound};
  if (o.rounds) session.plan.rounds = session.timed_plan.rounds = o.rounds;
  if (o.seconds > 0) session.plan.round_seconds = session.timed_plan.round_seconds = o.seconds;
  status = run(&session, &o);
  bench_session_close(&session);
  return status;
}
