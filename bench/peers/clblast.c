/* CLBlast: sgemm on the same OpenCL device, then a kernel for bias and activation. */
#include <config.h>

#define CL_TARGET_OPENCL_VERSION 120

#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/common.h"

#define MAX_IDS 64

struct state {
  struct bench_layer layer;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
  cl_program program;
  cl_kernel epilogue;
  cl_mem x, w, bias, y;
};

static const char source[] =
    "kernel void epilogue(global float *y, global const float *bias, int n, int activation) {\n"
    "  size_t i = get_global_id(1) * (size_t)n + get_global_id(0);\n"
    "  float z = y[i] + bias[get_global_id(0)];\n"
    "  switch (activation) {\n"
    "  case 1: z = z < 0 ? 0 : z; break;\n"
    "  case 2: z = z < 0 ? 0.01f * z : z; break;\n"
    "  case 3: z = 0.5f * z * (1 + erf(z * 0.70710678f)); break;\n"
    "  case 4: z = 0.5f * z * (1 + tanh(0.79788456f * (z + 0.044715f * z * z * z))); break;\n"
    "  case 5: z = z / (1 + exp(-z)); break;\n"
    "  case 6: z = 1 / (1 + exp(-z)); break;\n"
    "  case 7: z = tanh(z); break;\n"
    "  }\n"
    "  y[i] = z;\n"
    "}\n";

/* The device of "opencl:P.D", in the order in which OpenCL lists platforms and devices. */
static bool find_device(const char *name, cl_device_id *device) {
  cl_platform_id platforms[MAX_IDS];
  cl_device_id devices[MAX_IDS];
  cl_uint platform, index, count = 0;
  if (sscanf(name, "opencl:%u.%u", &platform, &index) != 2) return false;
  if (clGetPlatformIDs(MAX_IDS, platforms, &count) || platform >= count || platform >= MAX_IDS)
    return false;
  if (clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, MAX_IDS, devices, &count) ||
      index >= count || index >= MAX_IDS)
    return false;
  *device = devices[index];
  return true;
}

static bool upload(struct state *s, cl_mem *buffer, const void *data, int64_t elements) {
  cl_int error;
  cl_mem_flags flags = data ? CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR : CL_MEM_READ_WRITE;
  *buffer = clCreateBuffer(s->context, flags, (size_t)elements * sizeof(float),
                           (void *)(uintptr_t)data, &error);
  return !error;
}

static bool build_epilogue(struct state *s) {
  const char *text = source;
  cl_int error, n = (cl_int)s->layer.row->n, activation = s->layer.row->activation;
  s->program = clCreateProgramWithSource(s->context, 1, &text, NULL, &error);
  if (error || clBuildProgram(s->program, 1, &s->device, "", NULL, NULL)) return false;
  s->epilogue = clCreateKernel(s->program, "epilogue", &error);
  return !error && !clSetKernelArg(s->epilogue, 0, sizeof s->y, &s->y) &&
         !clSetKernelArg(s->epilogue, 1, sizeof s->bias, &s->bias) &&
         !clSetKernelArg(s->epilogue, 2, sizeof n, &n) &&
         !clSetKernelArg(s->epilogue, 3, sizeof activation, &activation);
}

static bool build(struct state *s) {
  const struct bench_row *row = s->layer.row;
  cl_int error;
  s->context = clCreateContext(NULL, 1, &s->device, NULL, NULL, &error);
  if (error) return false;
  s->queue = clCreateCommandQueue(s->context, s->device, 0, &error);
  return !error && upload(s, &s->x, s->layer.x, row->m * row->k) &&
         upload(s, &s->w, s->layer.w, row->n * row->k) &&
         upload(s, &s->bias, s->layer.bias, row->n) && upload(s, &s->y, NULL, row->m * row->n) &&
         build_epilogue(s);
}

static bool call(struct state *s) {
  const struct bench_row *row = s->layer.row;
  size_t m = (size_t)row->m, n = (size_t)row->n, k = (size_t)row->k, size[2] = {n, m};
  return CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeYes, m, n, k, 1,
                      s->x, 0, k, s->w, 0, k, 0, s->y, 0, n, &s->queue, NULL) == CLBlastSuccess &&
         !clEnqueueNDRangeKernel(s->queue, s->epilogue, 2, NULL, size, NULL, 0, NULL, NULL);
}

static bool run(void *state, int64_t calls) {
  for (int64_t i = 0; i < calls; i++)
    if (!call(state)) return false;
  return clFinish(((struct state *)state)->queue) == CL_SUCCESS;
}

static bool fetch(void *state) {
  struct state *s = state;
  size_t bytes = (size_t)(s->layer.row->m * s->layer.row->n) * sizeof(float);
  return !clEnqueueReadBuffer(s->queue, s->y, CL_TRUE, 0, bytes, s->layer.y, 0, NULL, NULL);
}

static void close_state(void *state) {
  struct state *s = state;
  cl_mem buffers[] = {s->x, s->w, s->bias, s->y};
  for (int i = 0; i < 4; i++)
    if (buffers[i]) clReleaseMemObject(buffers[i]);
  if (s->epilogue) clReleaseKernel(s->epilogue);
  if (s->program) clReleaseProgram(s->program);
  if (s->queue) clReleaseCommandQueue(s->queue);
  if (s->context) clReleaseContext(s->context);
  CLBlastClearCache();
  free(s);
}

static bool setup(const struct bench_layer *layer, void **state, char *label, size_t label_size,
                  char *why, size_t why_size) {
  cl_device_id device;
  if (strcmp(layer->dtype, "f32") || layer->pattern) {
    snprintf(why, why_size, "the adapter measures its dense f32 product");
    return false;
  }
  if (!find_device(layer->device, &device)) {
    snprintf(why, why_size, "OpenCL does not list %s", layer->device);
    return false;
  }
  struct state *s = calloc(1, sizeof *s);
  if (s) *s = (struct state){.layer = *layer, .device = device};
  if (!s || !build(s)) {
    snprintf(why, why_size, s ? "OpenCL refused a buffer or a kernel" : "out of memory");
    if (s) close_state(s);
    return false;
  }
  snprintf(label, label_size, "clblast");
  *state = s;
  return true;
}

BENCH_PEER_EXPORT extern const struct bench_peer layerops_bench_peer;
const struct bench_peer layerops_bench_peer = {.abi = BENCH_PEER_ABI,
                                               .name = "clblast",
                                               .weights = BENCH_PLAIN,
                                               .setup = setup,
                                               .run = run,
                                               .fetch = fetch,
                                               .close = close_state};
