/* layerops prune */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tool.h"
#include "tools/weights.h"

#define COMMAND "prune"
#define SUFFIX  ".safetensors"

struct settings {
  const char *model, *save;
  struct sides {
    int64_t height, width;
  } block;
  int32_t score;
  /* What is kept; exactly one is given. */
  struct share {
    bool given;
    double value;
  } density, threshold;
  struct ratio {
    int64_t n, m; /* m 0: not given */
  } keep;
  bool rows, last;
};

/* ---- Options ---- */

static bool parse_two(const char *text, char between, int64_t *first, int64_t *second) {
  char copy[64];
  const char *at = strchr(text, between);
  if (!at || (size_t)(at - text) >= sizeof copy) return false;
  memcpy(copy, text, (size_t)(at - text));
  copy[at - text] = 0;
  return parse_count(copy, first) && parse_count(at + 1, second);
}

static bool is_side(int64_t side) {
  return side >= 4 && side <= 128 && !(side & (side - 1));
}

static bool parse_block(const char *text, void *field) {
  struct sides *block = field;
  if (parse_count(text, &block->height))
    block->width = block->height;
  else if (!parse_two(text, 'x', &block->height, &block->width))
    return false;
  return is_side(block->height) && is_side(block->width);
}

static bool parse_keep(const char *text, void *field) {
  struct ratio *keep = field;
  return parse_two(text, ':', &keep->n, &keep->m) && keep->n <= keep->m;
}

static bool parse_threshold(const char *text, void *field) {
  struct share *share = field;
  share->given = true;
  return parse_decay(text, &share->value);
}

static bool parse_density(const char *text, void *field) {
  return parse_threshold(text, field) && ((struct share *)field)->value <= 1;
}

static bool parse_score(const char *text, void *field) {
  static const char *const names[] = {
      [LAYEROPS_BSR_L1] = "l1", [LAYEROPS_BSR_L2] = "l2", [LAYEROPS_BSR_MAX] = "max"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(text, names[i])) {
      *(int32_t *)field = i;
      return true;
    }
  return false;
}

#define OPTION(name, argument, want, help, parse, field)                                           \
  { name, argument, want, help, parse, offsetof(struct settings, field) }
static const struct tool_option options[] = {
    OPTION("model", "FILE", "a path", "the network, as 'layerops train --save' wrote it (needed)",
           parse_text, model),
    OPTION("block", "N|HxW", "4, 8, 16, 32, 64 or 128, or two of them as in 16x32",
           "blocks of N x N, or of H outputs by W inputs: 4, 8, 16, 32,\n"
           "64, 128 each (needed)",
           parse_block, block),
    OPTION("density", "D", "a number from 0 to 1",
           "keep this share of each layer's blocks (this, --keep or\n"
           "--threshold is needed)",
           parse_density, density),
    OPTION("rows", NULL, NULL, "with --density: of each row of blocks", parse_switch, rows),
    OPTION("keep", "N:M", "two whole numbers from 1, N at most M",
           "keep N of each M neighbouring blocks in a row of them", parse_keep, keep),
    OPTION("threshold", "T", "a number from 0 up", "keep the blocks whose score is at least T",
           parse_threshold, threshold),
    OPTION("score", "NAME", "l1, l2 or max",
           "a block's score: the sum of its magnitudes (l1, default),\n"
           "the root of the sum of squares, the largest magnitude",
           parse_score, score),
    OPTION("last", NULL, NULL, "the last layer too, which else stays dense", parse_switch, last),
    OPTION("save", "FILE", "a path",
           "where the sparse network goes (default: NAME.sparse" SUFFIX "\n"
           "for NAME" SUFFIX ")",
           parse_text, save),
};
static const struct tool_usage usage = {
    .command = COMMAND,
    .synopsis = "--model FILE --block N|HxW --density D [OPTION]...",
    .text =
        "Makes the layers of a network block-sparse: blocks of small weights are left out, in one\n"
        "go. Prints what is kept.",
    .after = "'layerops train --sparse --load FILE' then trains the kept blocks.",
    .options = options,
    .count = sizeof options / sizeof *options,
};

