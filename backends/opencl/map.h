/* dX = dY * act'(saved), which linear_backward needs too; saved may be absent where activation is
 * IDENTITY. */
#ifndef LO_OPENCL_MAP_H
#define LO_OPENCL_MAP_H

#include "backends/opencl/opencl.h"

layerops_status lo_cl_map_backward(layerops_context *ctx, const layerops_matrix *dy,
                                   const layerops_matrix *saved, const layerops_matrix *dx,
                                   layerops_activation activation, float slope);

#endif
