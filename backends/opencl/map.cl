LO_KERNEL(GROUP) void forward(lo_in x, lo_out y, lo_cl_map p) {
  LO_EACH(p.shape)
    lo_store_at(y, &p.out, i, j, count,
                lo_activation(p.activation, lo_load_at(x, &p.in, i, j, count), p.slope));
}

LO_KERNEL(GROUP) void backward(lo_in dy, lo_in saved, lo_out dx, lo_cl_map p) {
  LO_EACH(p.shape) {
    lo_vec d = lo_load_at(dy, &p.in, i, j, count);
    if (p.activation != LO_ACT_IDENTITY)
      d *= lo_activation_derivative(p.activation, lo_load_at(saved, &p.other, i, j, count), p.slope);
    lo_store_at(dx, &p.out, i, j, count, d);
  }
}

/* The gradient, and each group's sum of squares. */
LO_KERNEL(GROUP)
void mse(lo_in y, lo_in target, lo_out dy, __global const float *scale, __global float *scratch,
         __local float *lanes, lo_cl_map p) {
  const float factor = p.factor * lo_read_scalar(scale, p.scale);
  lo_vec sum = (lo_vec)(0.0f);
  LO_EACH(p.shape) {
    lo_vec error = lo_load_at(y, &p.in, i, j, count) - lo_load_at(target, &p.other, i, j, count);
    if (p.out.type) lo_store_at(dy, &p.out, i, j, count, factor * error);
    sum += error * error;
  }
  const float all = lo_group_sum(lo_lanes_sum(sum), lanes);
  if (p.partial >= 0 && get_local_id(0) == 0) scratch[p.partial + get_group_id(0)] = all;
}