static int check_settings(const struct settings *s) {
  if (!s->model || !s->block.height)
    return tool_misused(COMMAND, "--%s is missing", s->model ? "block" : "model");
  const int rules = s->density.given + s->threshold.given + (s->keep.m > 0);
  if (rules != 1)
    return tool_misused(COMMAND, rules ? "--density, --keep and --threshold exclude each other"
                                       : "--density, --keep or --threshold is missing");
  if (s->rows && !s->density.given) return tool_misused(COMMAND, "--rows goes with --density");
  return -1;
}

/* ---- The work ---- */

/* NAME.sparse.safetensors for NAME.safetensors; the caller frees it. */
static char *default_save(const char *model) {
  const size_t length = strlen(model), suffix = strlen(SUFFIX);
  const bool has = length > suffix && !strcmp(model + length - suffix, SUFFIX);
  char *path = malloc(length + sizeof ".sparse" SUFFIX);
  if (path) sprintf(path, "%.*s.sparse%s", (int)(has ? length - suffix : length), model, SUFFIX);
  return path;
}

static layerops_network_prune_args arguments(const struct settings *s, int64_t layers) {
  return (layerops_network_prune_args){
      .count = s->last ? layers : 0,
      .block = s->block.height,
      .width = s->block.width,
      .score = s->score,
      .rule = s->keep.m            ? LAYEROPS_BSR_N_OF_M
              : s->threshold.given ? LAYEROPS_BSR_THRESHOLD
              : s->rows            ? LAYEROPS_BSR_ROW_DENSITY
                                   : LAYEROPS_BSR_DENSITY,
      .density = s->density.value,
      .threshold = s->threshold.value,
      .n = s->keep.n,
      .m = s->keep.m,
  };
}

static void print_layer(int64_t i, const int64_t *widths, const layerops_bsr *sparse) {
  layerops_bsr_info info = {0};
  printf("layers.%lld: %lld x %lld, ", (long long)i, (long long)widths[i + 1],
         (long long)widths[i]);
  if (!sparse || layerops_bsr_describe(sparse, &info)) {
    puts("dense");
    return;
  }
  printf("%lld of %lld blocks of %lld x %lld\n", (long long)info.count,
         (long long)(info.block_rows * info.block_cols), (long long)info.height,
         (long long)info.width);
}

static int report(layerops_network *network, const layerops_network_info *info, const char *save) {
  struct weights weights;
  for (int64_t i = 0; i + 1 < info->count; i++) {
    const layerops_bsr *sparse;
    if (layerops_network_sparse(network, i, &sparse)) return tool_library_failed(COMMAND);
    print_layer(i, info->widths, sparse);
  }
  if (weights_count(network, &weights)) return tool_library_failed(COMMAND);
  printf("saved %s: %lld of %lld weights\n", save, (long long)weights.kept, (long long)weights.all);
  return TOOL_OK;
}

static int prune(const struct settings *s, layerops_network *network, const char *save) {
  layerops_network_info info;
  if (layerops_network_get_info(network, &info)) return tool_library_failed(COMMAND);
  if (info.count == 2 && !s->last)
    return tool_fail(COMMAND, "%s has one layer, the last, which stays dense without --last",
                     s->model);
  const layerops_network_prune_args args = arguments(s, info.count - 1);
  if (layerops_network_prune(network, &args) || layerops_network_save(network, save))
    return tool_library_failed(COMMAND);
  return report(network, &info, save);
}

/* On the CPU, through whose memory weights go on every device, and which has all sides of blocks.
 */
static int run(const struct settings *s, const char *save) {
  layerops_context *ctx = NULL;
  layerops_network *network = NULL;
  int status = layerops_open("cpu", &ctx) || layerops_network_load(ctx, s->model, &network)
                   ? tool_library_failed(COMMAND)
                   : prune(s, network, save);
  layerops_network_destroy(network);
  layerops_close(ctx);
  return status;
}

int tool_prune(int argc, char **argv) {
  struct settings settings = {0};
  int status = tool_parse(&usage, argc, argv, &settings);
  if (status < 0) status = check_settings(&settings);
  if (status >= 0) return status;
  char *derived = settings.save ? NULL : default_save(settings.model);
  const char *save = settings.save ? settings.save : derived;
  status = save ? run(&settings, save) : tool_fail(COMMAND, "out of memory");
  free(derived);
  return status;
}
