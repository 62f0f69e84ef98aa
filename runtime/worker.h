/* worker.h: this program once more, as a process that is spoken to in lines: what may crash, hang
 * or spoil a device happens there. It ends with its parent, and no signal of the terminal reaches
 * it.
 *
 * The process is this program, called with the words that are given; lt_worker_begin is the first
 * thing that it does. It reads requests on stdin and answers on stdout. */
#ifndef LT_WORKER_H
#define LT_WORKER_H

#include "lathe.h"

typedef struct lt_worker lt_worker;

typedef enum {
    LT_WORKER_LINE,  /* out holds it, without its newline */
    LT_WORKER_LATE,  /* none came in time; the process still runs */
    LT_WORKER_AGAIN, /* a signal came in between: ask again if it does not matter */
    LT_WORKER_GONE,  /* it has ended, or cannot be heard; err says how */
} lt_worker_result;

/* words: of the command line, behind the program's name; the last one is NULL. program: NULL for
 * this one. */
int lt_worker_start(lt_worker **out, const char *program, const char *const *words, lt_err *err);
/* Kills it and waits for its end; NULL is fine. */
void lt_worker_end(lt_worker *w);
/* A line without its newline. One that has gone takes nothing: receive tells. -1: it lives and did
 * not get the whole line. */
int lt_worker_send(lt_worker *w, lt_span line, lt_err *err);
lt_worker_result lt_worker_receive(lt_worker *w, double seconds, lt_bytes *out, lt_err *err);

void lt_worker_begin(void); /* in the worker itself */

#endif
