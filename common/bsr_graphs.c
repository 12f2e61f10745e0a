/* Patterns that are random graphs: their nodes' links, stretched over the grid of blocks. */
#include <config.h>

#include <stdlib.h>

#include "common/bsr_pattern.h"

typedef struct graph {
  int64_t nodes;
  uint8_t *linked; /* nodes x nodes, symmetric; a node is linked to itself */
} graph;

static layerops_status graph_new(const layerops_bsr_pattern_args *a, graph *g) {
  g->nodes = a->block_rows < a->block_cols ? a->block_rows : a->block_cols;
  g->linked = lo_bsr_memory(g->nodes * g->nodes, sizeof *g->linked);
  if (!g->linked) return lo_bsr_no_memory("bsr_pattern");
  for (int64_t v = 0; v < g->nodes; v++) g->linked[v * g->nodes + v] = 1;
  return LAYEROPS_OK;
}

static void set_link(graph *g, int64_t u, int64_t v, uint8_t linked) {
  g->linked[u * g->nodes + v] = g->linked[v * g->nodes + u] = linked;
}

static void stretch(const graph *g, const layerops_bsr_pattern_args *a) {
  for (int64_t r = 0; r < a->block_rows; r++) {
    const uint8_t *row = g->linked + r * g->nodes / a->block_rows * g->nodes;
    for (int64_t c = 0; c < a->block_cols; c++)
      a->mask[r * a->block_cols + c] = row[c * g->nodes / a->block_cols];
  }
}

/* ---- Barabasi and Albert ----
 * `ends` has both ends of each link, so that a node is drawn in proportion to its links. */

static void attach(graph *g, int64_t v, int64_t links, const int32_t *ends, int64_t count,
                   lo_draws *draws) {
  for (int64_t i = 0; i < links;) {
    const int64_t u = v <= links ? i : ends[lo_draw_below(draws, count)];
    if (g->linked[v * g->nodes + u]) continue; /* drawn before */
    set_link(g, v, u, 1);
    i++;
  }
}

static int64_t add_ends(const graph *g, int64_t v, int32_t *ends, int64_t count) {
  for (int64_t u = 0; u < v; u++)
    if (g->linked[v * g->nodes + u]) {
      ends[count++] = (int32_t)v;
      ends[count++] = (int32_t)u;
    }
  return count;
}

layerops_status lo_bsr_barabasi_albert(const layerops_bsr_pattern_args *a) {
  graph g;
  LO_TRY(graph_new(a, &g));
  const int64_t links = a->links < g.nodes ? a->links : g.nodes;
  int32_t *ends = lo_bsr_memory(2 * g.nodes * links, sizeof *ends);
  lo_draws draws = lo_draws_of(a);
  for (int64_t v = 1, count = 0; ends && v < g.nodes; v++) {
    attach(&g, v, v < links ? v : links, ends, count, &draws);
    count = add_ends(&g, v, ends, count);
  }
  const layerops_status status = ends ? LAYEROPS_OK : lo_bsr_no_memory("bsr_pattern");
  if (ends) stretch(&g, a);
  free(ends);
  free(g.linked);
  return status;
}

/* ---- Watts and Strogatz ---- */

static int64_t free_nodes(const graph *g, int64_t u) {
  int64_t count = 0;
  for (int64_t v = 0; v < g->nodes; v++) count += !g->linked[u * g->nodes + v];
  return count;
}

/* The free node of u that `skip` others precede. */
static int64_t free_node(const graph *g, int64_t u, int64_t skip) {
  int64_t v = 0;
  while (g->linked[u * g->nodes + v] || skip-- > 0) v++;
  return v;
}

static void rewire(graph *g, int64_t u, int64_t v, lo_draws *draws) {
  const int64_t others = free_nodes(g, u);
  if (!others) return;
  const int64_t to = free_node(g, u, lo_draw_below(draws, others));
  set_link(g, u, v, 0);
  set_link(g, u, to, 1);
}

layerops_status lo_bsr_watts_strogatz(const layerops_bsr_pattern_args *a) {
  graph g;
  LO_TRY(graph_new(a, &g));
  const int64_t n = g.nodes, window = a->window < n / 2 ? a->window : n / 2;
  lo_draws draws = lo_draws_of(a);
  for (int64_t j = 1; j <= window; j++)
    for (int64_t u = 0; u < n; u++) set_link(&g, u, (u + j) % n, 1);
  for (int64_t j = 1; j <= window; j++)
    for (int64_t u = 0; u < n; u++) {
      const int64_t v = (u + j) % n;
      if (g.linked[u * n + v] && lo_draw(&draws, a->rewire)) rewire(&g, u, v, &draws);
    }
  stretch(&g, a);
  free(g.linked);
  return LAYEROPS_OK;
}
