/* tokenizer.c: UTF-8 in portions, merging, split patterns, and the tokenizer made of them, filled
 * by hand. What files say is tested in tokenizer_file.c. */
#include "runtime/tokenizer.h"
#include "runtime/bpe.h"
#include "runtime/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % below;
}

static void is_text(const lt_bytes *got, const char *want)
{
    assert_string_equal(got->ptr ? got->ptr : "", want);
}

static void says(const lt_err *err, const char *part)
{
    if (!strstr(err->text, part)) fail_msg("'%s' does not say '%s'", err->text, part);
}

/* ---- UTF-8 ---- */

#define MARK "\xef\xbf\xbd"

static const struct {
    const char *bytes, *text;
} broken[] = {
    {"abc", "abc"},
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    {"\x80", MARK},
    {"\xc0\x80", MARK MARK},
    {"\xed\xa0\x80", MARK MARK MARK},
    {"\xf5\xff", MARK MARK},
    {"\xe2\x82", MARK},
    {"\xf0\x9f\x98", MARK},
    {"\xf0\x9f\x98x", MARK "x"},
    {"\xe2\x82\xe2\x82\xac", MARK "\xe2\x82\xac"},
    {"\xf4\x90\x80\x80", MARK MARK MARK MARK},
    {"\xe0\x9f\x80z", MARK MARK MARK "z"},
};

static void broken_characters_become_marks_in_any_portions(void **state)
{
    (void)state;
    for (size_t i = 0; i < lt_countof(broken); i++) {
        const char *bytes = broken[i].bytes;
        for (size_t cut = 0; cut <= strlen(bytes); cut++) {
            lt_err err = {{0}};
            lt_utf8_stream s = {.count = 0};
            lt_bytes out = {0};
            assert_int_equal(lt_utf8_push(&s, (lt_span){bytes, cut}, &out, &err), 0);
            assert_int_equal(lt_utf8_prefix(lt_bytes_view(&out)), out.len);
            assert_int_equal(lt_utf8_push(&s, lt_span_text(bytes + cut), &out, &err), 0);
            assert_int_equal(lt_utf8_finish(&s, &out, &err), 0);
            is_text(&out, broken[i].text);
            lt_bytes_clear(&out);
        }
    }
}

static void nothing_is_given_before_a_character_is_whole(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_utf8_stream s = {.count = 0};
    lt_bytes out = {0};
    const char *emoji = "\xf0\x9f\x98\x80";
    for (int i = 0; i < 4; i++) {
        assert_int_equal(out.len, 0);
        assert_int_equal(lt_utf8_push(&s, (lt_span){emoji + i, 1}, &out, &err), 0);
    }
    is_text(&out, emoji);
    lt_bytes_clear(&out);
}

static void what_a_message_shows_is_short_and_printable(void **state)
{
    (void)state;
    char out[LT_UTF8_SHOWN];
    assert_string_equal(lt_utf8_show(out, lt_span_text("a\n\x80\xc3\xa9")), "a\\x0a\\x80\xc3\xa9");
    assert_string_equal(lt_utf8_show(out, lt_span_text("")), "");
    char longer[100] = {0};
    memset(longer, 'x', 99);
    assert_string_equal(lt_utf8_show(out, lt_span_text(longer)) + 40, "...");
}

/* ---- merging ---- */

typedef struct {
    int32_t left, right, id;
} rule;

/* The definition: again and again the earliest rule that fits anywhere, at its leftmost place. */
static size_t merge_slowly(const rule *rules, size_t count, int32_t *ids, size_t n)
{
    for (size_t r = 0; r < count;) {
        size_t i = 0;
        while (i + 1 < n && (ids[i] != rules[r].left || ids[i + 1] != rules[r].right)) i++;
        if (i + 1 >= n) {
            r++;
            continue;
        }
        ids[i] = rules[r].id;
        memmove(ids + i + 1, ids + i + 2, (n - i - 2) * sizeof *ids);
        n--;
        r = 0;
    }
    return n;
}

