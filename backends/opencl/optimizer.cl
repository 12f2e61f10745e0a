LO_KERNEL(GROUP)
void sgd(lo_out w, lo_in g, lo_out velocity, __global const float *lr, __global const float *momentum,
         __global const float *weight_decay, lo_cl_sgd_params p) {
  const float rate = lo_read_scalar(lr, p.lr), mu = lo_read_scalar(momentum, p.momentum);
  const float decay = lo_read_scalar(weight_decay, p.weight_decay);
  LO_EACH(p.shape) {
    lo_vec x = lo_load_at(w, &p.w, i, j, count);
    lo_vec step = lo_load_at(g, &p.g, i, j, count) + decay * x;
    if (p.velocity.type) {
      lo_vec v = mu * lo_load_at(velocity, &p.velocity, i, j, count) + step;
      lo_store_at(velocity, &p.velocity, i, j, count, v);
      step = p.nesterov ? step + mu * v : v;
    }
    lo_store_at(w, &p.w, i, j, count, x - rate * step);
  }
}

/* 1 - beta^t: expm1 and a logarithm of full precision keep the digits that 1 - pow(beta, t) loses. */
LO_FN float lo_correction(float log_beta, float t) { return -expm1(t * log_beta); }

LO_KERNEL(GROUP)
void adam(lo_out w, lo_in g, lo_out m, lo_out v, __global const float *lr,
          __global const float *beta1, __global const float *beta2, __global const float *epsilon,
          __global const float *weight_decay, __global const float *step, lo_cl_adam_params p) {
  const float rate = lo_read_scalar(lr, p.lr), eps = lo_read_scalar(epsilon, p.epsilon);
  const float b1 = lo_read_scalar(beta1, p.beta1), b2 = lo_read_scalar(beta2, p.beta2);
  const float decay = lo_read_scalar(weight_decay, p.weight_decay), t = lo_read_scalar(step, p.step);
  const float rest1 = p.beta1.offset < 0 ? p.rest1 : 1.0f - b1;
  const float rest2 = p.beta2.offset < 0 ? p.rest2 : 1.0f - b2;
  const float mean = 1.0f / lo_correction(p.beta1.offset < 0 ? p.log1 : log(b1), t);
  const float square = 1.0f / lo_correction(p.beta2.offset < 0 ? p.log2 : log(b2), t);
  LO_EACH(p.shape) {
    lo_vec x = lo_load_at(w, &p.w, i, j, count), d = lo_load_at(g, &p.g, i, j, count);
    if (p.decoupled)
      x -= rate * decay * x;
    else
      d += decay * x;
    lo_vec first = b1 * lo_load_at(m, &p.m, i, j, count) + rest1 * d;
    lo_vec second = b2 * lo_load_at(v, &p.v, i, j, count) + rest2 * d * d;
    lo_store_at(m, &p.m, i, j, count, first);
    lo_store_at(v, &p.v, i, j, count, second);
    lo_store_at(w, &p.w, i, j, count, x - rate * (first * mean) / (sqrt(second * square) + eps));
  }
}
