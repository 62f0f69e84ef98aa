/* cuda_timing.c: what the CUDA device times, over a driver in memory that plays a clock: repeats,
 * warm-up, spread, edges, and a fault meanwhile. */
#include "cuda_kit.h"

static lt_timing time_steps(bench *b, int count, bool brief)
{
    lt_timing t = {0};
    lt_err err = {""};
    lt_step steps[3];
    for (int i = 0; i < count; i++)
        steps[i] = (lt_step){b->kernel, b->launch, {b->args[0], b->args[1], b->args[2]}};
    if (lt_device_time(b->dev, steps, count, brief, &t, &err)) fail_msg("%s", err.text);
    return t;
}

static void a_graph_is_repeated_until_it_takes_about_a_millisecond(void **state)
{
    (void)state;
    static const struct {
        double node_us, replay_us;
        int count, least, most;
    } cases[] = {
        {100, 0, 1, 12, 12},     {100, 0, 3, 12, 12},    {5000, 0, 1, 1, 1},
        {0.5, 0, 1, 2400, 2400}, {1.5, 6, 1, 600, 1200}, {0.01, 0, 3, 4095, 4095},
    };
    for (size_t i = 0; i < lt_countof(cases); i++) {
        lt_cuda_fake *fake = lt_cuda_fake_use();
        fake->node_us = cases[i].node_us;
        fake->replay_us = cases[i].replay_us;
        bench b = set_up_bench();
        const lt_timing t = time_steps(&b, cases[i].count, false);
        assert_true(t.nodes >= cases[i].least && t.nodes <= cases[i].most);
        assert_int_equal(t.nodes, fake->nodes);
        assert_int_equal(t.replays, 30);
        const double wanted = cases[i].node_us + cases[i].replay_us / t.nodes;
        assert_true(t.us > wanted * 0.9999 && t.us < wanted * 1.0001);
        assert_true(t.spread < 1e-6);
        assert_true(fake->launches * cases[i].node_us > 50e3 || cases[i].node_us < 0.1);
        close_bench(&b);
    }
}

static void a_brief_timing_takes_a_few_milliseconds(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->node_us = 10;
    bench b = set_up_bench();
    const lt_timing t = time_steps(&b, 1, true);
    assert_in_range(t.nodes, 30, 31);
    assert_int_equal(t.replays, 6);
    assert_true(t.us > 9.999 && t.us < 10.001);
    assert_true(fake->launches * fake->node_us < 5e3);
    close_bench(&b);
}

static void the_clocks_are_up_soon_after_another_timing(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->node_us = 100;
    bench b = set_up_bench();
    double busy[4], least = 1e9; /* a machine that stands still is cold again */
    for (int i = 0; i < 4; i++) {
        const int before = fake->launches;
        time_steps(&b, 1, false);
        busy[i] = (fake->launches - before) * fake->node_us;
        if (i > 0 && busy[i] < least) least = busy[i];
    }
    assert_true(busy[0] - least >= 50e3 && busy[0] - least < 60e3);
    close_bench(&b);
}

static void the_spread_is_the_distance_of_the_two_halves(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->node_us = 1000;
    fake->drift_us = 10; /* 15 replays later a replay takes 150 us more */
    bench b = set_up_bench();
    const lt_timing t = time_steps(&b, 1, false);
    assert_int_equal(t.nodes, 1);
    assert_true(t.spread * t.us > 149.9 && t.spread * t.us < 150.1);
    close_bench(&b);
}

static void a_timed_launch_is_programmatic_where_it_says_so(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    bench b = set_up_bench();
    b.launch.programmatic = true;
    time_steps(&b, 2, false);
    assert_true(fake->last.programmatic);
    close_bench(&b);
}

static void a_fault_while_timing_names_the_kernel(void **state)
{
    (void)state;
    lt_cuda_fake *fake = lt_cuda_fake_use();
    fake->fault_at = 100;
    bench b = set_up_bench();
    lt_timing t;
    lt_err err;
    const lt_step step = {b.kernel, b.launch, {b.args[0], b.args[1], b.args[2]}};
    assert_int_equal(lt_device_time(b.dev, &step, 1, false, &t, &err), -1);
    assert_holds(err.text, "timing twice__n64__w1: cuda:0: cuStreamSynchronize");
    assert_holds(err.text, ": twice__n64__w1 (");
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_is_repeated_until_it_takes_about_a_millisecond),
        cmocka_unit_test(the_clocks_are_up_soon_after_another_timing),
        cmocka_unit_test(the_spread_is_the_distance_of_the_two_halves),
        cmocka_unit_test(a_brief_timing_takes_a_few_milliseconds),
        cmocka_unit_test(a_timed_launch_is_programmatic_where_it_says_so),
        cmocka_unit_test(a_fault_while_timing_names_the_kernel),
    };
    return cmocka_run_group_tests_name("cuda_timing", tests, NULL, stop_using_the_fake);
}
