#ifndef BENCH_HOST_COST_H
#define BENCH_HOST_COST_H

/* The other side of host_cost.c: an empty kernel with as many bytes of arguments as a product's,
 * launched as the library launches. Functions return the CUDA runtime's error number. */

#ifdef __cplusplus
extern "C" {
#endif

int empty_stream(void **stream);
int empty_bytes(void); /* of arguments */
int empty_launch(void *stream);
int empty_graph(void *stream, int launches, void **graph);
int empty_replay(void *graph, void *stream);
int empty_wait(void *stream);

#ifdef __cplusplus
}
#endif
#endif
