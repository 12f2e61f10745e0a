/* What is special to OpenCL: machines without a runtime, the user's queues and buffers, threads,
 * programs on disk, compilers that fail. Parts that need a fresh process run this program again
 * with a part's name. */
#include <config.h>

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "backends/opencl/opencl.h"
#include "t/devices.h"
#include "t/is.h"
#include "t/scratch.h"

enum { N = 32 };

/* ---- A product whose result is known ---- */

typedef struct product {
  layerops_buffer *a, *b, *c;
} product;

static layerops_status product_make(layerops_context *ctx, product *p) {
  float a[N * N], b[N * N];
  for (int i = 0; i < N * N; i++) {
    a[i] = (float)(i % 7 - 3);
    b[i] = (float)(i % 5 - 2);
  }
  layerops_status status = layerops_buffer_from(ctx, a, sizeof a, &p->a);
  if (!status) status = layerops_buffer_from(ctx, b, sizeof b, &p->b);
  return status ? status : layerops_buffer_create(ctx, sizeof a, &p->c);
}

static layerops_gemm_args product_args(const product *p) {
  layerops_gemm_args args = {0};
  args.a = layerops_matrix_f32(p->a, N, N);
  args.b = layerops_matrix_f32(p->b, N, N);
  args.c = layerops_matrix_f32(p->c, N, N);
  return args;
}

/* Wrong elements of the result, or -1 where reading fails. */
static int product_check(layerops_context *ctx, const product *p) {
  float c[N * N];
  int wrong = 0;
  if (layerops_buffer_read(ctx, p->c, c, sizeof c)) return -1;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      int sum = 0;
      for (int k = 0; k < N; k++) sum += ((i * N + k) % 7 - 3) * ((k * N + j) % 5 - 2);
      wrong += c[i * N + j] != (float)sum;
    }
  return wrong;
}

static void product_free(product *p) {
  layerops_buffer_destroy(p->a);
  layerops_buffer_destroy(p->b);
  layerops_buffer_destroy(p->c);
}

/* One product in a context: 0 if all is right. */
static int multiply(layerops_context *ctx) {
  product p = {0};
  int status = product_make(ctx, &p);
  layerops_gemm_args args = product_args(&p);
  if (!status) status = layerops_gemm(ctx, &args);
  if (!status) status = product_check(ctx, &p);
  product_free(&p);
  return status;
}

static int open_and_multiply(void) {
  layerops_context *ctx;
  int status = layerops_open("opencl", &ctx);
  if (status) return status;
  status = multiply(ctx);
  layerops_close(ctx);
  return status;
}

/* ---- Parts for a process of their own: they print what the parent looks for ---- */

static int part_devices(void) {
  layerops_device_info list[DEVICES_MAX];
  size_t count = 0;
  int opencl = 0;
  layerops_devices(list, DEVICES_MAX, &count);
  for (size_t i = 0; i < count && i < DEVICES_MAX; i++)
    if (!strncmp(list[i].name, "opencl", 6)) {
      opencl += list[i].available;
      printf("%s: %s\n", list[i].name, list[i].reason);
    }
  layerops_context *ctx;
  layerops_status status = layerops_open("opencl", &ctx);
  printf("%d available, %s, %s\n", opencl, layerops_status_name(status), layerops_last_error());
  printf("cpu: %s\n", layerops_status_name(layerops_open("cpu", &ctx)));
  return 0;
}

static int part_multiply(void) {
  int status = open_and_multiply();
  printf("multiply: %d %s\n", status, status > 0 ? layerops_last_error() : "");
  return 0;
}

/* The parent's runtime cannot be used in a child: errors, not hangs. */
static int part_fork(void) {
  layerops_context *ctx, *other;
  printf("parent: %d\n", open_and_multiply());
  printf("open: %d\n", layerops_open("opencl", &ctx));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(60); /* a hang ends here, without a word */
    printf("old: %s\n", layerops_status_name(layerops_sync(ctx)));
    printf("new: %s, %s\n", layerops_status_name(layerops_open("opencl:0.0", &other)),
           layerops_last_error());
    layerops_close(ctx);
    printf("child: done\n");
    fflush(stdout);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  printf("parent: %d\n", multiply(ctx));
  layerops_close(ctx);
  return 0;
}

