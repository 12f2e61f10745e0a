/* CPU bandwidth of the control groups, which hwloc does not know: version 2's cpu.max, version 1's
 * cpu.cfs_quota_us over cpu.cfs_period_us, of this process's group and of all its ancestors in
 * sight. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/topology.h"

enum { PATH = 1024 };

static FILE *open_at(const char *root, const char *folder, const char *name) {
  char path[3 * PATH];
  if (snprintf(path, sizeof path, "%s%s%s%s", root, folder, *name ? "/" : "", name) >=
      (int)sizeof path)
    return NULL;
  return fopen(path, "re");
}

/* Is `name` one of the words of a list separated by commas? */
static bool listed(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *p = list; p; p = strchr(p, ',')) {
    p += *p == ',';
    if (!strncmp(p, name, length) && (!p[length] || p[length] == ',' || p[length] == '\n'))
      return true;
  }
  return false;
}

/* The process's group in the hierarchy with the cpu controller: "4:cpu,cpuacct:/group", in version
 * 2 "0::/group". False if there is none. */
static bool find_group(const char *root, bool v2, char group[PATH]) {
  FILE *f = open_at(root, "/proc/self/cgroup", "");
  if (!f) return false;
  char line[2 * PATH];
  bool found = false;
  while (!found && fgets(line, sizeof line, f)) {
    char *controllers = strchr(line, ':'),
         *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    controllers++;
    if (v2 ? *controllers != 0 : !listed(controllers, "cpu")) continue;
    path[strcspn(path, "\n")] = 0;
    found = snprintf(group, PATH, "%s", path) < PATH;
  }
  fclose(f);
  return found;
}

/* Where that hierarchy is mounted (`folder`), and which of its groups stands there (`top`), from
 * lines like "36 32 0:31 TOP FOLDER options - cgroup source superoptions". */
static bool find_mount(const char *root, bool v2, char folder[PATH], char top[PATH]) {
  FILE *f = open_at(root, "/proc/self/mountinfo", "");
  if (!f) return false;
  char line[4 * PATH], options[PATH], type[16];
  bool found = false;
  while (!found && fgets(line, sizeof line, f)) {
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %1023s %1023s", top, folder) != 2) continue;
    if (sscanf(rest, " - %15s %*s %1023s", type, options) != 2) continue;
    found = v2 ? !strcmp(type, "cgroup2") : !strcmp(type, "cgroup") && listed(options, "cpu");
  }
  fclose(f);
  return found;
}

static double read_v2(const char *root, const char *folder) {
  FILE *f = open_at(root, folder, "cpu.max");
  double quota = 0, period = 0;
  if (!f) return 0;
  if (fscanf(f, "%lf %lf", &quota, &period) != 2) quota = 0; /* "max 100000" */
  fclose(f);
  return period > 0 ? quota / period : 0;
}

static double read_number(const char *root, const char *folder, const char *name) {
  FILE *f = open_at(root, folder, name);
  double number = 0;
  if (!f) return 0;
  if (fscanf(f, "%lf", &number) != 1) number = 0;
  fclose(f);
  return number;
}

static double read_v1(const char *root, const char *folder) {
  double quota = read_number(root, folder, "cpu.cfs_quota_us"); /* -1: no limit */
  double period = read_number(root, folder, "cpu.cfs_period_us");
  return quota > 0 && period > 0 ? quota / period : 0;
}

static double smaller(double a, double b) {
  return a > 0 && (b <= 0 || a < b) ? a : b;
}

static double hierarchy(const char *root, bool v2) {
  char group[PATH], folder[PATH], top[PATH], path[2 * PATH];
  if (!find_group(root, v2, group) || !find_mount(root, v2, folder, top)) return 0;
  /* Inside a container the mount may begin below the root of the hierarchy, or the group lie
   * outside it. */
  const char *below = group;
  size_t length = strcmp(top, "/") ? strlen(top) : 0;
  if (length && !strncmp(group, top, length) && (!group[length] || group[length] == '/'))
    below = group + length;
  if (strstr(below, "..")) below = "";
  if (!strcmp(below, "/")) below = "";
  snprintf(path, sizeof path, "%s%s", folder, below);
  double least = 0;
  for (size_t end = strlen(folder);;) {
    least = smaller(v2 ? read_v2(root, path) : read_v1(root, path), least);
    char *last = strrchr(path, '/');
    if (strlen(path) <= end || !last) break;
    *last = 0;
  }
  return least;
}

double lo_cgroup_quota(const char *root) {
  return smaller(hierarchy(root, true), hierarchy(root, false));
}
