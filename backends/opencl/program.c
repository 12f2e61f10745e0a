/* Programs: source text from inside the library, compiled once for each cl_context. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/opencl.h"

static const char codes[] =
#include "common/kernel/codes.h.inc"
    ;
static const char params[] =
#include "backends/opencl/params.h.inc"
    ;
static const char prelude[] =
#include "backends/opencl/prelude.cl.inc"
    ;
static const char activation[] =
#include "common/kernel/activation.h.inc"
    ;
static const char epilogue[] =
#include "backends/opencl/epilogue.cl.inc"
    ;
static const char loop_cpu[] =
#include "backends/opencl/loop_cpu.cl.inc"
    ;
static const char product_cpu[] =
#include "backends/opencl/product_cpu.cl.inc"
    ;
static const char bsr_cpu[] =
#include "backends/opencl/bsr_cpu.cl.inc"
    ;
static const char transpose[] =
#include "backends/opencl/transpose.cl.inc"
    ;
static const char pack[] =
#include "backends/opencl/pack.cl.inc"
    ;
static const char loop_gpu[] =
#include "backends/opencl/loop_gpu.cl.inc"
    ;
static const char product_gpu[] =
#include "backends/opencl/product_gpu.cl.inc"
    ;
static const char bsr_skinny[] =
#include "backends/opencl/bsr_skinny.cl.inc"
    ;
static const char bsr_gpu[] =
#include "backends/opencl/bsr_gpu.cl.inc"
    ;
static const char bsr[] =
#include "backends/opencl/bsr.cl.inc"
    ;
static const char bsr_wgrad_cpu[] =
#include "backends/opencl/bsr_wgrad_cpu.cl.inc"
    ;
static const char bsr_wgrad_gpu[] =
#include "backends/opencl/bsr_wgrad_gpu.cl.inc"
    ;
static const char bsr_values[] =
#include "backends/opencl/bsr_values.cl.inc"
    ;
static const char product_plain[] =
#include "backends/opencl/product_plain.cl.inc"
    ;
static const char product_skinny[] =
#include "backends/opencl/product_skinny.cl.inc"
    ;
static const char shape[] =
#include "backends/opencl/shape.cl.inc"
    ;
static const char map[] =
#include "backends/opencl/map.cl.inc"
    ;
static const char sum[] =
#include "backends/opencl/sum.cl.inc"
    ;
static const char optimizer[] =
#include "backends/opencl/optimizer.cl.inc"
    ;
static const char rows[] =
#include "backends/opencl/rows.cl.inc"
    ;
static const char move[] =
#include "backends/opencl/move.cl.inc"
    ;

/* What a source is made of beside codes, params and prelude, and how its numbers are called. */
static const struct {
  const char *part[5];
  const char *options;
} sources[LO_CL_SOURCE_COUNT] = {
    [LO_CL_PACK] = {{transpose, pack}, "-DWIDTH=%d"},
    [LO_CL_PRODUCT_CPU] = {{activation, epilogue, loop_cpu, product_cpu}, "-DNV=%d"},
    [LO_CL_PRODUCT_GPU] = {{activation, epilogue, loop_gpu, product_gpu},
                           "-DBM=%d -DBN=%d -DTM=%d -DTN=%d -DKIND=%d"},
    [LO_CL_PRODUCT_SKINNY] = {{activation, epilogue, product_skinny}, ""},
    [LO_CL_PRODUCT_PLAIN] = {{activation, epilogue, product_plain}, ""},
    [LO_CL_BSR_CPU] = {{activation, epilogue, loop_cpu, transpose, bsr_cpu},
                       "-DNV=%d -DBACKWARD=%d"},
    [LO_CL_BSR_SKINNY] = {{activation, epilogue, bsr_skinny}, "-DROWS=%d"},
    [LO_CL_BSR_GPU] = {{activation, epilogue, loop_gpu, bsr_gpu},
                       "-DBM=%d -DBN=%d -DTM=%d -DTN=%d -DKIND=%d"},
    [LO_CL_BSR_WGRAD_CPU] = {{activation, epilogue, loop_cpu, bsr, bsr_wgrad_cpu},
                             "-DNV=%d -DLANES=%d"},
    [LO_CL_BSR_WGRAD_GPU] = {{activation, epilogue, loop_gpu, bsr, bsr_wgrad_gpu},
                             "-DBM=%d -DBN=%d -DTM=%d -DTN=%d -DKIND=%d"},
    [LO_CL_BSR_VALUES] = {{bsr_values}, ""},
    [LO_CL_SUM] = {{sum}, ""},
    [LO_CL_MAP] = {{activation, shape, map}, ""},
    [LO_CL_OPTIMIZER] = {{shape, optimizer}, ""},
    [LO_CL_ROWS] = {{shape, rows}, ""},
    [LO_CL_MOVE] = {{shape, move}, ""},
};