static const char *self;

/* What the part prints, standard error included, with variables set before its name. */
static const char *run_part(const char *environment, const char *part) {
  static char output[16384];
  char command[24576];
  snprintf(command, sizeof command, "env %s '%s' %s 2>&1", environment, self, part);
  FILE *pipe = popen(command, "r");
  size_t size = pipe ? fread(output, 1, sizeof output - 1, pipe) : 0;
  output[size] = 0;
  if (pipe) pclose(pipe);
  return output;
}

/* ---- Tests ---- */

static void test_no_runtime(void) {
  char environment[8300];
  mkdir(scratch_path("vendors"), 0700);
  snprintf(environment, sizeof environment, "OCL_ICD_VENDORS='%s'", scratch_path("vendors"));
  const char *output = run_part(environment, "devices");
  contains(output, "opencl: the ICD loader", "without a runtime the list says what is missing");
  contains(output, "no OpenCL runtime", "... by its name");
  contains(output, "0 available, LAYEROPS_ERROR_NO_DEVICE", "... and opening fails");
  contains(output, "cpu: LAYEROPS_OK", "... and the CPU works");
  int lines = 0;
  for (const char *p = output; *p; p++) lines += *p == '\n';
  is_int(lines, 3, "... and nothing is printed beside");
}

static void test_fork(void) {
  const char *output = run_part("LAYEROPS_VERBOSE=0", "fork");
  contains(output, "old: LAYEROPS_ERROR_FORKED", "a child cannot use its parent's context");
  contains(output, "new: LAYEROPS_ERROR_NO_DEVICE", "... nor open a new one");
  contains(output, "before fork()", "... and is told why");
  contains(output, "child: done", "... and ends");
  contains(output, "done\nparent: 0", "the parent goes on");
}

/* The compiled programs in the cache's folder; `spoil` changes each. */
static int cached(const char *folder, void (*spoil)(const char *path)) {
  char path[8300];
  int count = 0;
  snprintf(path, sizeof path, "%s/layerops", folder);
  DIR *dir = opendir(path);
  for (struct dirent *e; dir && (e = readdir(dir));) {
    if (e->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/layerops/%s", folder, e->d_name);
    if (spoil) spoil(path);
    count += strstr(e->d_name, ".clbin") && !strstr(e->d_name, ".clbin.");
  }
  if (dir) closedir(dir);
  return count;
}

static void spoil_middle(const char *path) {
  FILE *file = fopen(path, "r+b");
  if (!file) return;
  fseek(file, 200, SEEK_SET);
  fwrite("spoiled", 7, 1, file);
  fclose(file);
}
static void spoil_end(const char *path) {
  if (truncate(path, 100)) perror(path);
}
static void spoil_all(const char *path) {
  if (truncate(path, 0)) perror(path);
}

static void test_cache(void) {
  static const struct {
    const char *what;
    void (*spoil)(const char *path);
  } spoils[] = {{"changed", spoil_middle}, {"cut short", spoil_end}, {"empty", spoil_all}};
  char folder[8192], environment[16600];
  snprintf(folder, sizeof folder, "%s", scratch_path("cache"));
  snprintf(environment, sizeof environment, "XDG_CACHE_HOME='%s'", folder);
  contains(run_part(environment, "multiply"), "multiply: 0", "a product without a cache");
  int files = cached(folder, NULL);
  ok(files > 0, "... leaves %d files in the cache", files);
  contains(run_part(environment, "multiply"), "multiply: 0", "a product with the cache");
  for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
    cached(folder, spoils[i].spoil);
    contains(run_part(environment, "multiply"), "multiply: 0", "a product with files that are %s",
             spoils[i].what);
  }
  is_int(cached(folder, NULL), files, "... and they have been replaced");

  scratch_text("file", "");
  snprintf(environment, sizeof environment, "POCL_CACHE_DIR='%s' XDG_CACHE_HOME='%s'",
           scratch_path("pocl"), scratch_path("file"));
  contains(run_part(environment, "multiply"), "multiply: 0", "a cache that cannot be written");
  snprintf(environment, sizeof environment, "LAYEROPS_CACHE=0 XDG_CACHE_HOME='%s'",
           scratch_path("off"));
  contains(run_part(environment, "multiply"), "multiply: 0", "LAYEROPS_CACHE=0");
  is_int(cached(scratch_path("off"), NULL), 0, "... leaves no file");
}

