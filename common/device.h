/* Devices: listing, naming, and the one lo_device that all contexts of a device share. */
#ifndef LO_DEVICE_H
#define LO_DEVICE_H

#include "common/context.h"

/* Finds backend and index of a name (NULL, "" and "auto" included); NO_DEVICE and why not. */
layerops_status lo_device_resolve(const char *name, const struct lo_backend **backend, int *index);

/* The device, made at the first call; NULL where there is no memory. */
lo_device *lo_device_get(const struct lo_backend *backend, int index, const char *name);

/* Info of one device, available and reason included. */
layerops_status lo_device_info(const struct lo_backend *backend, int index,
                               layerops_device_info *info);

#endif
