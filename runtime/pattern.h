/* pattern.h: regular expressions that split a text before its bytes are merged.
 *
 * Patterns of tokenizer.json are written for Oniguruma. PCRE2 runs them here, so a pattern may use
 * only what both read alike; \s, which they do not, is spelt out. All else is refused: another
 * split means other tokens. */
#ifndef LT_PATTERN_H
#define LT_PATTERN_H

#include "lathe.h"

typedef struct lt_pattern lt_pattern; /* owns its compiled form */

typedef struct {
    size_t from, to; /* from == to: no match */
} lt_match;

int lt_pattern_compile(lt_pattern **out, lt_span text, lt_err *err);
void lt_pattern_free(lt_pattern *p);
/* The first match in text at or behind `from`. Nothing beyond text is looked at. text must be valid
 * UTF-8. */
int lt_pattern_find(const lt_pattern *p, lt_span text, size_t from, lt_match *out, lt_err *err);
/* Appends the pattern as PCRE2 gets it. */
int lt_pattern_translate(lt_span text, lt_bytes *out, lt_err *err);

#endif
