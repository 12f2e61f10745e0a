/* layerops train: from the command line to a network and samples on a device. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/train.h"

const char *const optimizer_names[OPTIMIZERS] = {[LAYEROPS_OPTIMIZER_SGD] = "sgd",
                                                 [LAYEROPS_OPTIMIZER_ADAM] = "adam",
                                                 [LAYEROPS_OPTIMIZER_ADAMW] = "adamw"};
const char *const loss_names[2] = {
    [LAYEROPS_LOSS_CROSS_ENTROPY] = "cross-entropy", [LAYEROPS_LOSS_MSE] = "mse"};

/* ---- Options ---- */

static bool parse_name(const char *text, const char *const *names, int count, void *field) {
  for (int i = 0; i < count; i++)
    if (!strcmp(text, names[i])) {
      *(int32_t *)field = i;
      return true;
    }
  return false;
}

static bool parse_loss(const char *text, void *field) {
  return parse_name(text, loss_names, 2, field);
}

static bool parse_optimizer(const char *text, void *field) {
  return parse_name(text, optimizer_names, OPTIMIZERS, field);
}

static bool parse_activation(const char *text, void *field) {
  *(int32_t *)field = layerops_activation_from_name(text);
  return *(int32_t *)field >= 0;
}

static bool parse_label_column(const char *text, void *field) {
  static const char *const names[] = {[DATASET_LABEL_AUTO] = "auto",
                                      [DATASET_LABEL_FIRST] = "first",
                                      [DATASET_LABEL_LAST] = "last"};
  return parse_name(text, names, 3, field);
}

static bool parse_given_seed(const char *text, void *field) {
  struct seed *seed = field;
  seed->given = true;
  return parse_seed(text, &seed->value);
}

static bool parse_layers(const char *text, void *field) {
  struct widths *widths = field;
  widths->count = 0;
  for (;; text++) {
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9' || widths->count == MAX_WIDTHS) return false;
    long long value = strtoll(text, &end, 10);
    if (errno || value < 1) return false;
    widths->value[widths->count++] = value;
    text = end;
    if (!*text) return widths->count > 1;
    if (*text != ',') return false;
  }
}

#define OPTION(name, argument, want, help, parse, field)                                           \
  { name, argument, want, help, parse, offsetof(struct train_settings, field) }
static const struct tool_option options[] = {
    OPTION("data", "DIR|FILE", "a path",
           "data set: a directory in Fashion-MNIST's layout, or with\n"
           "train.csv/test.csv or train_x.npy, ...; or one IDX, CSV or\n"
           ".npy file; each also .gz. Default: $LAYEROPS_DATA, else\n"
           "Fashion-MNIST where it is installed, else the bundled subset",
           parse_text, data),
    OPTION("label-column", "WHICH", "auto, first or last",
           "where a CSV file has its labels: auto (default), first, last", parse_label_column,
           label_column),
    OPTION("layers", "N,N,...", "2 to 1001 positive numbers with commas between them",
           "widths: features, hidden layers, classes (default: one\n"
           "hidden layer of 128)",
           parse_layers, layers),
    OPTION("activation", "NAME", "none, relu, leaky_relu, gelu, gelu_tanh, silu, sigmoid or tanh",
           "relu (default), none, leaky_relu, gelu, gelu_tanh, silu,\n"
           "sigmoid, tanh",
           parse_activation, activation),
    OPTION("loss", "NAME", "cross-entropy or mse",
           "cross-entropy (default), or mse: 1 at the label, else 0", parse_loss, loss),
    OPTION("optimizer", "NAME", "sgd, adam or adamw", "sgd (default), adam, adamw", parse_optimizer,
           optimizer),
    OPTION("batch", "N", "a whole number from 1", "samples a step (default 64)", parse_count,
           batch),
    OPTION("epochs", "N", "a whole number from 1",
           "train until the network has seen the data N times\n"
           "(default 10), epochs before --load included",
           parse_count, epochs),
    OPTION("lr", "X", "a number above 0", "learning rate (default: sgd 0.1, adam and adamw 0.001)",
           parse_positive, lr),
    OPTION("momentum", "X", "a number from 0 to below 1", "of sgd (default 0)", parse_share,
           momentum),
    OPTION("weight-decay", "X", "a number from 0", "(default 0)", parse_decay, weight_decay),
    OPTION("seed", "N", "a whole number from 0 to 2^64-1",
           "initial weights and order of samples (default 1)", parse_given_seed, seed),
    OPTION("device", "D", "a device",
           "as 'layerops devices' lists them (default: $LAYEROPS_DEVICE,\n"
           "else a GPU where there is one, else cpu)",
           parse_text, device),
    OPTION("threads", "N", "a whole number from 1 to 4096", "of the CPU (default: its cores)",
           parse_threads, threads),
    OPTION("load", "FILE", "a path", "go on with a saved network", parse_text, load),
    OPTION("sparse", NULL, NULL,
           "with --load: a network that 'layerops prune' made block-\n"
           "sparse, whose kept blocks are trained; others are refused",
           parse_switch, sparse),
    OPTION("save", "FILE", "a path", "save the network (.safetensors) after each epoch", parse_text,
           save),
    OPTION("log", "FILE", "a path", "append a JSON object a line for each epoch, and a summary",
           parse_text, log),
};

