/* layerops train: the epochs, what is told of them, and saving. */
#include <config.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/train.h"

struct loop {
  struct training *t;
  struct progress progress;
  char title[64];
  layerops_network_result train, test; /* of the last epoch */
  double seconds;                      /* since the first epoch began */
  int signal;                          /* that ended it; 0 */
};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int32_t on_step(void *user, int64_t step, int64_t steps) {
  struct loop *l = user;
  progress_show(&l->progress, l->title, step, steps);
  return interrupt_came() != 0;
}

static int train_epoch(struct loop *l) {
  struct training *t = l->t;
  const struct train_settings *s = t->settings;
  layerops_network_train_args args = {.x = t->train.x,
                                      .labels = t->train.labels,
                                      .targets = t->train.targets,
                                      .batch = s->batch,
                                      .optimizer = s->optimizer,
                                      .lr = layerops_value(s->lr),
                                      .progress = on_step,
                                      .progress_user = l};
  if (s->momentum > 0) args.momentum = layerops_value(s->momentum);
  if (s->weight_decay > 0) args.weight_decay = layerops_value(s->weight_decay);
  snprintf(l->title, sizeof l->title, "epoch %lld/%lld", (long long)t->info.epochs + 1,
           (long long)s->epochs);
  layerops_status status = layerops_network_train(t->network, &args, &l->train);
  progress_clear(&l->progress);
  return status ? tool_library_failed(TRAIN) : -1;
}

static int evaluate(struct loop *l) {
  struct training *t = l->t;
  layerops_network_evaluate_args args = {
      .x = t->test.x, .labels = t->test.labels, .targets = t->test.targets};
  return layerops_network_evaluate(t->network, &args, &l->test) ? tool_library_failed(TRAIN) : -1;
}

static int save(const struct training *t) {
  if (!t->settings->save) return -1;
  return layerops_network_save(t->network, t->settings->save) ? tool_library_failed(TRAIN) : -1;
}

static double rate(const struct loop *l) {
  return l->train.seconds > 0 ? (double)l->train.samples / l->train.seconds : 0;
}

/* ---- The log ---- */

static json_t *describe_epoch(const struct loop *l, const char *type) {
  const struct training *t = l->t;
  return json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:s, s:s, s:b}", "type", type, "epoch",
                   (json_int_t)t->info.epochs, "loss", log_number(l->train.loss), "train_accuracy",
                   log_number(l->train.accuracy), "test_accuracy", log_number(l->test.accuracy),
                   "samples/s", log_number(rate(l)), "seconds", log_number(l->train.seconds),
                   "steps", (json_int_t)t->info.steps, "device", t->device.name, "data",
                   t->data.name, "subset", (int)t->data.subset);
}

static json_t *describe_run(const struct loop *l) {
  const struct training *t = l->t;
  const struct train_settings *s = t->settings;
  json_t *object = describe_epoch(l, "summary");
  json_t *more = json_pack(
      "{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:I, s:o, s:o, s:s?, s:i, s:I, "
      "s:I}",
      "version", layerops_version_string(), "description", t->device.description, "driver",
      t->device.driver, "isa", t->device.isa, "threads", (int)s->threads, "layers", t->layers,
      "activation", layerops_activation_name(t->info.activation), "loss_function",
      loss_names[t->info.loss], "optimizer", optimizer_names[s->optimizer], "lr", log_number(s->lr),
      "momentum", log_number(s->momentum), "weight_decay", log_number(s->weight_decay), "batch",
      (json_int_t)s->batch, "seed", json_sprintf("%llu", (unsigned long long)t->info.seed),
      "total_seconds", log_number(l->seconds), "saved", s->save, "signal", l->signal, "weights",
      (json_int_t)t->weights.kept, "all_weights", (json_int_t)t->weights.all);
  if (!object || !more || json_object_update(object, more)) {
    json_decref(object);
    object = NULL;
  }
  json_decref(more);
  return object;
}

static int write_log(struct training *t, json_t *object) {
  if (log_write(&t->log, object)) return -1;
  return tool_fail(TRAIN, "--log %s: writing failed: %s", t->settings->log, strerror(errno));
}

/* ---- The terminal ---- */

