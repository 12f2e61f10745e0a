/* The CSV reader: what counts as a header, where the label is, and where an error is. */
#include <config.h>

#include "t/scratch.h"
#include "t/is.h"
#include "tools/dataset.h"

static struct dataset d;

/* Loads text as a file and returns the status. */
static int load(const char *text, size_t size, const struct dataset_options *options) {
  dataset_free(&d);
  scratch_write("t.csv", text, size);
  return (int)dataset_load(&d, scratch_path("t.csv"), options);
}

/* Every row is in the test part then. */
static struct dataset_options all = {.use = DATASET_PREDICT};

static void reads(void) {
  static const struct {
    const char *what, *text;
    int rows;
    float x[4];
    int labels[2];
  } cases[] = {
      {"no header, label last", "1,2,0\n3,4,1\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"no newline at the end", "1,2,0\n3,4,1", 2, {1, 2, 3, 4}, {0, 1}},
      {"CRLF, blank lines, blanks", "\r\n1, 2 ,0\r\n\r\n 3,4,1 \r\n\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"a byte order mark",
       "\xef\xbb\xbf"
       "1,2,0\n3,4,1\n",
       2,
       {1, 2, 3, 4},
       {0, 1}},
      {"semicolons", "1;2;0\n3;4;1\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"tabs", "1\t2\t0\n3\t4\t1\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"a header", "a,b,c\n1,2,0\n3,4,1\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"a header with the label first", "label,a,b\n0,1,2\n1,3,4\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"a quoted header with the label last",
       "\"a, a\",\"b \"\"b\"\"\",\"Class\"\n1,2,0\n3,4,1\n",
       2,
       {1, 2, 3, 4},
       {0, 1}},
      {"pandas' names", "label,0,1\n0,1,2\n1,3,4\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"pandas' names, label last", "0,1,y\n1,2,0\n3,4,1\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"quoted numbers", "\"1\",\"2\",\"0\"\n3,4,\"1\"\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"forms of numbers", "+1e0,.2e1,0.0\n30e-1,4.,1e0\n", 2, {1, 2, 3, 4}, {0, 1}},
      {"large and small",
       "1234567890,-1e-38,7\n3e38,1e-60,1048575\n",
       2,
       {1234567890, -1e-38f, 3e38f, 0},
       {7, 1048575}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int status = load(cases[i].text, strlen(cases[i].text), &all);
    int good = !status && d.test.count == cases[i].rows && d.features == 2 &&
               !memcmp(d.test.x, cases[i].x, sizeof cases[i].x) &&
               !memcmp(d.test.labels, cases[i].labels, sizeof cases[i].labels);
    ok(good, "%s", cases[i].what);
    if (!good) diag("status %d %s, %lld rows", status, d.error, (long long)d.test.count);
  }
}

static void label_column(void) {
  static const char text[] = "7,1,2\n3,4,5\n";
  struct dataset_options options = all;
  options.label_column = DATASET_LABEL_FIRST;
  ok(!load(text, sizeof text - 1, &options) && d.test.labels[0] == 7 && d.test.x[2] == 4,
     "the label first, when asked for");
  options.label_column = DATASET_LABEL_NONE;
  ok(!load(text, sizeof text - 1, &options) && !d.test.labels && d.features == 3 &&
         d.test.x[3] == 3 && d.classes == 0,
     "no label, when asked for");
  options.use = DATASET_TRAIN;
  is_int(load(text, sizeof text - 1, &options), DATASET_ERROR_FORMAT, "training without labels");
  contains(d.error, "t.csv: training needs a label column", "says so");
  options = (struct dataset_options){.label_column = DATASET_LABEL_LAST};
  ok(!load("label,a,b\n0,1,2\n1,3,4\n", 22, &options) && d.train.labels[0] == 2,
     "the label last, when asked for against the header");
  options = (struct dataset_options){.use = DATASET_PREDICT, .scale = 2};
  ok(!load(text, sizeof text - 1, &options) && d.test.x[0] == 3.5f && d.test.labels[0] == 2,
     "scale divides the values, not the labels");
}

static void directory(void) {
  mkdir(scratch_path("c"), 0777);
  scratch_text("c/train.csv", "1,2,0\n3,4,1\n");
  scratch_write_gz("c/test.csv.gz", "5,6,2\n", 6);
  dataset_free(&d);
  is_int(dataset_load(&d, scratch_path("c"), NULL), DATASET_OK, "train.csv and test.csv.gz");
  ok(d.train.count == 2 && d.test.count == 1 && d.test.x[1] == 6 && d.classes == 3, "are read");
  dataset_free(&d);
  is_int(dataset_load(&d, scratch_path("c/"), NULL), DATASET_OK, "a slash at the end");
  is_str(d.name, "c", "is not part of the name");
}

static void split(void) {
  char text[32 * 32] = "";
  for (int i = 0; i < 25; i++) snprintf(text + strlen(text), 32, "%d,%d\n", i, i % 3);
  is_int(load(text, strlen(text), NULL), DATASET_OK, "25 rows for training");
  ok(d.train.count == 21 && d.test.count == 4 && d.test.x[0] == 21 && d.test.labels[3] == 0 &&
         d.classes == 3,
     "the last sixth is the test part");
  contains(d.note, "t.csv has no test part: its last 4 of 25 rows", "which is noted");
  is_int(load("1,0\n", 4, NULL), DATASET_ERROR_FORMAT, "one row for training");
  contains(d.error, "t.csv: one row; training needs a second to test on", "says so");
}

static void hostile(void) {
  static const struct {
    const char *text;
    size_t size; /* 0: strlen */
    const char *error;
  } cases[] = {
      {"\n \n", 0, "t.csv: is empty"},
      {"a,b\n", 0, "t.csv: holds a header line, but no rows"},
      {"5\n6\n", 0, "t.csv:1:1: one column; a label and at least one value are expected"},
      {"1,2,0\n1,2\n", 0, "t.csv:2:1: 2 fields; line 1 has 3"},
      {"\n1,2,0\n\n1,2,3,4\n", 0, "t.csv:4:1: 4 fields; line 2 has 3"},
      {"1,2,0\n1,2,0,\n", 0, "t.csv:2:7: field 4 is empty"},
      {"1,2,0\n1,,0\n", 0, "t.csv:2:3: field 2 is empty"},
      {"1,2,0\n1,x,0\n", 0, "t.csv:2:3: field 2: \"x\" is not a finite number"},
      {"1,2,0\n10, nan,0\n", 0, "t.csv:2:5: field 2: \"nan\" is not a finite number"},
      {"nan,2,0\n", 0, "t.csv:1:1: field 1: \"nan\" is not a finite number"},
      {"nan,nan,nan\n", 0, "t.csv:1:1: field 1: \"nan\" is not a finite number"},
      {"1,-inf,0\n", 0, "t.csv:1:3: field 2: \"-inf\" is not a finite number"},
      {"1,1e39,0\n", 0, "t.csv:1:3: field 2: \"1e39\" is not a finite number"},
      {"1,0x10,0\n", 0, "t.csv:1:3: field 2: \"0x10\" is not a finite number"},
      {"1,1 2,0\n", 0, "t.csv:1:3: field 2: \"1 2\" is not a finite number"},
      {"1,1.2.3,0\n", 0, "t.csv:1:3: field 2: \"1.2.3\" is not a finite number"},
      {"1,2,-1\n", 0, "t.csv:1:5: label -1 is negative"},
      {"1,2,1.5\n", 0, "t.csv:1:5: label 1.5 is not an integer"},
      {"1,2,3e9\n", 0, "t.csv:1:5: label 3000000000 is too large to be a class"},
      {"1,2,1048576\n", 0, "t.csv:1:5: label 1048576 is too large to be a class"},
      {"1,2,10\n", 0,
       "t.csv:1:5: label 10 is not below the number of classes; labels are integers "
       "from 0 to 9"},
      {"1,\"2,0\n", 0, "t.csv:1:3: field 2: its quote is not closed on this line"},
      {"1,\"2\"3,0\n", 0, "t.csv:1:6: field 2: text after its closing quote"},
      {"1,2\0,0\n", 8, "t.csv:1:4: a zero byte"},
      {"1,2,0\n\0\n", 8, "t.csv:2:1: a zero byte"},
  };
  struct dataset_options ten = {.use = DATASET_PREDICT, .classes = 10};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t size = cases[i].size ? cases[i].size : strlen(cases[i].text);
    const struct dataset_options *options = strstr(cases[i].error, "classes") ? &ten : &all;
    int status = load(cases[i].text, size, options);
    int good = status == DATASET_ERROR_FORMAT && strstr(d.error, cases[i].error);
    ok(good && !d.owned[0], "%s", cases[i].error);
    if (!good) diag("status %d: \"%s\"", status, d.error);
  }
  scratch_write_gz("t.csv.gz", "1,2,0\n1,2\n", 10);
  dataset_free(&d);
  is_int(dataset_load(&d, scratch_path("t.csv.gz"), &all), DATASET_ERROR_FORMAT, "packed");
  contains(d.error, "t.csv.gz:2:1: 2 fields; line 1 has 3", "counts its lines, too");
}

int main(void) {
  scratch_begin();
  reads();
  label_column();
  directory();
  split();
  hostile();
  dataset_free(&d);
  return done();
}
