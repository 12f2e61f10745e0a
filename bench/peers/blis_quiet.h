/* blis.h, whose thousands of inline functions are not ours to warn about. */
#pragma GCC system_header
#include <blis.h>
