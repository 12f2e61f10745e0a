/* layerops bench: measures the rows of a suite. */
#include <config.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/session.h"
#include "tools/command.h"

static const char help[] =
    "usage: layerops bench --suite FILE [OPTION]...\n"
    "       layerops bench --replay LINE [OPTION]...\n"
    "\n"
    "Measures each layer of a suite (tab-separated: id tier m n k act source, or of a block-sparse\n"
    "one: id tier m n k block density pattern source), on data from a seed, and checks the results\n"
    "against float64.\n"
    "\n"
    "  --suite FILE     the layers\n"
    "  --device D       \"cpu\", \"cuda:0\", ...; may be repeated; without it the best device\n"
    "  --tier S|L       rows of this tier only; without it S on a CPU, all on a GPU\n"
    "  --rows ID,ID     these rows only, of whatever tier\n"
    "  --dtype T        f32 (as without it), f16 or bf16\n"
    "  --threads N      on the CPU at most so many; without it all cores\n"
    "  --peers          measure also the peer libraries found, in turns with this one\n"
    "  --replay LINE    repeat the call that a line of LAYEROPS_VERBOSE=1 tells of (\"-\": the line\n"
    "                   is read from standard input)\n"
    "  --tsv, --json    tab-separated columns with a header; a run file. Without either a table\n"
    "  --bound FILE     the device file for sol_pct; without it one that describes the device\n"
    "  --rounds N       turns of each contender, 5\n"
    "  --seconds S      at least so long a turn, 0.03\n"
    "  --seed N         of the data, 1\n"
    "  --help           this\n"
    "\n"
    "Columns: median_s, seconds a call, the median of all samples; gflops, useful operations (kept\n"
    "blocks only); max_rel_err, the largest |y - exact| / (sum of |x||w| + |bias|) over 1024\n"
    "entries; sol_pct, the share of max(flops/peak, bytes/bandwidth) in the median; ratio, a peer's\n"
    "time over ours, the median of the rounds: above 1, ours is faster. What is not known is nan.\n"
    "Exit status: 0, 1 if a result was wrong or a call failed, 2 if an option or file was.\n";

enum {
  OPT_SUITE = 256,
  OPT_DEVICE,
  OPT_TIER,
  OPT_ROWS,
  OPT_DTYPE,
  OPT_THREADS,
  OPT_PEERS,
  OPT_REPLAY,
  OPT_TSV,
  OPT_JSON,
  OPT_BOUND,
  OPT_ROUNDS,
  OPT_SECONDS,
  OPT_SEED,
  OPT_HELP
};

static const struct option long_options[] = {
    {"suite", required_argument, NULL, OPT_SUITE},
    {"device", required_argument, NULL, OPT_DEVICE},
    {"tier", required_argument, NULL, OPT_TIER},
    {"rows", required_argument, NULL, OPT_ROWS},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"peers", no_argument, NULL, OPT_PEERS},
    {"replay", required_argument, NULL, OPT_REPLAY},
    {"tsv", no_argument, NULL, OPT_TSV},
    {"json", no_argument, NULL, OPT_JSON},
    {"bound", required_argument, NULL, OPT_BOUND},
    {"rounds", required_argument, NULL, OPT_ROUNDS},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"seed", required_argument, NULL, OPT_SEED},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

struct options {
  const char *suite, *rows, *replay, *bound;
  const char *devices[BENCH_MAX_DEVICES];
  int device_count;
  char tier; /* 0: as the device suits */
  const struct bench_type *type;
  int threads;
  bool peers, help;
  enum bench_format format;
  struct bench_plan plan;
  uint64_t seed;
};

static bool refuse(const char *option, const char *value, const char *wanted) {
  fprintf(stderr, "layerops bench: %s: '%s' is not %s\n", option, value, wanted);
  return false;
}

static bool read_whole(const char *option, const char *text, long long least, long long most,
                       long long *value) {
  char *end, wanted[80];
  errno = 0;
  *value = strtoll(text, &end, 10);
  if (end != text && !*end && !errno && *value >= least && *value <= most) return true;
  snprintf(wanted, sizeof wanted, "a whole number from %lld to %lld", least, most);
  return refuse(option, text, wanted);
}

