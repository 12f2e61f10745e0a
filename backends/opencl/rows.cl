/* Softmax and softmax cross-entropy: a group for each row, whose items take every GROUP-th vector. */

#define LO_ALONG(cols)                                                                             \
  for (long j = get_local_id(0) * VW, count; j < (cols) && (count = (cols)-j, true); j += GROUP * VW)

/* exp(x - shift) / sum is the softmax, x - shift - log(sum) its logarithm. A NaN in the row reaches the
 * sum, and an infinite shift makes it NaN, as ops.h says. */
typedef struct lo_row {
  float shift, sum;
} lo_row;

LO_FN lo_row lo_look(lo_in x, const lo_cl_view *v, long i, long cols, __local float *lanes) {
  lo_row r;
  lo_vec top = (lo_vec)(-INFINITY), sum = (lo_vec)(0.0f);
  LO_ALONG(cols) top = fmax(top, lo_load(x, lo_at(v, i, j), v->type, count, -INFINITY));
  r.shift = lo_group_max(lo_lanes_max(top), lanes);
  LO_ALONG(cols) {
    lo_vec e = exp(lo_load(x, lo_at(v, i, j), v->type, count, 0.0f) - r.shift);
#if VW > 1
    if (count < VW) { /* lanes that do not exist add nothing, not even a NaN */
      float l[VW];
      LO_STORE(e, l);
      LO_ROLLED for (int n = count; n < VW; n++) l[n] = 0.0f;
      e = LO_LOAD(l);
    }
#endif
    sum += e;
  }
  r.sum = lo_group_sum(lo_lanes_sum(sum), lanes);
  return r;
}

LO_KERNEL(GROUP) void softmax(lo_in x, lo_out y, __local float *lanes, lo_cl_rows p) {
  const long i = get_group_id(0);
  const lo_row r = lo_look(x, &p.x, i, p.cols, lanes);
  const float shift = p.log ? log(r.sum) : 0.0f;
  LO_ALONG(p.cols) {
    lo_vec v = lo_load_at(x, &p.x, i, j, count) - r.shift;
    lo_store_at(y, &p.y, i, j, count, p.log ? v - shift : exp(v) / r.sum);
  }
}

/* ---- cross-entropy ---- */

/* One group: how many rows count, and the first label that is out of range. */
LO_KERNEL(GROUP)
void count_labels(__global const int *labels, __global int *scratch, __global int *fault,
                  __local int *lanes, __local long *first, lo_cl_rows p) {
  const int item = get_local_id(0);
  int counted = 0;
  long bad = p.rows;
  for (long i = item; i < p.rows; i += GROUP) {
    const int label = labels[p.labels.offset + i];
    if (label == p.ignore) continue;
    if (label >= 0 && label < p.cols)
      counted++;
    else
      bad = min(bad, i);
  }
  lanes[item] = counted;
  first[item] = bad;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item != 0) return;
  for (int l = 1; l < GROUP; l++) {
    counted += lanes[l];
    bad = min(bad, first[l]);
  }
  scratch[p.counted] = counted;
  if (bad < p.rows)
    lo_report(fault, LO_CL_FAULT_LABELS, bad, labels[p.labels.offset + bad], p.cols);
}

/* Is a row's element the largest so far? NaN is larger than all, and the first of equals counts. */
LO_FN int lo_beats(float value, long at, float best, long best_at) {
  if (best_at < 0) return 1;
  if (isnan(value) || isnan(best)) return isnan(value) && (!isnan(best) || at < best_at);
  return value > best || (value == best && at < best_at);
}

