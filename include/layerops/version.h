/* The one place where the version stands; configure reads it from here. */
#ifndef LAYEROPS_VERSION_H
#define LAYEROPS_VERSION_H

#define LAYEROPS_VERSION_MAJOR 0
#define LAYEROPS_VERSION_MINOR 1
#define LAYEROPS_VERSION_PATCH 0
/* clang-format off: configure and the tests read this line as it stands */
#define LAYEROPS_VERSION "0.1.0"
/* clang-format on */
#define LAYEROPS_VERSION_NUMBER                                                                    \
  (LAYEROPS_VERSION_MAJOR * 10000 + LAYEROPS_VERSION_MINOR * 100 + LAYEROPS_VERSION_PATCH)

#endif
