/* replay.c: gives each of the files that are named to the reader of FUZZ_READER. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int main(int argc, char **argv)
{
    enum { MOST = 1 << 20 };
    uint8_t *bytes = malloc(MOST);
    for (int i = 1; bytes && i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) return 1;
        const size_t count = fread(bytes, 1, MOST, f);
        fclose(f);
        fprintf(stderr, "%s\n", argv[i]); /* the last one is the one that did not come back */
        LLVMFuzzerTestOneInput(bytes, count);
    }
    free(bytes);
    return bytes ? 0 : 1;
}
