#include <config.h>

#include "backends/cpu/isa/part.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

const lo_isa LO_ISA_NAME(lo_isa) = {
    .name = STRING(LO_ISA),
    .product = &LO_ISA_NAME(lo_microkernels),
    .load = LO_ISA_NAME(lo_load),
    .load_odd = LO_ISA_NAME(lo_load_odd),
    .store = LO_ISA_NAME(lo_store),
    .load_rows = LO_ISA_NAME(lo_load_rows),
    .transpose = LO_ISA_NAME(lo_transpose),
    .finish = LO_ISA_NAME(lo_finish_tile),
    .grouped_rows = LO_ISA_NAME(lo_grouped_rows),
    .grouped_panel = LO_ISA_NAME(lo_grouped_panel),
    .grouped_sums = LO_ISA_NAME(lo_grouped_sums),
    .integers = LO_ISA_NAME(lo_integers),
    .activate = LO_ISA_NAME(lo_activate),
    .derive = LO_ISA_NAME(lo_derive),
    .add = LO_ISA_NAME(lo_add),
    .sum_rows = LO_ISA_NAME(lo_sum_rows),
    .maximum = LO_ISA_NAME(lo_maximum),
    .any_nan = LO_ISA_NAME(lo_any_nan),
    .exp_sum = LO_ISA_NAME(lo_exp_sum),
    .log = LO_ISA_NAME(lo_log),
    .narrow_look = LO_ISA_NAME(lo_narrow_look),
    .narrow_scale = LO_ISA_NAME(lo_narrow_scale),
    .scale = LO_ISA_NAME(lo_scale),
    .shift = LO_ISA_NAME(lo_shift),
    .cross = LO_ISA_NAME(lo_cross),
    .blend = LO_ISA_NAME(lo_blend),
    .squares = LO_ISA_NAME(lo_squares),
    .softmax_loss = LO_ISA_NAME(lo_softmax_loss_of),
    .sgd = LO_ISA_NAME(lo_sgd),
    .adam = LO_ISA_NAME(lo_adam),
};
