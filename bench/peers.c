#include <config.h>

#include "bench/peers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* OpenBLAS takes its kernels by the model number and knows none that came after it. */
static void openblas_before_load(void) {
#if defined __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
    setenv("OPENBLAS_CORETYPE", "SKYLAKEX", 0);
#endif
}

static struct bench_peer_entry entries[] = {
    {.name = "openblas", .kind = "cpu", .before_load = openblas_before_load},
    {.name = "blis", .kind = "cpu"},
    {.name = "mkl", .kind = "cpu"},
    {.name = "onednn2", .kind = "cpu"},
    {.name = "onednn3", .kind = "cpu"},
    {.name = "libxsmm", .kind = "cpu"},
    {.name = "clblast", .kind = "opencl"},
    {.name = "cublaslt", .kind = "cuda"},
    {.name = "cusparse", .kind = "cuda"},
    {.name = NULL},
};

static void load(const char *folder, struct bench_peer_entry *entry) {
  char path[4096];
  if (snprintf(path, sizeof path, "%s/%s.so", folder, entry->name) >= (int)sizeof path) {
    snprintf(entry->reason, sizeof entry->reason, "the folder's name is too long");
    return;
  }
  if (access(path, F_OK) != 0) {
    snprintf(entry->reason, sizeof entry->reason, "there is no module %.200s: was it built?", path);
    return;
  }
  if (entry->before_load) entry->before_load();
  /* Never unloaded: some peers leave threads behind that run their code. */
  void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const struct bench_peer *peer = module ? dlsym(module, BENCH_PEER_SYMBOL) : NULL;
  if (!peer)
    snprintf(entry->reason, sizeof entry->reason, "%s", dlerror());
  else if (peer->abi != BENCH_PEER_ABI)
    snprintf(entry->reason, sizeof entry->reason, "the module %s is of another version",
             entry->name);
  else
    entry->peer = peer;
}

struct bench_peer_entry *bench_peers_load(const char *folder) {
  for (struct bench_peer_entry *e = entries; e->name; e++)
    if (!e->peer) load(folder, e);
  return entries;
}
