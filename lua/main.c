/* main.c: where the program begins: settings, then Lua. */
#include "../runtime/cuda/nvrtc.h"
#include "../runtime/lathe.h"
#include "../runtime/worker.h"
#include "start.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    lt_err err = {{0}};
    if (lt_config_read(&err)) {
        fprintf(stderr, "lathe: %s\n", err.text);
        return 2;
    }
    if (argc == 2 && !strcmp(argv[1], "--nvrtc-child")) return lt_nvrtc_child();
    if (argc >= 2 && !strcmp(argv[1], "--tune-worker")) lt_worker_begin();
    return lt_start(argc, argv);
}
