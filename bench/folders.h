#ifndef BENCH_FOLDERS_H
#define BENCH_FOLDERS_H

#include <stddef.h>

/* The folder of the device files: LAYEROPS_DEVICE_FILES where that is set, the source's if the tool
   runs where it was built, else where they are installed. */
void bench_devices_folder(char *path, size_t size);

/* The folder of the peers' modules: LAYEROPS_PEERS, likewise. */
void bench_peers_folder(char *path, size_t size);

#endif