static bool read_seconds(const char *text, double *value) {
  char *end;
  *value = strtod(text, &end);
  if (end != text && !*end && *value >= 0 && *value <= 3600) return true;
  return refuse("--seconds", text, "a number from 0 to 3600");
}

static bool read_tier(const char *text, char *tier) {
  *tier = text[0];
  return !strcmp(text, "S") || !strcmp(text, "L") || refuse("--tier", text, "S or L");
}

static bool add_device(struct options *o, const char *device) {
  if (o->device_count < BENCH_MAX_DEVICES) {
    o->devices[o->device_count++] = device;
    return true;
  }
  fprintf(stderr, "layerops bench: --device: more than %d times\n", BENCH_MAX_DEVICES);
  return false;
}

static bool take_number(struct options *o, int option, const char *text) {
  long long number = 0;
  bool good = option == OPT_THREADS  ? read_whole("--threads", text, 1, 65536, &number)
              : option == OPT_ROUNDS ? read_whole("--rounds", text, 1, 1000, &number)
                                     : read_whole("--seed", text, 0, INT64_MAX, &number);
  if (option == OPT_THREADS) o->threads = (int)number;
  if (option == OPT_ROUNDS) o->plan.rounds = (int)number;
  if (option == OPT_SEED) o->seed = (uint64_t)number;
  return good;
}

static bool take_option(struct options *o, int option, const char *value) {
  switch (option) {
  case OPT_SUITE: o->suite = value; return true;
  case OPT_DEVICE: return add_device(o, value);
  case OPT_TIER: return read_tier(value, &o->tier);
  case OPT_ROWS: o->rows = value; return true;
  case OPT_DTYPE:
    o->type = bench_type_find(value);
    return o->type || refuse("--dtype", value, "f32, f16 or bf16");
  case OPT_PEERS: o->peers = true; return true;
  case OPT_REPLAY: o->replay = value; return true;
  case OPT_TSV: o->format = BENCH_TSV; return true;
  case OPT_JSON: o->format = BENCH_JSON; return true;
  case OPT_BOUND: o->bound = value; return true;
  case OPT_SECONDS: return read_seconds(value, &o->plan.round_seconds);
  case OPT_HELP: o->help = true; return true;
  case OPT_THREADS:
  case OPT_ROUNDS:
  case OPT_SEED: return take_number(o, option, value);
  }
  fputs("`layerops bench --help` tells the options\n", stderr);
  return false;
}

static bool read_options(int argc, char **argv, struct options *o) {
  static char name[] = "layerops bench"; /* stands before getopt's own messages */
  *o = (struct options){.type = &bench_types[0], .plan = BENCH_PLAN_DEFAULT, .seed = 1};
  argv[0] = name;
  for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) >= 0;)
    if (!take_option(o, option, optarg)) return false;
  if (optind < argc) {
    fprintf(stderr, "layerops bench: '%s' is not an option\n", argv[optind]);
    return false;
  }
  if (o->help || !!o->suite != !!o->replay) return true;
  fputs("layerops bench: give either --suite FILE or --replay LINE; --help tells more\n", stderr);
  return false;
}

/* Whether the list "a,b" has the word. */
static bool list_has(const char *list, const char *word) {
  size_t length = strlen(word);
  for (const char *at = list; at; at = strchr(at, ',')) {
    at += *at == ',';
    if (!strncmp(at, word, length) && (at[length] == ',' || !at[length])) return true;
  }
  return false;
}

static bool check_rows(const struct options *o, const struct bench_suite *suite) {
  char *list = o->rows ? strdup(o->rows) : NULL, *rest = NULL;
  bool good = !o->rows || list;
  for (char *id = list ? strtok_r(list, ",", &rest) : NULL; id; id = strtok_r(NULL, ",", &rest)) {
    size_t i = 0;
    while (i < suite->count && strcmp(suite->rows[i].id, id)) i++;
    if (i < suite->count) continue;
    fprintf(stderr, "layerops bench: --rows: %s has no row '%s'\n", o->suite, id);
    good = false;
  }
  free(list);
  return good;
}

