/* The bandwidth of control groups, on made-up /proc and /sys. */
#include <config.h>

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/cpu/topology.h"
#include "t/scratch.h"
#include "t/tap.h"

static const char *root;

/* Writes a file below the root, its folders too. */
static void put(const char *path, const char *text) {
  char full[2 * sizeof scratch];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
    *p = 0;
    mkdir(full, 0700);
    *p = '/';
  }
  FILE *f = fopen(full, "w");
  if (f) {
    fputs(text, f);
    fclose(f);
  }
}

static void is_quota(double wanted, const char *what) {
  double got = lo_cgroup_quota(root);
  ok(got == wanted, "%s: %g CPUs (%g expected)", what, got, wanted);
}

static void version2(void) {
  put("/proc/self/mountinfo",
      "24 1 0:22 / /proc rw - proc proc rw\n"
      "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  put("/proc/self/cgroup", "0::/system/job\n");
  is_quota(0, "version 2 without a cpu.max");
  put("/sys/fs/cgroup/system/job/cpu.max", "max 100000\n");
  is_quota(0, "no limit");
  put("/sys/fs/cgroup/system/job/cpu.max", "250000 100000\n");
  is_quota(2.5, "a limit of the group");
  put("/sys/fs/cgroup/system/cpu.max", "50000 100000\n");
  is_quota(0.5, "a smaller one of its parent");
  put("/sys/fs/cgroup/system/cpu.max", "900000 100000\n");
  is_quota(2.5, "a larger one of its parent");
  put("/sys/fs/cgroup/system/job/cpu.max", "nonsense\n");
  is_quota(9, "nonsense is no limit");
}

static void container(void) {
  put("/proc/self/mountinfo", "30 23 0:26 /docker/c1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n");
  put("/proc/self/cgroup", "0::/docker/c1/inner\n");
  put("/sys/fs/cgroup/inner/cpu.max", "150000 100000\n");
  is_quota(1.5, "a mount that begins below the hierarchy's root");
  put("/proc/self/cgroup", "0::/../../elsewhere\n");
  put("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  is_quota(3, "a group outside the mount: the mount's own limit");
}

static void version1(void) {
  put("/proc/self/mountinfo",
      "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  put("/proc/self/cgroup", "5:memory:/m\n4:cpuacct,cpu:/a/b\n1:name=systemd:/\n");
  put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  is_quota(0, "version 1 without a limit");
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "50000\n");
  put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "200000\n");
  is_quota(4, "a limit of the parent");
  put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "125000\n");
  is_quota(1.25, "a smaller one of the group");
}

int main(void) {
  scratch_begin();
  root = scratch;
  is_quota(0, "no control groups");
  version2();
  container();
  version1();
  return done();
}
