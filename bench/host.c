#include <config.h>

#include "bench/host.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct field {
  const char *key;
  char value[96];
};

/* Keeps the first value of each key of /proc/cpuinfo. */
static void take_line(char *line, struct field *fields, size_t count) {
  char *colon = strchr(line, ':');
  if (!colon) return;
  size_t key_length = strcspn(line, "\t:");
  for (size_t i = 0; i < count; i++) {
    if (fields[i].value[0] || strlen(fields[i].key) != key_length ||
        strncmp(line, fields[i].key, key_length))
      continue;
    colon += strspn(colon, ": ");
    snprintf(fields[i].value, sizeof fields[i].value, "%.*s", (int)strcspn(colon, "\n"), colon);
  }
}

void bench_cpu_name(char *name, size_t size) {
  struct field fields[] = {{.key = "model name"},
                           {.key = "vendor_id"},
                           {.key = "cpu family"},
                           {.key = "model"},
                           {.key = "CPU part"}};
  char line[4096];
  FILE *file = fopen("/proc/cpuinfo", "re");
  while (file && fgets(line, sizeof line, file)) take_line(line, fields, 5);
  if (file) fclose(file);
  if (fields[1].value[0])
    snprintf(name, size, "%s (%s %s/%s)", fields[0].value, fields[1].value, fields[2].value,
             fields[3].value);
  else if (fields[4].value[0]) /* 64-bit Arm */
    snprintf(name, size, "%s (part %s)", fields[0].value[0] ? fields[0].value : "Arm",
             fields[4].value);
  else
    snprintf(name, size, "%s", fields[0].value[0] ? fields[0].value : "unknown");
}

void bench_date(char *text, size_t size) {
  time_t now = time(NULL);
  struct tm utc;
  if (!gmtime_r(&now, &utc) || !strftime(text, size, "%Y-%m-%dT%H:%M:%SZ", &utc))
    snprintf(text, size, "unknown");
}

void bench_printable(char *text) {
  for (; *text; text++)
    if (iscntrl((unsigned char)*text)) *text = '?';
}