static void print_start(const struct training *t) {
  const struct dataset *d = &t->data;
  printf("%s%s: %lld training and %lld test samples, %lld features, %d classes\n", d->name,
         samples_subset(d), (long long)d->train.count, (long long)d->test.count,
         (long long)d->features, d->classes);
  if (d->note[0]) printf("%s\n", d->note);
  printf("layers %s, %s, %s, %s, batch %lld, lr %g, seed %llu\n", t->layers,
         layerops_activation_name(t->info.activation), loss_names[t->info.loss],
         optimizer_names[t->settings->optimizer], (long long)t->settings->batch, t->settings->lr,
         (unsigned long long)t->info.seed);
  if (t->weights.sparse_layers)
    printf("block-sparse: %lld of %lld weights\n", (long long)t->weights.kept,
           (long long)t->weights.all);
  printf("device %s%s%s\n", t->device.name, t->device.description[0] ? ": " : "",
         t->device.description);
}

static void print_epoch(const struct loop *l) {
  printf("%s  loss %.5g  train_accuracy %.4f  test_accuracy %.4f  samples/s %.0f\n", l->title,
         l->train.loss, l->train.accuracy, l->test.accuracy, rate(l));
}

static void print_summary(const struct loop *l) {
  const struct training *t = l->t;
  const struct dataset *d = &t->data;
  if (l->signal)
    printf("interrupted after %lld of %lld training samples of epoch %lld\n",
           (long long)t->info.position, (long long)d->train.count, (long long)t->info.epochs + 1);
  printf("%s on %s%s: %lld epoch%s, ", t->device.name, d->name, samples_subset(d),
         (long long)t->info.epochs, t->info.epochs == 1 ? "" : "s");
  if (l->train.samples) printf("loss %.5g, ", l->train.loss);
  printf("test accuracy %.4f, %.*f s, %s%s\n", l->test.accuracy, l->seconds < 1 ? 3 : 1, l->seconds,
         t->settings->save ? "saved " : "not saved", t->settings->save ? t->settings->save : "");
}

/* ---- The loop ---- */

/* After an epoch, whole or not. Saves before anything else can fail. */
static int finish_epoch(struct loop *l) {
  struct training *t = l->t;
  const char *kept = t->settings->save ? "; what was saved before it is kept" : "";
  if (layerops_network_get_info(t->network, &t->info)) return tool_library_failed(TRAIN);
  if (l->train.samples && !isfinite(l->train.loss))
    return tool_fail(TRAIN, "the loss became %s in %s: try a smaller --lr than %g%s",
                     isnan(l->train.loss) ? "NaN" : "infinite", l->title, t->settings->lr, kept);
  int status = save(t);
  if (status < 0) status = evaluate(l);
  if (status < 0 && !l->train.stopped) print_epoch(l);
  if (status < 0 && !l->train.stopped && t->log.fd >= 0)
    status = write_log(t, describe_epoch(l, "epoch"));
  return status;
}

static int run_epochs(struct loop *l) {
  struct training *t = l->t;
  int status = -1;
  double start = now();
  while (status < 0 && t->info.epochs < t->settings->epochs && !interrupt_came()) {
    status = train_epoch(l);
    if (status < 0) status = finish_epoch(l);
    l->seconds = now() - start;
  }
  if (t->info.epochs < t->settings->epochs) l->signal = interrupt_came();
  return status;
}

/* A network that was trained long enough before. */
static int nothing_to_do(struct loop *l) {
  const struct training *t = l->t;
  printf("%s was trained for %lld epoch%s already; --epochs counts them too\n", t->settings->load,
         (long long)t->info.epochs, t->info.epochs == 1 ? "" : "s");
  l->train.loss = l->train.accuracy = NAN;
  int status = evaluate(l);
  return status < 0 ? save(t) : status;
}

int train_loop(struct training *t) {
  struct loop l = {.t = t};
  bool done = t->info.epochs >= t->settings->epochs;
  progress_start(&l.progress);
  interrupt_watch();
  print_start(t);
  int status = done ? nothing_to_do(&l) : run_epochs(&l);
  if (status >= 0) return status;
  print_summary(&l);
  if (t->log.fd >= 0) status = write_log(t, describe_run(&l));
  if (status >= 0) return status;
  return l.signal ? TOOL_SIGNAL + l.signal : TOOL_OK;
}