/* The whole text. activation.h is written for `float`, which stands for a vector while it passes.
 */
static size_t compose(lo_cl_source source, char *to, size_t size) {
  const char *const *part = sources[source].part;
  size_t used = 0;
  const char *all[] = {codes, params, prelude, part[0], part[1], part[2], part[3], part[4]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (!all[i]) continue;
    bool vectors = all[i] == activation;
    int n =
        snprintf(to ? to + used : NULL, to ? size - used : 0, "%s%s%s",
                 vectors ? "#define float lo_vec\n" : "", all[i], vectors ? "#undef float\n" : "");
    used += (size_t)n;
  }
  return used;
}

static void make_options(const lo_cl_device *d, lo_cl_source source, const int *n, char *to,
                         size_t size) {
  const lo_cl_class *c = &d->class;
  const char *more = getenv("LAYEROPS_OPENCL_OPTIONS");
  char own[160];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(own, sizeof own, sources[source].options, n[0], n[1], n[2], n[3], n[4]);
#pragma GCC diagnostic pop
  snprintf(to, size, "-cl-std=CL1.2 %s-DVW=%d -DMR=%d -DGROUP=%d %s%s%s",
           d->rounds ? "-cl-fp32-correctly-rounded-divide-sqrt " : "", c->vector, c->rows, c->group,
           own, more ? " " : "", more ? more : "");
}

/* The first lines of the compiler's log, on one line. */
static layerops_status build_failed(lo_cl_world *w, cl_program program, const char *options,
                                    cl_int error) {
  enum { SHOWN = 300 };
  size_t size = 0;
  char shown[SHOWN + 1] = "no log";
  lo_cl.clGetProgramBuildInfo(program, w->device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
  char *log = size > 1 ? calloc(1, size + 1) : NULL;
  if (log && lo_cl.clGetProgramBuildInfo(program, w->device->id, CL_PROGRAM_BUILD_LOG, size, log,
                                         NULL) == CL_SUCCESS)
    snprintf(shown, sizeof shown, "%.*s", SHOWN, log + strspn(log, " \n\t"));
  free(log);
  for (char *p = shown; *p; p++)
    if (*p == '\n') *p = p[1] ? '|' : 0;
  return lo_fail(LAYEROPS_ERROR_BUILD, "clBuildProgram: %s: %s (options: %s)",
                 lo_cl_error_name(error), shown, options);
}

static cl_program from_binary(layerops_context *ctx, lo_cl_world *w, const char *options,
                              const char *text, size_t text_size) {
  size_t size;
  unsigned char *binary = lo_cl_cache_load(&ctx->args, text, text_size, &size);
  if (!binary) return NULL;
  const unsigned char *bytes = binary;
  cl_int status = CL_SUCCESS, error = CL_SUCCESS;
  cl_program p = lo_cl.clCreateProgramWithBinary(w->context, 1, &w->device->id, &size, &bytes,
                                                 &status, &error);
  free(binary);
  if (!p) return NULL;
  if (error == CL_SUCCESS && status == CL_SUCCESS &&
      lo_cl.clBuildProgram(p, 1, &w->device->id, options, NULL, NULL) == CL_SUCCESS)
    return p;
  lo_cl.clReleaseProgram(p);
  return NULL;
}

/* A cl_context of several devices has a binary for each; only that of this device is asked for. */
static void save_binary(layerops_context *ctx, lo_cl_world *w, cl_program p, const char *text,
                        size_t text_size) {
  enum { MOST = 64 };
  cl_device_id devices[MOST];
  size_t sizes[MOST] = {0}, count = 0;
  unsigned char *binaries[MOST] = {NULL};
  if (lo_cl.clGetProgramInfo(p, CL_PROGRAM_DEVICES, sizeof devices, devices, &count) !=
          CL_SUCCESS ||
      lo_cl.clGetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, NULL) != CL_SUCCESS)
    return;
  count /= sizeof *devices;
  size_t mine = 0;
  while (mine < count && devices[mine] != w->device->id) mine++;
  if (mine == count || !sizes[mine]) return;
  binaries[mine] = malloc(sizes[mine]);
  if (!binaries[mine]) return;
  if (lo_cl.clGetProgramInfo(p, CL_PROGRAM_BINARIES, count * sizeof *binaries, binaries, NULL) ==
      CL_SUCCESS)
    lo_cl_cache_save(&ctx->args, text, text_size, binaries[mine], sizes[mine]);
  free(binaries[mine]);
}

