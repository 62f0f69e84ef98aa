/* worker.c: a process that is spoken to in lines: what it says, when it is late, how it ended, and
 * that none is left behind. */
#include "runtime/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static lt_worker *start(const char *script)
{
    lt_worker *w = NULL;
    lt_err err;
    if (lt_worker_start(&w, "/bin/sh", (const char *[]){"-c", script, NULL}, &err))
        fail_msg("%s", err.text);
    return w;
}

static void check_receive(lt_worker *w, double seconds, lt_worker_result wanted, const char *said)
{
    lt_bytes line = {0};
    lt_err err = {""};
    const lt_worker_result got = lt_worker_receive(w, seconds, &line, &err);
    const char *text = got == LT_WORKER_LINE ? (line.ptr ? line.ptr : "") : err.text;
    if (got != wanted || !strstr(text, said)) fail_msg("%d '%s', not '%s'", got, text, said);
    lt_bytes_clear(&line);
}

static void lines_go_there_and_back_whole_and_in_order(void **state)
{
    (void)state;
    lt_err err;
    lt_bytes large = {0};
    lt_worker *w = start("while read -r x; do echo \"got $x\"; done");
    for (int i = 0; i < 100000; i++) lt_bytes_append(&large, "x", 1, NULL);
    lt_worker_send(w, lt_span_text("a b"), &err);
    lt_worker_send(w, lt_bytes_view(&large), &err);
    lt_worker_send(w, lt_span_text(""), &err);
    check_receive(w, 10, LT_WORKER_LINE, "got a b");
    check_receive(w, 10, LT_WORKER_LINE, large.ptr);
    check_receive(w, 10, LT_WORKER_LINE, "got ");
    lt_bytes_clear(&large);
    lt_worker_end(w);
}

static void one_that_says_nothing_is_late_and_can_be_asked_again(void **state)
{
    (void)state;
    lt_worker *w = start("printf half; sleep 0.3; echo ' a line'; exec sleep 100");
    const double from = lt_now_us();
    check_receive(w, 0.05, LT_WORKER_LATE, "");
    assert_true(lt_now_us() - from < 0.29e6);
    check_receive(w, 10, LT_WORKER_LINE, "half a line");
    check_receive(w, 0, LT_WORKER_LATE, "");
    lt_worker_end(w);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left, and none unwaited for */
}

static void one_that_ends_is_gone_after_its_last_line_and_says_how(void **state)
{
    (void)state;
    static const char *const ends[][2] = {{"exit 3", "its process ended with 3"},
                                          {"kill -SEGV $$", "its process was ended by SIGSEGV"},
                                          {"kill -KILL $$", "its process was ended by SIGKILL"}};
    for (size_t i = 0; i < lt_countof(ends); i++) {
        char script[100];
        lt_err err;
        snprintf(script, sizeof script, "echo last; %s", ends[i][0]);
        lt_worker *w = start(script);
        check_receive(w, 10, LT_WORKER_LINE, "last");
        check_receive(w, 10, LT_WORKER_GONE, ends[i][1]);
        assert_int_equal(lt_worker_send(w, lt_span_text("x"), &err), 0);
        check_receive(w, 10, LT_WORKER_GONE, ends[i][1]);
        lt_worker_end(w);
    }
}

static void one_that_cannot_be_told_or_heard_is_said_at_once(void **state)
{
    (void)state;
    lt_err err;
    lt_worker *w = start("exec sleep 100");
    const int socket = open("/proc/self/fd", O_RDONLY | O_DIRECTORY); /* the next free number */
    assert_int_equal(dup2(socket, socket - 1), socket - 1); /* is one above the worker's */
    close(socket);
    const double from = lt_now_us();
    assert_int_equal(lt_worker_send(w, lt_span_text("x"), &err), -1);
    assert_string_equal(err.text, "worker: cannot be told: Socket operation on non-socket");
    check_receive(w, 60, LT_WORKER_GONE, "its process cannot be heard: ");
    assert_true(lt_now_us() - from < 5e6);
    lt_worker_end(w);
}

static volatile sig_atomic_t ticks;

static void on_alarm(int number)
{
    (void)number;
    ticks++;
}

static void a_signal_in_between_is_told(void **state)
{
    (void)state;
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct sigaction old;
    lt_worker *w = start("exec sleep 100");
    sigaction(SIGALRM, &action, &old);
    alarm(1);
    check_receive(w, 10, LT_WORKER_AGAIN, "");
    assert_int_equal(ticks, 1);
    sigaction(SIGALRM, &old, NULL);
    lt_worker_end(w);
}

static void a_program_that_is_not_there_is_named(void **state)
{
    (void)state;
    lt_worker *w = NULL;
    lt_err err;
    assert_int_equal(lt_worker_start(&w, "/nowhere", (const char *[]){NULL}, &err), -1);
    assert_string_equal(err.text, "worker: cannot start /nowhere: No such file or directory");
    assert_null(w);
    lt_worker_end(NULL);
}

/* The parent starts a worker that never ends, and is killed. */
static void it_ends_with_its_parent_and_is_out_of_reach_of_the_terminal(void **state)
{
    (void)state;
    int ends[2];
    pid_t worker = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t parent = fork();
    if (parent == 0) {
        lt_worker *w = NULL;
        lt_err err;
        lt_bytes line = {0};
        const char *words[] = {"--worker", NULL};
        if (lt_worker_start(&w, NULL, words, &err)) _exit(1);
        if (lt_worker_receive(w, 10, &line, &err) != LT_WORKER_LINE) _exit(2);
        const pid_t pid = atoi(line.ptr);
        if (write(ends[1], &pid, sizeof pid) != sizeof pid) _exit(3);
        for (;;) pause();
    }
    assert_int_equal(read(ends[0], &worker, sizeof worker), sizeof worker);
    const pid_t group = getpgid(worker);
    assert_int_equal(kill(parent, SIGKILL), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    for (int i = 0; i < 1000 && kill(worker, 0) == 0; i++) usleep(5000);
    const int gone = kill(worker, 0) && errno == ESRCH;
    if (!gone) kill(worker, SIGKILL);
    assert_true(gone);
    assert_int_equal(group, worker);
    close(ends[0]);
    close(ends[1]);
}

_Noreturn static void be_a_worker(void)
{
    lt_worker_begin();
    printf("%ld\n", (long)getpid());
    fflush(stdout);
    for (;;) pause();
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--worker")) be_a_worker();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_go_there_and_back_whole_and_in_order),
        cmocka_unit_test(one_that_says_nothing_is_late_and_can_be_asked_again),
        cmocka_unit_test(one_that_ends_is_gone_after_its_last_line_and_says_how),
        cmocka_unit_test(one_that_cannot_be_told_or_heard_is_said_at_once),
        cmocka_unit_test(a_signal_in_between_is_told),
        cmocka_unit_test(a_program_that_is_not_there_is_named),
        cmocka_unit_test(it_ends_with_its_parent_and_is_out_of_reach_of_the_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
