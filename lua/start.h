/* start.h: Lua from the outside. */
#ifndef LT_START_H
#define LT_START_H

/* Runs lua/cli.lua with the words of the command line; returns the program's exit code. Prints what
 * went wrong on stderr. */
int lt_start(int argc, char **argv);

#endif
