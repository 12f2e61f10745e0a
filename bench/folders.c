#include <config.h>

#include "bench/folders.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The build folder, if that is where the program lies (libtool puts it into .libs there): what
   configure leaves behind shows it. */
static bool build_folder(char *path, size_t size) {
  char exe[PATH_MAX], probe[PATH_MAX + 16];
  ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  if (length <= 0) return false;
  exe[length] = 0;
  for (int up = 0; up < 2; up++) {
    char *slash = strrchr(exe, '/');
    if (!slash) return false;
    *slash = 0;
    snprintf(probe, sizeof probe, "%s/config.status", exe);
    if (!access(probe, F_OK)) return (size_t)snprintf(path, size, "%s", exe) < size;
  }
  return false;
}

static void choose(char *path, size_t size, const char *variable, const char *tail,
                   const char *source, const char *installed) {
  char build[PATH_MAX];
  const char *wanted = getenv(variable);
  if (wanted && *wanted)
    snprintf(path, size, "%s", wanted);
  else if (build_folder(build, sizeof build))
    snprintf(path, size, "%s%s", source ? source : build, tail);
  else
    snprintf(path, size, "%s", installed);
}

void bench_devices_folder(char *path, size_t size) {
  choose(path, size, "LAYEROPS_DEVICE_FILES", "/data/devices", BENCH_SOURCE_DIR, BENCH_DEVICES_DIR);
}

void bench_peers_folder(char *path, size_t size) {
  choose(path, size, "LAYEROPS_PEERS", "/bench/peers/.libs", NULL, BENCH_PEERS_DIR);
}