static layerops_status from_source(layerops_context *ctx, lo_cl_world *w, const char *options,
                                   const char *source, cl_program *program) {
  cl_int error = CL_SUCCESS;
  cl_program p = lo_cl.clCreateProgramWithSource(w->context, 1, &source, NULL, &error);
  if (!p) return lo_cl_failed(ctx, "clCreateProgramWithSource", error, false);
  error = lo_cl.clBuildProgram(p, 1, &w->device->id, options, NULL, NULL);
  if (error != CL_SUCCESS) {
    layerops_status status = build_failed(w, p, options, error);
    lo_cl.clReleaseProgram(p);
    return status;
  }
  *program = p;
  return LAYEROPS_OK;
}

/* text: the device's key, the options, the source; what the cache's key is made of. */
static layerops_status compile(layerops_context *ctx, lo_cl_world *w, lo_cl_source source,
                               const int *number, cl_program *program) {
  char options[1024];
  make_options(w->device, source, number, options, sizeof options);
  size_t source_size = compose(source, NULL, 0) + 1;
  size_t head = strlen(w->device->key) + strlen(options) + 1, size = head + source_size;
  char *text = malloc(size);
  if (!text) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory for a kernel's source");
  snprintf(text, size, "%s%s\n", w->device->key, options);
  compose(source, text + head, source_size);
  layerops_status status = LAYEROPS_OK;
  *program = from_binary(ctx, w, options, text, size);
  if (!*program) {
    status = from_source(ctx, w, options, text + head, program);
    if (status == LAYEROPS_OK) save_binary(ctx, w, *program, text, size);
  }
  free(text);
  return status;
}

static lo_cl_program *find(lo_cl_world *w, lo_cl_source source, const int *number) {
  for (lo_cl_program *p = w->programs; p; p = p->next)
    if (p->source == source && !memcmp(p->number, number, sizeof p->number)) return p;
  return NULL;
}

static layerops_status add(layerops_context *ctx, lo_cl_world *w, lo_cl_source source,
                           const int *number, lo_cl_program **program) {
  lo_cl_program *p = calloc(1, sizeof *p);
  if (!p) return lo_fail(LAYEROPS_ERROR_OUT_OF_MEMORY, "no memory for a program");
  layerops_status status = compile(ctx, w, source, number, &p->program);
  if (status != LAYEROPS_OK) {
    free(p);
    return status;
  }
  p->source = source;
  memcpy(p->number, number, sizeof p->number);
  p->next = w->programs;
  *program = w->programs = p;
  return LAYEROPS_OK;
}

/* Under the lock while it compiles: whoever wants the same program waits for it instead of
 * compiling. */
layerops_status lo_cl_program_get(layerops_context *ctx, lo_cl_world *w, lo_cl_source source,
                                  const int *number, cl_program *program) {
  pthread_mutex_lock(&w->lock);
  layerops_status status = LAYEROPS_OK;
  lo_cl_program *p = find(w, source, number);
  if (!p) status = add(ctx, w, source, number, &p);
  if (status == LAYEROPS_OK) *program = p->program;
  pthread_mutex_unlock(&w->lock);
  return status;
}

void lo_cl_programs_release(lo_cl_world *w) {
  while (w->programs) {
    lo_cl_program *p = w->programs;
    w->programs = p->next;
    lo_cl.clReleaseProgram(p->program);
    free(p);
  }
}
