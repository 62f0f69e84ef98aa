/* program.c: the launches of a step of the model, resolved once. A run allocates and compiles
 * nothing. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

struct lt_program {
    lt_device *dev;
    lt_step *steps;
    int count;
    lt_graph *graph;
};

void lt_program_free(lt_program *p)
{
    if (!p) return;
    if (p->graph) p->dev->ops->forget(p->dev, p->graph);
    free(p->steps);
    free(p);
}

int lt_program_new(lt_program **out, lt_device *dev, const lt_step *steps, int count, lt_err *err)
{
    if (count < 1) return lt_fail(err, "program: %d steps", count);
    lt_program *p = calloc(1, sizeof *p);
    if (p) p->steps = malloc((size_t)count * sizeof *steps);
    if (!p || !p->steps) {
        lt_fail(err, "program: out of memory for %d steps", count);
        goto fail;
    }
    memcpy(p->steps, steps, (size_t)count * sizeof *steps);
    p->dev = dev;
    p->count = count;
    for (int i = 0; i < count; i++)
        if (lt_device_check_step(dev, &steps[i], err)) {
            lt_wrap(err, "program: step %d", i);
            goto fail;
        }
    if (dev->ops->record(dev, p->steps, count, &p->graph, err)) goto fail;
    *out = p;
    return 0;
fail:
    lt_program_free(p);
    return -1;
}

int lt_program_run(lt_program *p, lt_err *err)
{
    if (lt_config_int(LT_SET_DEBUG) >= 5)
        for (int i = 0; i < p->count; i++) lt_device_tell(p->steps[i].kernel, &p->steps[i].launch);
    return p->dev->ops->replay(p->dev, p->graph, err);
}

int lt_program_time(lt_program *p, lt_timing *out, lt_err *err)
{
    return lt_device_time(p->dev, p->steps, p->count, false, out, err);
}

int lt_program_run_step(lt_program *p, int step, lt_err *err)
{
    const lt_step *s = &p->steps[step];
    if (lt_device_launch(p->dev, s->kernel, &s->launch, s->args, err)) return -1;
    return lt_device_sync(p->dev, err);
}