static bool wanted(const struct options *o, const struct bench_row *row,
                   const struct bench_target *target) {
  if (o->rows && !list_has(o->rows, row->id)) return false;
  if (o->tier) return row->tier == o->tier;
  return o->rows || row->tier == 'S' || target->info.is_gpu;
}

static void progress(const char *what, const char *device, size_t done, size_t all) {
  if (isatty(STDERR_FILENO))
    fprintf(stderr, "\r\033[K%s%s%s [%zu/%zu]%s", what, *what ? " on " : "done", device, done, all,
            done == all ? "\r\033[K" : "");
}

static bool measure_row(struct bench_session *s, const struct options *o,
                        const struct bench_row *row, size_t done, size_t all) {
  struct bench_operands operands = {0};
  bool good = true;
  for (int t = 0; good && t < s->target_count; t++) {
    if (!wanted(o, row, &s->targets[t])) continue;
    progress(row->id, s->targets[t].info.name, done, all);
    if (!operands.row && !bench_operands_make(row, s->type, s->seed, &operands)) {
      fprintf(stderr, "layerops bench: %s: no memory for its data\n", row->id);
      return false;
    }
    good = bench_session_row(s, &operands, t);
  }
  bench_operands_free(&operands);
  return good;
}

static bool measure_suite(struct bench_session *s, const struct options *o,
                          const struct bench_suite *suite) {
  bool good = true;
  for (size_t i = 0; good && i < suite->count; i++)
    good = measure_row(s, o, &suite->rows[i], i, suite->count);
  progress("", "", suite->count, suite->count);
  return good;
}

static bool open_devices(struct bench_session *s, const struct options *o, const char *fallback) {
  if (!o->device_count) return bench_session_open(s, fallback, o->threads);
  for (int i = 0; i < o->device_count; i++)
    if (!bench_session_open(s, o->devices[i], o->threads)) return false;
  return true;
}

static int run_suite(struct bench_session *s, const struct options *o) {
  struct bench_suite suite;
  char why[512];
  if (!bench_suite_read(o->suite, &suite, why, sizeof why)) {
    fprintf(stderr, "layerops bench: --suite: %s\n", why);
    return TOOL_USAGE;
  }
  int status = TOOL_USAGE;
  if (check_rows(o, &suite) && open_devices(s, o, NULL)) {
    bool good = bench_report_begin(&s->report, o->format, o->peers, stdout) &&
                (!o->peers || bench_session_load_peers(s)) && measure_suite(s, o, &suite) &&
                bench_session_end(s);
    status = good && !s->faults ? TOOL_OK : TOOL_FAILED;
    if (!good && ferror(stdout)) fprintf(stderr, "layerops bench: %s\n", strerror(errno));
  }
  bench_suite_free(&suite);
  return status;
}

static int run_replay(struct bench_session *s, const struct options *o) {
  struct bench_line line;
  char why[512], text[1024];
  bool from_input = !strcmp(o->replay, "-");
  if (from_input && !fgets(text, sizeof text, stdin)) *text = 0;
  if (!bench_line_read(from_input ? text : o->replay, &line, why, sizeof why)) {
    fprintf(stderr, "layerops bench: --replay: %s\n", why);
    return TOOL_USAGE;
  }
  if (!open_devices(s, o, line.device)) return TOOL_USAGE;
  bool good = bench_report_begin(&s->report, o->format, false, stdout);
  for (int t = 0; good && t < s->target_count; t++) good = bench_session_replay(s, &line, t);
  good = good && bench_session_end(s);
  return good && !s->faults ? TOOL_OK : TOOL_FAILED;
}

int tool_bench(int argc, char **argv) {
  struct options o;
  if (!read_options(argc, argv, &o)) return TOOL_USAGE;
  if (o.help) return fputs(help, stdout) < 0 ? TOOL_FAILED : TOOL_OK;
  struct bench_session session = {
      .plan = o.plan, .type = o.type, .seed = o.seed, .bound_file = o.bound};
  int status = o.suite ? run_suite(&session, &o) : run_replay(&session, &o);
  bench_session_close(&session);
  return status;
}
