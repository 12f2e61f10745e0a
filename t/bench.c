#include <config.h>

#include "t/tap.h"

int main(void) { ok(1, "x"); return done(); }
