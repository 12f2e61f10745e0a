#include <config.h>

#include "backends/cpu/grid.h"

enum { UNIT = 4096 };

static lo_grid finish(int64_t rows, int64_t cols, int64_t wide) {
  lo_grid g = {.rows = rows, .cols = cols, .wide = wide > 0 ? wide : 1};
  g.tall = g.wide < UNIT ? UNIT / g.wide : 1;
  g.across = (cols + g.wide - 1) / g.wide;
  g.units = (rows + g.tall - 1) / g.tall * g.across;
  return g;
}

lo_grid lo_grid_of(const layerops_matrix *const *views, int count) {
  int64_t rows = 0, cols = 0;
  bool gaps = false;
  for (int i = 0; i < count; i++) {
    if (!lo_present(views[i])) continue;
    rows = views[i]->rows;
    cols = views[i]->cols;
    gaps = gaps || (rows > 1 && views[i]->stride != cols);
  }
  if (!gaps) {
    cols *= rows;
    rows = 1;
  }
  return finish(rows, cols, cols < UNIT ? cols : UNIT);
}

lo_grid lo_grid_of_rows(int64_t rows, int64_t cols) {
  lo_grid g = finish(rows, cols, cols);
  g.units = (rows + g.tall - 1) / g.tall; /* rows without columns are rows */
  g.across = 1;
  return g;
}

typedef struct job {
  const lo_grid *grid;
  lo_unit_fn body;
  void *arg;
  int64_t tasks;
} job;

static void run_task(void *arg, int64_t task) {
  const job *w = arg;
  const lo_grid *g = w->grid;
  int64_t begin, end;
  lo_share(g->units, w->tasks, task, &begin, &end);
  for (int64_t u = begin; u < end; u++) {
    lo_unit unit = {.index = u, .i = u / g->across * g->tall, .j = u % g->across * g->wide};
    unit.rows = g->rows - unit.i < g->tall ? g->rows - unit.i : g->tall;
    unit.cols = g->cols - unit.j < g->wide ? g->cols - unit.j : g->wide;
    w->body(w->arg, &unit);
  }
}

void lo_grid_run(layerops_context *ctx, const lo_grid *grid, double ns, lo_unit_fn body,
                 void *arg) {
  if (!grid->units) return;
  job w = {grid, body, arg, lo_parallel_width(ctx, ns * (double)grid->rows * (double)grid->cols)};
  if (w.tasks > grid->units) w.tasks = grid->units;
  lo_parallel(ctx, w.tasks, run_task, &w);
}