static void merging_is_what_its_definition_says(void **state)
{
    (void)state;
    for (int round = 0; round < 400; round++) {
        lt_err err = {{0}};
        lt_bpe *b = NULL;
        rule rules[24];
        int32_t fast[64], slow[64];
        const size_t count = draw(24), n = draw(64);
        assert_int_equal(lt_bpe_new(&b, &err), 0);
        for (size_t i = 0; i < count; i++) {
            const int32_t ids = 3 + (int32_t)i; /* a rule may use what earlier ones make */
            rules[i] = (rule){(int32_t)draw((uint32_t)ids), (int32_t)draw((uint32_t)ids), ids};
            for (size_t k = 0; k < i; k++) /* a pair has one rule */
                if (rules[k].left == rules[i].left && rules[k].right == rules[i].right)
                    rules[i].left = ids;
            assert_int_equal(lt_bpe_add(b, rules[i].left, rules[i].right, ids, &err), 0);
        }
        for (size_t i = 0; i < n; i++) fast[i] = slow[i] = (int32_t)draw(3);
        size_t kept = n;
        assert_int_equal(lt_bpe_merge(b, fast, &kept, &err), 0);
        assert_int_equal(kept, merge_slowly(rules, count, slow, n));
        assert_memory_equal(fast, slow, kept * sizeof *fast);
        lt_bpe_free(b);
    }
}

static void of_a_pair_that_is_added_twice_the_later_rule_counts(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_bpe *b = NULL;
    int32_t ids[] = {1, 2, 3};
    size_t count = 3;
    assert_int_equal(lt_bpe_new(&b, &err), 0);
    assert_int_equal(lt_bpe_add(b, 1, 2, 10, &err), 0);
    assert_int_equal(lt_bpe_add(b, 2, 3, 11, &err), 0);
    assert_int_equal(lt_bpe_add(b, 1, 2, 12, &err), 0);
    assert_int_equal(lt_bpe_merge(b, ids, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(ids[0], 1); /* the rule of 2 and 3 is the earlier one now */
    assert_int_equal(ids[1], 11);
    lt_bpe_free(b);
}

/* ---- patterns ---- */

#define SPACES                                                                                     \
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"    \
    "\\x{205f}\\x{3000}"

static const struct {
    const char *from, *to; /* to: NULL where it is refused */
} translations[] = {
    {"(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+", "(?i:'s|'t)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"},
    {"\\s+(?!\\S)", "[" SPACES "]+(?![^" SPACES "])"},
    {"[^\\s\\p{^Lu}]", "[^" SPACES "\\p{^Lu}]"},
    {".\\.\\-\\/\\'\\ ", "[^\\n]\\.\\-\\/\\'\\ "},
    {"\\v\\x41\\x{3042}\\u4e00", "\\x{b}\\x{41}\\x{3042}\\x{4e00}"},
    {"\\p{Han}\\P{Greek}", "\\p{sc:Han}\\P{sc:Greek}"},
    {"a{2}b{2,}c{2,3}d*+e+?", "a{2}b{2,}c{2,3}d*+e+?"},
    {"(?<=a)b(?<!c)(?=d)(?>e)(f)", "(?<=a)b(?<!c)(?=d)(?>e)(f)"},
    {"[a.^$(){}?*+|-]", "[a.^$(){}?*+|-]"},
    {"\\w", NULL},
    {"\\W", NULL},
    {"\\b", NULL},
    {"[\\b]", NULL},
    {"\\h", NULL},
    {"\\R", NULL},
    {"\\K", NULL},
    {"\\G", NULL},
    {"\\1", NULL},
    {"\\", NULL},
    {"\\xe4", NULL},
    {"\\x4", NULL},
    {"\\x{}", NULL},
    {"\\u41", NULL},
    {"\\pL", NULL},
    {"\\p{", NULL},
    {"\\p{L", NULL},
    {"\\p{}", NULL},
    {"\\p{L&}", NULL},
    {"\\p{LC}", NULL},
    {"^a", NULL},
    {"a$", NULL},
    {"(?i)a", NULL},
    {"(?m:a)", NULL},
    {"(?#a)", NULL},
    {"(?<name>a)", NULL},
    {"(*UTF)a", NULL},
    {"[a[b]]", NULL},
    {"[[:alpha:]]", NULL},
    {"[a&&b]", NULL},
    {"[]a]", NULL},
    {"[^]a]", NULL},
    {"a{,3}", NULL},
    {"a{", NULL},
    {"a{x}", NULL},
    {"a{2}+", NULL},
    {"a{2,3}?", NULL},
    {"a{2}{3}", NULL},
    {"\xff", NULL},
};

static void patterns_become_what_both_engines_read_alike(void **state)
{
    (void)state;
    for (size_t i = 0; i < lt_countof(translations); i++) {
        lt_err err = {{0}};
        lt_bytes out = {0};
        const int failed = lt_pattern_translate(lt_span_text(translations[i].from), &out, &err);
        if (failed != (translations[i].to ? 0 : -1)) fail_msg("%s", translations[i].from);
        if (!failed) is_text(&out, translations[i].to);
        if (failed) says(&err, strcmp(translations[i].from, "\xff") ? "is not supported" : "UTF-8");
        lt_bytes_clear(&out);
    }
}

static const char *const bad_patterns[][2] = {
    {"(a", "split pattern: is no regular expression: missing closing parenthesis"},
    {"a**", "split pattern: is no regular expression"},
    {"[b-a]", "split pattern: is no regular expression"},
    {"\\p{Klingon}", "split pattern: is no regular expression: unknown property"},
    {"a*", "split pattern: matches empty text"},
    {"(?=a)", "split pattern: matches empty text"},
    {"", "split pattern: matches empty text"},
    {"\\w+", "split pattern: '\\w' at byte 0 is not supported"},
    {"ab\\\xc3\xa9", "split pattern: '\\\xc3\xa9' at byte 2 is not supported"},
};

static void patterns_that_cannot_be_used_are_refused_with_the_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < lt_countof(bad_patterns); i++) {
        lt_err err = {{0}};
        lt_pattern *p = NULL;
        assert_int_equal(lt_pattern_compile(&p, lt_span_text(bad_patterns[i][0]), &err), -1);
        assert_null(p);
        says(&err, bad_patterns[i][1]);
    }
}

