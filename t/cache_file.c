/* The files that the library keeps: what it must not trust, and writers at once. */
#include <config.h>

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/cache_file.h"
#include "t/scratch.h"
#include "t/tap.h"

enum { MOST = 4096, WRITERS = 8, EACH = 25 };

static const layerops_open_args on;
static char why[LO_CACHE_WHY];

/* Whether the file can be read and holds this. */
static int holds(const char *text) {
  size_t size;
  char *bytes = lo_cache_read(&on, "file", MOST, &size, why);
  int same = bytes && size == strlen(text) && !strcmp(bytes, text);
  free(bytes);
  return same;
}

/* Neither read nor written, for a reason that the pattern is part of. */
static void is_refused(const char *reason, const char *what) {
  size_t size;
  char *bytes = lo_cache_read(&on, "file", MOST, &size, why);
  ok(!bytes && strstr(why, reason), "%s is not read: %s", what, why);
  free(bytes);
}
static void is_unwritable(const char *reason, const char *what) {
  ok(!lo_cache_write(&on, "file", "new", 3, why) && strstr(why, reason), "... nor is %s: %s", what,
     why);
}

static int mode_of(const char *name) {
  struct stat st;
  return lstat(scratch_path(name), &st) ? -1 : (int)(st.st_mode & 07777);
}

/* A new, empty cache for each case. */
static void begin(const char *name) {
  char below[64];
  setenv("XDG_CACHE_HOME", scratch_path(name), 1);
  mkdir(scratch_path(name), 0755);
  snprintf(below, sizeof below, "%s/layerops", name);
  mkdir(scratch_path(below), 0700);
}

static void test_plain(void) {
  size_t size = 7;
  setenv("XDG_CACHE_HOME", scratch_path("a/b"), 1);
  ok(!lo_cache_read(&on, "file", MOST, &size, why) && !*why && !size,
     "no cache yet: nothing, and nothing to tell");
  ok(lo_cache_remove(&on, "file", why), "... nor to remove");
  ok(mode_of("a") == -1, "... and reading makes no folder");
  ok(lo_cache_write(&on, "file", "first", 5, why), "writing makes the folders%s", why);
  ok(mode_of("a/b/layerops") == 0700, "... the last with mode 0700");
  ok(mode_of("a/b/layerops/file") == 0600, "... and the file with 0600");
  ok(holds("first"), "what is written is read");
  ok(lo_cache_write(&on, "file", "second", 6, why) && holds("second"), "... and replaced");
  ok(lo_cache_write(&on, "file", "", 0, why) && holds(""), "... also by nothing");
  ok(lo_cache_remove(&on, "file", why) && !holds(""), "it is removed");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", scratch_path("home"), 1);
  mkdir(scratch_path("home"), 0700);
  ok(lo_cache_write(&on, "file", "home", 4, why) && holds("home"),
     "without XDG_CACHE_HOME: ~/.cache");
  ok(mode_of("home/.cache/layerops/file") == 0600, "... is where it lies");
  setenv("XDG_CACHE_HOME", "relative", 1);
  ok(holds("home"), "a relative XDG_CACHE_HOME counts as none");
  unsetenv("HOME");
  ok(!holds("home") && strstr(why, "HOME"), "neither is set: %s", why);
}

static void test_off(void) {
  layerops_open_args off = {.no_cache = 1};
  size_t size;
  begin("off");
  ok(lo_cache_write(&on, "file", "x", 1, why), "a file");
  ok(!lo_cache_read(&off, "file", MOST, &size, why) && !*why, "no_cache: it is not read");
  ok(!lo_cache_write(&off, "file", "y", 1, why) && !*why && holds("x"), "... nor written");
  setenv("LAYEROPS_CACHE", "0", 1);
  ok(!lo_cache_on(&on) && !holds("x") && !*why, "LAYEROPS_CACHE=0: it is not read");
  ok(!lo_cache_write(&on, "file", "y", 1, why) && !*why, "... nor written");
  setenv("LAYEROPS_CACHE", "1", 1);
  ok(lo_cache_on(&on) && holds("x"), "LAYEROPS_CACHE=1: it is read");
  unsetenv("LAYEROPS_CACHE");
}

static void test_folder(void) {
  mkdir(scratch_path("elsewhere"), 0700);
  mkdir(scratch_path("link"), 0755);
  scratch_text("elsewhere/file", "planted");
  setenv("XDG_CACHE_HOME", scratch_path("link"), 1);
  ok(!symlink("../elsewhere", scratch_path("link/layerops")), "layerops is a symbolic link");
  is_refused("symbolic link", "a file behind it");
  is_unwritable("symbolic link", "it written");

  ok(!symlink("elsewhere", scratch_path("above")), "the folder above is a symbolic link");
  setenv("XDG_CACHE_HOME", scratch_path("above"), 1);
  ok(lo_cache_write(&on, "file", "x", 1, why) && holds("x"), "... which is followed");

  static const int modes[] = {0770, 0707, 0720, 0702};
  begin("modes");
  ok(lo_cache_write(&on, "file", "x", 1, why), "a file");
  for (int i = 0; i < 4; i++) {
    chmod(scratch_path("modes/layerops"), (mode_t)modes[i]);
    is_refused("can be written by others", "a file of a folder that others may write to");
    is_unwritable("can be written by others", "it written");
  }
  chmod(scratch_path("modes/layerops"), 0755);
  ok(holds("x"), "a folder that others may only read is used");

  setenv("XDG_CACHE_HOME", scratch_path("plain"), 1);
  mkdir(scratch_path("plain"), 0700);
  scratch_text("plain/layerops", "");
  is_refused("not a directory", "a file where the folder should be");
  is_unwritable("not a directory", "it written");
  setenv("XDG_CACHE_HOME", scratch_path("plain/layerops"), 1);
  is_unwritable("ot a directory", "a cache below a file");
}