/* Where the largest element of row i stands first; -1 in an empty row. */
LO_FN long lo_largest(lo_in x, const lo_cl_view *v, long i, long cols, __local float *lanes,
                      __local long *places) {
  const int item = get_local_id(0);
  float best = 0.0f;
  long best_at = -1;
  LO_ROLLED for (long j = item; j < cols; j += GROUP) {
    const float value = lo_get(x, lo_at(v, i, j), v->type);
    if (lo_beats(value, j, best, best_at)) {
      best = value;
      best_at = j;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE); /* a sum before may still be read */
  lanes[item] = best;
  places[item] = best_at;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (item == 0)
    for (int l = 1; l < GROUP; l++)
      if (places[l] >= 0 && lo_beats(lanes[l], places[l], lanes[0], places[0])) {
        lanes[0] = lanes[l];
        places[0] = places[l];
      }
  barrier(CLK_LOCAL_MEM_FENCE);
  return places[0];
}

/* p (log(sum) + shift - x), 0 where p is 0. */
LO_FN lo_vec lo_losses_of(lo_vec share, lo_vec x, const lo_row *r, float log_sum) {
  const lo_vec loss = -share * (x - r->shift - log_sum);
  return share == 0.0f ? (lo_vec)(0.0f) : loss;
}

LO_KERNEL(GROUP)
void cross_entropy(lo_in logits, __global const int *labels, lo_in probabilities, lo_out losses,
                   lo_out dlogits, __global const float *grad_scale, __global float *scratch,
                   __local float *lanes, __local long *places, lo_cl_rows p) {
  const long i = get_group_id(0);
  const int item = get_local_id(0);
  __global int *counts = (__global int *)scratch;
  const int label = p.labels.type ? labels[p.labels.offset + i] : 0;
  const int counts_here = !p.labels.type || (label >= 0 && label < p.cols && label != p.ignore);
  const lo_row r = lo_look(logits, &p.x, i, p.cols, lanes);
  const float log_sum = log(r.sum);
  /* The row's loss, and the sum of its probabilities. */
  float loss = 0.0f, weight = 1.0f;
  if (!p.labels.type) {
    lo_vec sum = (lo_vec)(0.0f), all = (lo_vec)(0.0f);
    LO_ALONG(p.cols) {
      lo_vec share = lo_load_at(probabilities, &p.probabilities, i, j, count);
      sum += lo_losses_of(share, lo_load_at(logits, &p.x, i, j, count), &r, log_sum);
      all += share;
    }
    loss = lo_group_sum(lo_lanes_sum(sum), lanes);
    weight = lo_group_sum(lo_lanes_sum(all), lanes);
  } else if (counts_here) {
    /* the logit is near the shift, which may be far larger than their difference */
    loss = log_sum - (lo_get(logits, lo_at(&p.x, i, label), p.x.type) - r.shift);
  }
  int hit = 0;
  if (p.correct.type) {
    const long guess = lo_largest(logits, &p.x, i, p.cols, lanes, places);
    const long truth =
        p.labels.type ? label
                      : lo_largest(probabilities, &p.probabilities, i, p.cols, lanes, places);
    hit = counts_here && guess >= 0 && guess == truth;
  }
  if (item == 0) {
    scratch[p.row_losses + i] = loss;
    counts[p.row_correct + i] = hit;
    if (p.losses.type) lo_put(losses, p.losses.offset + i, p.losses.type, loss);
  }
  if (!p.y.type) return;
  /* In place over the logits: all items are done with reading the row as a whole. */
  barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
  const int counted = p.labels.type ? counts[p.counted] : (int)p.rows;
  float scale = lo_read_scalar(grad_scale, p.grad_scale);
  if (p.mean && counted) scale /= (float)counted;
  LO_ALONG(p.cols) {
    lo_vec d = (lo_vec)(0.0f);
    if (counts_here) {
      lo_vec share = (lo_vec)(0.0f);
      if (!p.labels.type) {
        share = lo_load_at(probabilities, &p.probabilities, i, j, count);
      } else if (label >= j && label - j < VW) {
#if VW == 1
        share = 1.0f;
#else
        float one[VW];
        for (int l = 0; l < VW; l++) one[l] = l == label - j ? 1.0f : 0.0f;
        share = LO_LOAD(one);
#endif
      }
      d = scale * (exp(lo_load_at(logits, &p.x, i, j, count) - r.shift) / r.sum * weight - share);
    }
    lo_store_at(dlogits, &p.y, i, j, count, d);
  }
}

/* One group: the rows' losses and hits, summed. */
LO_KERNEL(GROUP)
void summary(__global const float *scratch, lo_out loss, lo_out correct, __local float *lanes,
             __local int *hits, lo_cl_rows p) {
  __global const int *counts = (__global const int *)scratch;
  const int item = get_local_id(0);
  int hit = 0;
  lo_vec sum = (lo_vec)(0.0f);
  for (long i = item * VW; i < p.rows; i += GROUP * VW)
    sum += lo_load((lo_in)scratch, p.row_losses + i, LO_TYPE_F32, p.rows - i, 0.0f);
  for (long i = item; i < p.rows; i += GROUP) hit += counts[p.row_correct + i];
  hits[item] = hit;
  const float all = lo_group_sum(lo_lanes_sum(sum), lanes);
  if (item != 0) return;
  for (int l = 1; l < GROUP; l++) hit += hits[l];
  const int counted = p.labels.type ? counts[p.counted] : (int)p.rows;
  if (p.loss.type)
    lo_put(loss, p.loss.offset, p.loss.type, p.mean && counted ? all / (float)counted : all);
  if (p.correct.type) ((__global int *)correct)[p.correct.offset] = hit;
}