static void a_match_does_not_look_beyond_its_text(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_pattern *p = NULL;
    lt_match m;
    assert_int_equal(lt_pattern_compile(&p, lt_span_text("\\s+(?!\\S)"), &err), 0);
    assert_int_equal(lt_pattern_find(p, (lt_span){"a   b", 5}, 0, &m, &err), 0);
    assert_int_equal(m.from, 1);
    assert_int_equal(m.to, 3);
    assert_int_equal(lt_pattern_find(p, (lt_span){"a   b", 4}, 0, &m, &err), 0);
    assert_int_equal(m.to, 4);
    assert_int_equal(lt_pattern_find(p, (lt_span){"a b", 3}, 0, &m, &err), 0);
    assert_int_equal(m.from, m.to);
    lt_pattern_free(p);
}

/* ---- the tokenizer ---- */

/* Appends a character as UTF-8; all here are below U+0800. */
static size_t put_char(char *out, uint32_t code)
{
    if (code < 0x80) return out[0] = (char)code, 1;
    out[0] = (char)(0xc0 | code >> 6);
    out[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

/* A tokenizer where id = byte for 0..255. */
static lt_tokenizer *new_bytes(void)
{
    lt_err err = {{0}};
    lt_tokenizer *t = NULL;
    uint32_t next = 0x100;
    assert_int_equal(lt_tokenizer_new(&t, &err), 0);
    for (uint32_t byte = 0; byte < 256; byte++) {
        char text[2];
        const bool itself = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
        const size_t n = put_char(text, itself ? byte : next++);
        assert_int_equal(lt_tokenizer_add_token(t, (int)byte, (lt_span){text, n}, &err), 0);
    }
    return t;
}

static void add_merged(lt_tokenizer *t, int id, const char *left, const char *right)
{
    lt_err err = {{0}};
    char both[64];
    snprintf(both, sizeof both, "%s%s", left, right);
    assert_int_equal(lt_tokenizer_add_token(t, id, lt_span_text(both), &err), 0);
    assert_int_equal(lt_tokenizer_add_merge(t, lt_span_text(left), lt_span_text(right), &err), 0);
}

static void add_added(lt_tokenizer *t, lt_added a)
{
    lt_err err = {{0}};
    if (lt_tokenizer_add_added(t, &a, &err)) fail_msg("%s", err.text);
}

static void make_ready(lt_tokenizer *t)
{
    lt_err err = {{0}};
    if (lt_tokenizer_ready(t, &err)) fail_msg("%s", err.text);
}

/* The ids of text, as text. */
static const char *ids_of(lt_tokenizer *t, const char *text)
{
    static char out[512];
    lt_err err = {{0}};
    lt_ids ids = {0};
    size_t n = 0;
    if (lt_tokenizer_encode(t, lt_span_text(text), &ids, &err)) fail_msg("%s", err.text);
    out[0] = 0;
    for (size_t i = 0; i < ids.count; i++)
        n += (size_t)snprintf(out + n, sizeof out - n, "%s%d", i ? " " : "", ids.at[i]);
    lt_ids_clear(&ids);
    return out;
}

static void bytes_and_merges_make_tokens(void **state)
{
    (void)state;
    lt_tokenizer *t = new_bytes();
    add_merged(t, 300, "b", "c");
    add_merged(t, 301, "a", "b");
    add_merged(t, 302, "\xc4\xa0", "a"); /* U+0120 is a space */
    make_ready(t);
    assert_string_equal(ids_of(t, ""), "");
    assert_string_equal(ids_of(t, "abc"), "97 300");
    assert_string_equal(ids_of(t, "ab"), "301");
    assert_string_equal(ids_of(t, "x a\n"), "120 302 10");
    assert_string_equal(ids_of(t, "\xc3\xa9"), "195 169");
    assert_int_equal(lt_tokenizer_count(t), 303);
    lt_tokenizer_free(t);
}

static void merges_do_not_cross_a_split(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_tokenizer *t = new_bytes();
    add_merged(t, 300, "a", "1");
    add_merged(t, 301, "1", "1");
    assert_int_equal(lt_tokenizer_add_split(t, lt_span_text("\\d+"), LT_SPLIT_ALL, &err), 0);
    assert_int_equal(lt_tokenizer_add_split(t, lt_span_text("x"), LT_SPLIT_GAPS, &err), 0);
    make_ready(t);
    assert_string_equal(ids_of(t, "a1a11"), "97 49 97 301");
    assert_string_equal(ids_of(t, "xax1xx1"), "97 49 49");
    lt_tokenizer_free(t);
}

static void added_tokens_are_cut_out_first_and_the_longest_wins(void **state)
{
    (void)state;
    lt_tokenizer *t = new_bytes();
    add_merged(t, 300, "a", "<");
    add_added(t, (lt_added){.id = 400, .text = lt_span_text("<e>"), .special = true});
    add_added(t, (lt_added){.id = 401, .text = lt_span_text("<e>!")});
    add_added(t, (lt_added){.id = 101, .text = lt_span_text("e"), .normalized = true});
    add_added(t, (lt_added){.id = 403, .text = lt_span_text("<m>"), .lstrip = true});
    add_added(t, (lt_added){.id = 404, .text = lt_span_text("<n>"), .rstrip = true});
    make_ready(t);
    assert_string_equal(ids_of(t, "a<e>"), "97 400");
    assert_string_equal(ids_of(t, "a<e>!e"), "97 401 101");
    assert_string_equal(ids_of(t, "a<e"), "300 101");
    assert_string_equal(ids_of(t, "x \t\xe3\x80\x80<m> y"), "120 403 32 121");
    assert_string_equal(ids_of(t, "x <n> \xc2\xa0y"), "120 32 404 121");
    assert_string_equal(ids_of(t, "<n> <m>"), "404 403");
    assert_int_equal(lt_tokenizer_find(t, lt_span_text("<e>")), 400);
    assert_int_equal(lt_tokenizer_find(t, lt_span_text("e")), 101);
    assert_int_equal(lt_tokenizer_find(t, lt_span_text("<")), -1);
    assert_int_equal(lt_tokenizer_find(t, lt_span_text("")), -1);
    assert_true(lt_tokenizer_is_special(t, 400));
    assert_false(lt_tokenizer_is_special(t, 401));
    assert_false(lt_tokenizer_is_special(t, -1));
    assert_false(lt_tokenizer_is_special(t, 1000000));
    lt_tokenizer_free(t);
}

static void a_space_is_put_in_front_of_each_piece_between_added_tokens(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_tokenizer *t = new_bytes();
    add_added(t, (lt_added){.id = 400, .text = lt_span_text("||")});
    assert_int_equal(lt_tokenizer_add_space(t, &err), 0);
    make_ready(t);
    assert_string_equal(ids_of(t, "a|| b||"), "32 97 400 32 98 400");
    lt_tokenizer_free(t);
}

static void a_piece_that_is_a_token_skips_the_merges_where_that_is_set(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        lt_err err = {{0}};
        lt_tokenizer *t = new_bytes();
        assert_int_equal(lt_tokenizer_add_token(t, 300, lt_span_text("abc"), &err), 0);
        lt_tokenizer_set_ignore_merges(t, on);
        make_ready(t);
        assert_string_equal(ids_of(t, "abc"), on ? "300" : "97 98 99");
        assert_string_equal(ids_of(t, "abcd"), "97 98 99 100");
        lt_tokenizer_free(t);
    }
}

static void ids_become_text_and_special_ones_stay_silent_in_a_stream(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_tokenizer *t = new_bytes();
    lt_bytes out = {0};
    lt_utf8_stream s = {.count = 0};
    /* U+FF5C is no character of the alphabet, U+00E9 is byte e9 there and itself in an added token
     */
    assert_int_equal(lt_tokenizer_add_token(t, 300, lt_span_text("\xef\xbd\x9c"), &err), 0);
    add_added(t, (lt_added){.id = 400, .text = lt_span_text("<e>"), .special = true});
    add_added(t, (lt_added){.id = 0xe9, .text = lt_span_text("\xc3\xa9")});
    make_ready(t);
    const int32_t ids[] = {32, 300, 400, 0xe9, 0xc3};
    assert_int_equal(lt_tokenizer_decode(t, ids, 5, &out, &err), 0);
    is_text(&out, " \xef\xbd\x9c<e>\xc3\xa9\xc3");
    out.len = 0;
    for (int i = 0; i < 5; i++) assert_int_equal(lt_tokenizer_push(t, &s, ids[i], &out, &err), 0);
    is_text(&out, " \xef\xbd\x9c\xc3\xa9");
    assert_int_equal(lt_utf8_finish(&s, &out, &err), 0);
    is_text(&out, " \xef\xbd\x9c\xc3\xa9" MARK);
    out.len = 0;
    for (int id = -1; id < 1000; id += 350) /* -1, 349, 699 */
        assert_int_equal(lt_tokenizer_push(t, &s, id, &out, &err), 0);
    is_text(&out, MARK MARK MARK);
    assert_int_equal(lt_tokenizer_decode(t, &(int32_t){349}, 1, &out, &err), -1);
    says(&err, "the tokenizer has none");
    lt_bytes_clear(&out);
    lt_tokenizer_free(t);
}

static void texts_that_cannot_be_encoded_are_refused_and_leave_no_ids(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_tokenizer *t = NULL;
    lt_ids ids = {0};
    assert_int_equal(lt_tokenizer_new(&t, &err), 0);
    assert_int_equal(lt_tokenizer_add_token(t, 0, lt_span_text("a"), &err), 0);
    lt_tokenizer_set_nfc(t, true);
    make_ready(t);
    assert_int_equal(lt_tokenizer_encode(t, lt_span_text("ab"), &ids, &err), -1);
    says(&err, "text: byte 0x62 has no token in the vocabulary");
    assert_int_equal(lt_tokenizer_encode(t, lt_span_text("aa\xc3"), &ids, &err), -1);
    says(&err, "text: is not UTF-8 at byte 2");
    assert_int_equal(lt_tokenizer_encode(t, lt_span_text("ae\xcc\x81"), &ids, &err), -1);
    says(&err, "normalizer NFC: '\xcc\x81' (U+0301) is beyond U+02FF");
    assert_int_equal(ids.count, 0);
    lt_ids_clear(&ids);
    lt_tokenizer_free(t);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_tokenizer *t = new_bytes();
    assert_int_equal(lt_tokenizer_add_token(t, 97, lt_span_text("ab"), &err), -1);
    says(&err, "vocabulary: id 97 is both 'a' and 'ab'");
    assert_int_equal(lt_tokenizer_add_token(t, 300, lt_span_text("a"), &err), -1);
    says(&err, "vocabulary: 'a' has the ids 97 and 300");
    assert_int_equal(lt_tokenizer_add_token(t, -1, lt_span_text("ab"), &err), -1);
    says(&err, "token 'ab': id -1 is not from 0 to 4194303");
    assert_int_equal(lt_tokenizer_add_token(t, LT_TOKENIZER_IDS, lt_span_text("ab"), &err), -1);
    assert_int_equal(lt_tokenizer_add_token(t, 300, lt_span_text("a\xff"), &err), -1);
    says(&err, "token 'a\\xff': is not UTF-8");
    assert_int_equal(lt_tokenizer_add_merge(t, lt_span_text("a"), lt_span_text("b"), &err), -1);
    says(&err, "merge of 'a' and 'b': 'ab' is not in the vocabulary");
    assert_int_equal(lt_tokenizer_add_merge(t, lt_span_text("zz"), lt_span_text("b"), &err), -1);
    says(&err, "merge of 'zz' and 'b': 'zz' is not in the vocabulary");
    const lt_added wrong_id = {.id = 300, .text = lt_span_text("a")};
    assert_int_equal(lt_tokenizer_add_added(t, &wrong_id, &err), -1);
    says(&err, "added token 'a': has id 300, but 97 in the vocabulary");
    const lt_added taken = {.id = 97, .text = lt_span_text("ab")};
    assert_int_equal(lt_tokenizer_add_added(t, &taken, &err), -1);
    says(&err, "vocabulary: id 97 is both 'a' and 'ab'");
    const lt_added empty = {.id = 300, .text = {"", 0}};
    assert_int_equal(lt_tokenizer_add_added(t, &empty, &err), -1);
    says(&err, "added token 300: is empty");
    lt_tokenizer_free(t);
}

static void what_is_not_complete_cannot_become_ready(void **state)
{
    (void)state;
    lt_err err = {{0}};
    lt_tokenizer *t = NULL;
    assert_int_equal(lt_tokenizer_new(&t, &err), 0);
    assert_int_equal(lt_tokenizer_ready(t, &err), -1);
    says(&err, "vocabulary: is empty");
    lt_tokenizer_free(t);
    t = new_bytes();
    add_added(t, (lt_added){.id = 300, .text = lt_span_text("<x>")});
    add_added(t, (lt_added){.id = 301, .text = lt_span_text("<x>")});
    assert_int_equal(lt_tokenizer_ready(t, &err), -1);
    says(&err, "added token '<x>': is there twice");
    lt_tokenizer_free(t);
    t = new_bytes();
    for (int i = 0; i < LT_TOKENIZER_STEPS; i++)
        assert_int_equal(lt_tokenizer_add_split(t, lt_span_text("a"), LT_SPLIT_ALL, &err), 0);
    assert_int_equal(lt_tokenizer_add_split(t, lt_span_text("a"), LT_SPLIT_ALL, &err), -1);
    says(&err, "pre-tokenizer: has more than 16 steps");
    lt_tokenizer_free(t);
    lt_tokenizer_free(NULL);
}

/* One letter, 2^20 times, in one piece: with a search for the best pair a merge, this would take
 * hours. */
static void a_long_run_takes_a_moment(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    lt_err err = {{0}};
    lt_tokenizer *t = new_bytes();
    lt_ids ids = {0};
    char *text = malloc(LENGTH);
    assert_non_null(text);
    memset(text, 'a', LENGTH);
    add_merged(t, 300, "a", "a");
    add_merged(t, 301, "aa", "aa");
    add_merged(t, 302, "aaaa", "aaaa");
    assert_int_equal(
        lt_tokenizer_add_split(t, lt_span_text("\\p{L}+|\\s+(?!\\S)|\\s+"), LT_SPLIT_ALL, &err), 0);
    make_ready(t);
    const double start = lt_now_us();
    assert_int_equal(lt_tokenizer_encode(t, (lt_span){text, LENGTH}, &ids, &err), 0);
    assert_true(lt_now_us() - start < 60e6); /* 0.4 s; far more on a busy machine with sanitizers */
    assert_int_equal(ids.count, LENGTH / 8);
    assert_int_equal(ids.at[LENGTH / 8 - 1], 302);
    free(text);
    lt_ids_clear(&ids);
    lt_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_characters_become_marks_in_any_portions),
        cmocka_unit_test(nothing_is_given_before_a_character_is_whole),
        cmocka_unit_test(what_a_message_shows_is_short_and_printable),
        cmocka_unit_test(merging_is_what_its_definition_says),
        cmocka_unit_test(of_a_pair_that_is_added_twice_the_later_rule_counts),
        cmocka_unit_test(patterns_become_what_both_engines_read_alike),
        cmocka_unit_test(patterns_that_cannot_be_used_are_refused_with_the_reason),
        cmocka_unit_test(a_match_does_not_look_beyond_its_text),
        cmocka_unit_test(bytes_and_merges_make_tokens),
        cmocka_unit_test(merges_do_not_cross_a_split),
        cmocka_unit_test(added_tokens_are_cut_out_first_and_the_longest_wins),
        cmocka_unit_test(a_space_is_put_in_front_of_each_piece_between_added_tokens),
        cmocka_unit_test(a_piece_that_is_a_token_skips_the_merges_where_that_is_set),
        cmocka_unit_test(ids_become_text_and_special_ones_stay_silent_in_a_stream),
        cmocka_unit_test(texts_that_cannot_be_encoded_are_refused_and_leave_no_ids),
        cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(what_is_not_complete_cannot_become_ready),
        cmocka_unit_test(a_long_run_takes_a_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