static void test_foreign(void) {
  if (geteuid()) {
    skip("what belongs to others", "only root can make it");
    return;
  }
  begin("foreign");
  ok(lo_cache_write(&on, "file", "x", 1, why), "a file");
  ok(!chown(scratch_path("foreign/layerops/file"), 12345, 12345), "... of another user");
  is_refused("belongs to another user (12345)", "it");
  ok(lo_cache_write(&on, "file", "mine", 4, why) && holds("mine"), "... and is replaced");
  ok(!chown(scratch_path("foreign/layerops"), 12345, 12345), "a folder of another user");
  is_refused("belongs to another user (12345)", "a file there");
  is_unwritable("belongs to another user", "it written");
}

static void test_file(void) {
  begin("files");
  scratch_text("planted", "planted");
  ok(!symlink("../../planted", scratch_path("files/layerops/file")), "the file is a symbolic link");
  is_refused("symbolic link", "it");
  ok(lo_cache_write(&on, "file", "x", 1, why) && holds("x"), "... and is replaced");
  size_t size;
  char *planted = (char *)scratch_read("planted", &size);
  ok(size == 7 && !memcmp(planted, "planted", 7), "... but not what it pointed to");
  free(planted);

  chmod(scratch_path("files/layerops/file"), 0620);
  is_refused("can be written by others", "a file that the group may write");
  chmod(scratch_path("files/layerops/file"), 0644);
  ok(holds("x"), "one that others may only read is read");

  char large[MOST + 1];
  memset(large, 'x', sizeof large);
  ok(lo_cache_write(&on, "file", large, MOST, why), "a file as large as may be");
  char *bytes = lo_cache_read(&on, "file", MOST, &size, why);
  ok(bytes && size == MOST && !bytes[MOST], "... is read");
  free(bytes);
  ok(lo_cache_write(&on, "file", large, sizeof large, why), "a file of one byte more");
  is_refused("4097 bytes, and 4096", "it");

  remove(scratch_path("files/layerops/file"));
  ok(!mkfifo(scratch_path("files/layerops/file"), 0600), "a pipe");
  is_refused("no regular file", "it");
  remove(scratch_path("files/layerops/file"));
  mkdir(scratch_path("files/layerops/file"), 0700);
  is_refused("no regular file", "a folder in the file's place");
  is_unwritable("", "it replaced");
}

/* A line more; none where it would be more than MOST. */
static void *append(void *user, const void *old, size_t old_size, size_t *size) {
  const char *line = user;
  char *all = malloc(old_size + strlen(line) + 1);
  if (old) memcpy(all, old, old_size);
  strcpy(all + old_size, line);
  *size = old_size + strlen(line);
  return all;
}

static void *change_nothing(void *user, const void *old, size_t old_size, size_t *size) {
  (void)user, (void)old, (void)old_size, (void)size;
  return NULL;
}

static void write_lines(int writer) {
  for (int i = 0; i < EACH; i++) {
    char line[32];
    snprintf(line, sizeof line, "%d %d\n", writer, i);
    if (!lo_cache_update(&on, "file", MOST, append, line, why)) _exit(1);
  }
  _exit(0);
}

static void test_writers(void) {
  char zero[] = "0\n";
  begin("many");
  ok(lo_cache_update(&on, "file", MOST, append, zero, why) && holds(zero), "an update of nothing");
  ok(!lo_cache_update(&on, "file", MOST, change_nothing, NULL, why) && !*why && holds(zero),
     "one that changes nothing");
  for (int w = 0; w < WRITERS; w++)
    if (!fork()) write_lines(w);
  int failed = 0, status;
  while (wait(&status) > 0) failed += status != 0;
  ok(!failed, "%d processes add %d lines each", WRITERS, EACH);
  size_t size;
  int lines = 0;
  char *bytes = lo_cache_read(&on, "file", MOST, &size, why);
  for (size_t i = 0; bytes && i < size; i++) lines += bytes[i] == '\n';
  ok(lines == 1 + WRITERS * EACH, "... and none is lost: %d lines", lines);
  free(bytes);
  int files = 0;
  char command[8400], text[32] = "";
  snprintf(command, sizeof command, "ls -A '%s' | wc -l", scratch_path("many/layerops"));
  FILE *pipe = popen(command, "r");
  if (pipe && fgets(text, sizeof text, pipe)) files = atoi(text);
  if (pipe) pclose(pipe);
  ok(files == 1, "... nor is a temporary file left");
}

/* SIGXFSZ, which is not ignored here, would end the test. */
static void test_limit(void) {
  static const char more[5000];
  setenv("XDG_CACHE_HOME", scratch_path("limit"), 1);
  ok(lo_cache_write(&on, "file", "first", 5, why), "before the limit%s", why);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
    bool refused = !lo_cache_write(&on, "file", more, sizeof more, why);
    _exit(refused && strstr(why, strerror(EFBIG)) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  ok(status == 0, "a file beyond the process's limit is refused, with the reason");
  ok(holds("first"), "... and the old one stays");
}

int main(void) {
  unsetenv("LAYEROPS_CACHE");
  umask(022);
  scratch_begin();
  test_plain();
  test_off();
  test_folder();
  test_foreign();
  test_file();
  test_writers();
  test_limit();
  return done();
}