static void test_build_failure(void) {
  const char *output =
      run_part("LAYEROPS_CACHE=0 LAYEROPS_OPENCL_OPTIONS=-Dlong=no_such_type", "multiply");
  char prefix[32];
  snprintf(prefix, sizeof prefix, "multiply: %d", LAYEROPS_ERROR_BUILD);
  contains(output, prefix, "a compiler that fails is ERROR_BUILD");
  contains(output, "CL_BUILD_PROGRAM_FAILURE", "... with the error's name");
  contains(output, "no_such_type", "... and the compiler's own words");
}

/* ---- In this process ---- */

static cl_context new_context(void) {
  return lo_cl.clCreateContext(NULL, 1, &lo_cl_device_at(0)->device, NULL, NULL, NULL);
}

enum { THREADS = 8 };
typedef struct crowd {
  pthread_barrier_t start;
  cl_context context; /* NULL: the library's */
  int failures[THREADS];
} crowd;
typedef struct member {
  crowd *crowd;
  int index;
} member;

static void *run_member(void *arg) {
  member *m = arg;
  cl_command_queue queue = NULL;
  if (m->crowd->context)
    queue = lo_cl.clCreateCommandQueue(m->crowd->context, lo_cl_device_at(0)->device, 0, NULL);
  layerops_open_args args = {.device = "opencl", .queue = queue};
  layerops_context *ctx;
  pthread_barrier_wait(&m->crowd->start);
  int status = layerops_open_with(&args, &ctx);
  if (!status) {
    status = multiply(ctx);
    layerops_close(ctx);
  }
  m->crowd->failures[m->index] = status;
  if (queue) lo_cl.clReleaseCommandQueue(queue);
  return NULL;
}