static const struct tool_usage usage = {
    .command = TRAIN,
    .synopsis = "[OPTION]...",
    .text = "Trains a network of linear layers on a data set. Prints a line for each epoch, and a\n"
            "summary last.",
    .after = "Ctrl-C finishes the batch, saves (--save) and exits with status 130; --load goes on\n"
             "from there. A second one ends at once.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

/* ---- Setting up ---- */

static int load_data(struct training *t) {
  const struct train_settings *s = t->settings;
  const char *path = s->data ? s->data : dataset_default_path();
  struct dataset_options how = {.use = DATASET_TRAIN,
                                .label_column = (enum dataset_label_column)s->label_column};
  if (!path) return tool_misused(TRAIN, "--data is missing, and no data set is installed");
  if (dataset_load(&t->data, path, &how)) return tool_fail(TRAIN, "%s", t->data.error);
  return -1;
}

static void layers_text(char text[TEXT_LAYERS], const int64_t *widths, int64_t count) {
  size_t used = 0;
  for (int64_t i = 0; i < count; i++) {
    int n = snprintf(text + used, TEXT_LAYERS - used, "%s%lld", i ? "," : "", (long long)widths[i]);
    if (used + (size_t)n >= TEXT_LAYERS - 4) {
      memcpy(text + TEXT_LAYERS - 4, "...", 4);
      return;
    }
    used += (size_t)n;
  }
}

/* The layers fit the data. `from` is what named them. */
static int check_layers(const struct training *t, const int64_t *widths, int64_t count,
                        const char *from) {
  const struct dataset *d = &t->data;
  if (widths[0] != d->features)
    return tool_fail(TRAIN, "%s begins with %lld inputs, but the samples of %s have %lld features",
                     from, (long long)widths[0], d->name, (long long)d->features);
  if (widths[count - 1] != d->classes)
    return tool_fail(TRAIN, "%s ends with %lld outputs, but %s has %d classes", from,
                     (long long)widths[count - 1], d->name, d->classes);
  return -1;
}

static int open_device(struct training *t) {
  layerops_open_args args = {.device = t->settings->device, .threads = t->settings->threads};
  if (layerops_open_with(&args, &t->ctx) || layerops_context_info(t->ctx, &t->device))
    return tool_library_failed(TRAIN);
  return -1;
}

static int create_network(struct training *t) {
  const struct train_settings *s = t->settings;
  struct widths standard = {3, {t->data.features, 128, t->data.classes}};
  const struct widths *layers = s->layers.count ? &s->layers : &standard;
  int status = check_layers(t, layers->value, layers->count, "--layers");
  if (status >= 0) return status;
  layerops_network_args args = {
      .widths = layers->value,
      .count = layers->count,
      .activation = s->activation < 0 ? LAYEROPS_RELU : s->activation,
      .loss = s->loss < 0 ? LAYEROPS_LOSS_CROSS_ENTROPY : s->loss,
      .seed = s->seed.given ? s->seed.value : 1,
  };
  return layerops_network_create(t->ctx, &args, &t->network) ? tool_library_failed(TRAIN) : -1;
}

/* What the command line says again must agree with the file. */
static int check_loaded(const struct training *t, const layerops_network_info *info) {
  const struct train_settings *s = t->settings;
  char given[TEXT_LAYERS], own[TEXT_LAYERS];
  if (s->layers.count && (s->layers.count != info->count ||
                          memcmp(s->layers.value, info->widths, (size_t)info->count * 8))) {
    layers_text(given, s->layers.value, s->layers.count);
    layers_text(own, info->widths, info->count);
    return tool_fail(TRAIN, "--layers is %s, but %s has %s", given, s->load, own);
  }
  if (s->activation >= 0 && s->activation != info->activation)
    return tool_fail(TRAIN, "--activation is %s, but %s has %s",
                     layerops_activation_name(s->activation), s->load,
                     layerops_activation_name(info->activation));
  if (s->loss >= 0 && s->loss != info->loss)
    return tool_fail(TRAIN, "--loss is %s, but %s has %s", loss_names[s->loss], s->load,
                     loss_names[info->loss]);
  if (s->seed.given && s->seed.value != info->seed)
    return tool_fail(TRAIN, "--seed is %llu, but %s has %llu", (unsigned long long)s->seed.value,
                     s->load, (unsigned long long)info->seed);
  if (s->sparse && !t->weights.sparse_layers)
    return tool_fail(
        TRAIN, "--sparse is given, but %s is dense: 'layerops prune' makes sparse ones", s->load);
  return check_layers(t, info->widths, info->count, s->load);
}

static int make_network(struct training *t) {
  const struct train_settings *s = t->settings;
  int status = -1;
  if (s->load) {
    if (layerops_network_load(t->ctx, s->load, &t->network)) return tool_library_failed(TRAIN);
  } else {
    status = create_network(t);
  }
  if (status >= 0) return status;
  if (layerops_network_get_info(t->network, &t->info) || weights_count(t->network, &t->weights))
    return tool_library_failed(TRAIN);
  layers_text(t->layers, t->info.widths, t->info.count);
  return s->load ? check_loaded(t, &t->info) : -1;
}

static int upload(struct training *t) {
  bool one_hot = t->info.loss == LAYEROPS_LOSS_MSE;
  int64_t features = t->data.features, classes = t->data.classes;
  if (samples_upload(t->ctx, &t->data.train, features, classes, one_hot, &t->train) ||
      samples_upload(t->ctx, &t->data.test, features, classes, one_hot, &t->test))
    return tool_library_failed(TRAIN);
  return -1;
}

/* A mistyped --save should show now, not when the first epoch is over. */
static int check_save(struct training *t) {
  const char *path = t->settings->save;
  struct stat st;
  if (!path) return -1;
  if (!stat(path, &st) && !S_ISREG(st.st_mode))
    return tool_fail(TRAIN, "--save %s: is there and is not a regular file", path);
  char *folder = strdup(path);
  if (!folder) return tool_fail(TRAIN, "out of memory");
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = 0;
  int refused = access(slash ? folder : ".", W_OK | X_OK), error = errno;
  free(folder);
  return refused ? tool_fail(TRAIN, "--save %s: cannot be written: %s", path, strerror(error)) : -1;
}

static int open_log(struct training *t) {
  const char *path = t->settings->log;
  if (!path || log_open(&t->log, path)) return -1;
  return tool_fail(TRAIN, "--log %s: cannot be opened: %s", path, strerror(errno));
}

static int run(struct training *t) {
  int (*const steps[])(struct training *) = {load_data, open_device, make_network, check_save,
                                             open_log,  upload,      train_loop};
  for (size_t i = 0;; i++) {
    int status = steps[i](t);
    if (status >= 0) return status;
  }
}

static int check_settings(struct train_settings *s) {
  bool sgd = s->optimizer == LAYEROPS_OPTIMIZER_SGD;
  if (!sgd && s->momentum > 0)
    return tool_misused(TRAIN, "--momentum is for --optimizer sgd, not %s",
                        optimizer_names[s->optimizer]);
  if (s->sparse && !s->load)
    return tool_misused(TRAIN, "--sparse goes with --load: it trains what 'layerops prune' kept");
  if (s->lr == 0) s->lr = sgd ? 0.1 : 0.001;
  return -1;
}

int tool_train(int argc, char **argv) {
  struct train_settings settings = {.activation = -1, .loss = -1, .batch = 64, .epochs = 10};
  struct training t = {.settings = &settings, .log = {.fd = -1}};
  int status = tool_parse(&usage, argc, argv, &settings);
  if (status < 0) status = check_settings(&settings);
  if (status >= 0) return status;
  status = run(&t);
  samples_free(&t.train);
  samples_free(&t.test);
  layerops_network_destroy(t.network);
  layerops_close(t.ctx);
  dataset_free(&t.data);
  if (!log_close(&t.log) && status == TOOL_OK)
    status = tool_fail(TRAIN, "--log %s: %s", settings.log, strerror(errno));
  return status;
}
