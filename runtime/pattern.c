/* pattern.c: compiles and runs patterns with PCRE2; the one file that includes its header. */
#include "pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <stdlib.h>

struct lt_pattern {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
};

static int compile(lt_pattern *p, lt_span text, lt_err *err)
{
    int number;
    size_t at;
    unsigned char why[128] = {0};
    uint32_t can_be_empty = 1;
    const uint32_t options =
        PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C;
    p->code = pcre2_compile(text.len ? text.ptr : (const void *)"", text.len, options, &number, &at,
                            NULL);
    if (!p->code) {
        pcre2_get_error_message(number, why, sizeof why);
        return lt_fail(err, "is no regular expression: %s", (char *)why);
    }
    pcre2_pattern_info(p->code, PCRE2_INFO_MATCHEMPTY, &can_be_empty);
    if (can_be_empty) return lt_fail(err, "matches empty text, which is not supported");
    p->data = pcre2_match_data_create(1, NULL);
    p->context = pcre2_match_context_create(NULL);
    return p->data && p->context ? 0 : lt_fail(err, "out of memory");
}

int lt_pattern_compile(lt_pattern **out, lt_span text, lt_err *err)
{
    lt_bytes translated = {0};
    lt_pattern *p = calloc(1, sizeof *p);
    if (!p) return lt_fail(err, "split pattern: out of memory");
    if (lt_pattern_translate(text, &translated, err)) goto fail;
    if (compile(p, lt_bytes_view(&translated), err)) goto fail;
    lt_bytes_clear(&translated);
    *out = p;
    return 0;
fail:
    lt_bytes_clear(&translated);
    lt_pattern_free(p);
    return lt_wrap(err, "split pattern");
}

void lt_pattern_free(lt_pattern *p)
{
    if (!p) return;
    pcre2_match_context_free(p->context);
    pcre2_match_data_free(p->data);
    pcre2_code_free(p->code);
    free(p);
}

int lt_pattern_find(const lt_pattern *p, lt_span text, size_t from, lt_match *out, lt_err *err)
{
    /* A greedy run gives back one character a try: a few tries for each byte are honest work, 10^7
     * is PCRE2's own limit. */
    const size_t tries = 10000000 + 16 * text.len;
    pcre2_set_match_limit(p->context, tries > UINT32_MAX ? UINT32_MAX : (uint32_t)tries);
    const int n =
        pcre2_match(p->code, text.ptr, text.len, from, PCRE2_NO_UTF_CHECK, p->data, p->context);
    if (n == PCRE2_ERROR_NOMATCH) {
        *out = (lt_match){0, 0};
        return 0;
    }
    if (n < 0) {
        unsigned char why[128] = {0};
        pcre2_get_error_message(n, why, sizeof why);
        return lt_fail(err, "split pattern: gave up at byte %zu: %s", from, (char *)why);
    }
    const size_t *bounds = pcre2_get_ovector_pointer(p->data);
    *out = (lt_match){bounds[0], bounds[1]};
    return 0;
}