static int run_crowd(cl_context context) {
  crowd c = {.context = context};
  pthread_t threads[THREADS];
  member members[THREADS];
  int failed = 0;
  pthread_barrier_init(&c.start, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) {
    members[i] = (member){&c, i};
    pthread_create(&threads[i], NULL, run_member, &members[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    failed += c.failures[i] != 0;
  }
  pthread_barrier_destroy(&c.start);
  return failed;
}

/* The first call of a cl_context compiles: many threads at once, in many of them. */
static void test_threads(void) {
  int failed = run_crowd(NULL);
  is_int(failed, 0, "the first calls of %d threads", THREADS);
  failed = 0;
  for (int round = 0; round < 20; round++) {
    cl_context context = new_context();
    failed += run_crowd(context);
    lo_cl.clReleaseContext(context);
  }
  is_int(failed, 0, "... in 20 cl_contexts of the user's, one after the other");
}

static void test_open_close(void) {
  int failed = 0;
  for (int i = 0; i < 100; i++) failed += open_and_multiply() != 0;
  is_int(failed, 0, "open, multiply, close, 100 times");
}

static void test_queue(void) {
  cl_device_id device = lo_cl_device_at(0)->device;
  cl_context context = new_context();
  cl_command_queue queue = lo_cl.clCreateCommandQueue(context, device, 0, NULL);
  cl_command_queue wild =
      lo_cl.clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, NULL);
  layerops_open_args args = {.device = "opencl", .queue = queue};
  layerops_context *ctx, *own;
  is_int(layerops_open_with(&args, &ctx), LAYEROPS_OK, "a context on the user's queue");
  is_int(multiply(ctx), 0, "... multiplies");

  layerops_event *start, *stop;
  double ms = -1;
  layerops_event_create(ctx, &start);
  layerops_event_create(ctx, &stop);
  is_int(layerops_event_elapsed(start, stop, &ms), LAYEROPS_ERROR_STATE,
         "an event not yet recorded");
  layerops_event_record(start);
  multiply(ctx);
  layerops_event_record(stop);
  layerops_status status = layerops_event_elapsed(start, stop, &ms);
  ok(!status && ms > 0, "events on a queue without profiling: %g ms", ms);
  layerops_event_destroy(start);
  layerops_event_destroy(stop);

  /* A buffer of one cl_context in a call of another. */
  product p = {0}, q = {0};
  layerops_open("opencl", &own);
  product_make(ctx, &p);
  product_make(own, &q);
  layerops_gemm_args mixed = product_args(&p);
  mixed.b.buffer = q.b;
  is_int(layerops_gemm(ctx, &mixed), LAYEROPS_ERROR_INVALID, "a buffer of another cl_context");
  contains(layerops_last_error(), "another cl_context", "... is named");
  is_int(layerops_wait(ctx, own), LAYEROPS_OK, "contexts of two cl_contexts wait for each other");
  product_free(&p);
  product_free(&q);
  layerops_close(own);
  layerops_close(ctx);

  args.queue = wild;
  if (wild) {
    is_int(layerops_open_with(&args, &ctx), LAYEROPS_ERROR_INVALID, "a queue that is not in order");
    contains(layerops_last_error(), "out of order", "... is refused with the reason");
    lo_cl.clReleaseCommandQueue(wild);
  } else {
    skip("a queue that is not in order", "the device has none");
  }
  lo_cl.clReleaseCommandQueue(queue);
  lo_cl.clReleaseContext(context);
}

/* Two sub-buffers of the user's buffer, with `shift` bytes between their beginnings. */
static layerops_status copy_between(layerops_context *ctx, cl_mem parent, size_t shift,
                                    size_t bytes) {
  __typeof__(&clCreateSubBuffer) create;
  void *symbol = dlsym(dlopen("libOpenCL.so.1", RTLD_NOW), "clCreateSubBuffer");
  memcpy(&create, &symbol, sizeof create);
  cl_buffer_region first = {0, bytes}, second = {shift, bytes};
  cl_int error;
  cl_mem a = create(parent, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &first, &error);
  cl_mem b = create(parent, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &second, &error);
  layerops_buffer *x = NULL, *y = NULL;
  layerops_status status = layerops_buffer_wrap(ctx, a, (int64_t)bytes, &x);
  if (!status) status = layerops_buffer_wrap(ctx, b, (int64_t)bytes, &y);
  layerops_copy_args copy = {.x = layerops_vector_f32(x, (int64_t)bytes / 4),
                             .y = layerops_vector_f32(y, (int64_t)bytes / 4)};
  if (!status) status = layerops_copy(ctx, &copy);
  layerops_sync(ctx);
  layerops_buffer_destroy(x);
  layerops_buffer_destroy(y);
  lo_cl.clReleaseMemObject(a);
  lo_cl.clReleaseMemObject(b);
  return status;
}

static void test_wrap(void) {
  cl_context context = new_context();
  cl_command_queue queue = lo_cl.clCreateCommandQueue(context, lo_cl_device_at(0)->device, 0, NULL);
  cl_mem memory = lo_cl.clCreateBuffer(context, CL_MEM_READ_WRITE, 1 << 16, NULL, NULL);
  layerops_open_args args = {.device = "opencl", .queue = queue};
  layerops_context *ctx, *own;
  layerops_buffer *buffer = NULL, *again = NULL;
  layerops_open_with(&args, &ctx);
  is_int(layerops_buffer_wrap(ctx, memory, 1 << 16, &buffer), LAYEROPS_OK, "the user's cl_mem");
  ok(layerops_buffer_native(buffer) == (void *)memory, "... is the buffer's own");
  float one = 1, back = 0;
  layerops_buffer_write_at(ctx, buffer, 4096, &one, sizeof one);
  lo_cl.clEnqueueReadBuffer(queue, memory, CL_TRUE, 4096, sizeof back, &back, 0, NULL, NULL);
  ok(back == 1, "... and the user sees what is written");
  is_int(layerops_buffer_wrap(ctx, memory, (1 << 16) + 1, &again), LAYEROPS_ERROR_INVALID,
         "more bytes than it has");
  contains(layerops_last_error(), "65537", "... are named");
  layerops_open("opencl", &own);
  is_int(layerops_buffer_wrap(own, memory, 16, &again), LAYEROPS_ERROR_INVALID,
         "a cl_mem of another cl_context");
  is_int(layerops_buffer_wrap(ctx, memory, 1 << 16, &again), LAYEROPS_OK, "the same cl_mem again");
  layerops_copy_args copy = {.x = layerops_vector_f32(buffer, 100),
                             .y = layerops_vector_f32(again, 100)};
  copy.y.offset = 50;
  is_int(layerops_copy(ctx, &copy), LAYEROPS_ERROR_ALIAS, "... overlaps itself");
  is_int(copy_between(ctx, memory, 4096, 8192), LAYEROPS_ERROR_ALIAS, "sub-buffers that overlap");
  is_int(copy_between(ctx, memory, 8192, 8192), LAYEROPS_OK, "sub-buffers that do not");
  layerops_buffer_destroy(again);
  layerops_buffer_destroy(buffer);
  layerops_close(own);
  layerops_close(ctx);
  lo_cl.clReleaseMemObject(memory);
  lo_cl.clReleaseCommandQueue(queue);
  lo_cl.clReleaseContext(context);
}

static long resident_kb(void) {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) return 0;
  if (fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static void test_leaks(void) {
  enum { WARM = 2000, CALLS = 20000 };
  layerops_context *ctx;
  product p = {0};
  layerops_open("opencl", &ctx);
  product_make(ctx, &p);
  layerops_gemm_args args = product_args(&p);
  int failed = 0;
  long before = 0;
  for (int i = 0; i < WARM + CALLS; i++) {
    if (i == WARM) before = resident_kb();
    failed += layerops_gemm(ctx, &args) != LAYEROPS_OK;
    if (i % 100 == 99) failed += layerops_sync(ctx) != LAYEROPS_OK;
  }
  long grown = resident_kb() - before;
  is_int(failed, 0, "%d products of 32 x 32 x 32", CALLS);
#ifdef __SANITIZE_ADDRESS__
  skip("... take no memory with them", "the sanitizer keeps what is freed (%ld KiB)", grown);
#else
  ok(before > 0 && grown < 1024, "... take no memory with them (%ld KiB)", grown);
#endif
  product_free(&p);
  layerops_close(ctx);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*run)(void);
  } parts[] = {{"devices", part_devices}, {"multiply", part_multiply}, {"fork", part_fork}};
  for (size_t i = 0; argc > 1 && i < sizeof parts / sizeof *parts; i++)
    if (!strcmp(argv[1], parts[i].name)) return parts[i].run();
  self = argv[0];
  scratch_begin();
  char reason[256];
  if (!lo_cl_count(reason, sizeof reason)) {
    if (devices_listed(getenv("LAYEROPS_TEST_REQUIRE"), "opencl"))
      ok(0, "opencl is required, but absent: %s", reason);
    else
      skip("opencl", "%s", reason);
    return done();
  }
  test_threads();
  test_no_runtime();
  test_cache();
  test_build_failure();
  test_fork();
  test_open_close();
  test_queue();
  test_wrap();
  test_leaks();
  return done();
}
