/* layerops: the layers of a neural network as one small library, on CUDA, OpenCL or the CPU.
 *
 * This header includes the rest:
 *   base.h      status codes, data types, views of matrices, scalars
 *   device.h    devices, contexts, buffers, events, record and replay
 *   bsr.h       block-sparse weights
 *   ops.h       the operations: GEMM, linear layers, activations, losses, optimizers, block-sparse
 *   tune.h      measuring which kernels are the fastest on this device
 *   network.h   a shallow network (MLP) on these operations
 *
 * Conventions that hold for every function:
 * - Every function that can fail returns a layerops_status; layerops_last_error() then tells what
 *   was wrong in a sentence that names the argument and the values. On success it is unchanged.
 * - Nothing aborts, exits, throws or prints (but for LAYEROPS_VERBOSE, see device.h).
 * - Sizes are int64_t and counted in elements, unless the name says bytes.
 * - Argument structs are zero-initialised (`= {0}`, in C++ `= {}`) and filled by name. Fields may
 * be appended in later versions; a program compiled against an older header keeps working.
 * - A context is used by one thread at a time; different contexts may be used in parallel.
 */
#ifndef LAYEROPS_LAYEROPS_H
#define LAYEROPS_LAYEROPS_H

#include <layerops/base.h>
#include <layerops/device.h>
#include <layerops/bsr.h>
#include <layerops/ops.h>
#include <layerops/tune.h>
#include <layerops/network.h>

#endif
