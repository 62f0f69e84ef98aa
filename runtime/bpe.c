/* bpe.c: a hash table of pairs; merging with a linked list of symbols and a heap of the pairs that
 * stand in it. */
#include "bpe.h"

#include <stdlib.h>

typedef struct {
    int32_t left, right;
    uint32_t rank; /* smaller is merged earlier */
    int32_t id;    /* what the two become; FREE: no entry */
} rule;

typedef struct {
    rule rule;
    uint32_t at; /* symbol that stands left */
} candidate;

typedef struct {
    uint32_t before, behind; /* neighbours in the list, or END */
} link;

struct lt_bpe {
    rule *rules; /* open addressing, at most half full */
    size_t used, cap;
    uint32_t next_rank;
    candidate *heap;
    size_t count, heap_cap;
    link *links;
    size_t link_cap;
};

enum { FREE = -1, GONE = -1 };
#define END UINT32_MAX

/* ---- the table ---- */

static size_t find_slot(const rule *rules, size_t cap, int32_t left, int32_t right)
{
    uint64_t h = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    h *= 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio: neighbours spread */
    size_t i = (size_t)(h ^ h >> 32) & (cap - 1);
    while (rules[i].id != FREE && (rules[i].left != left || rules[i].right != right))
        i = (i + 1) & (cap - 1);
    return i;
}

static int grow_table(lt_bpe *b, lt_err *err)
{
    const size_t cap = b->cap ? 2 * b->cap : 1024;
    rule *rules = malloc(cap * sizeof *rules);
    if (!rules) return lt_fail(err, "merges: out of memory for %zu", cap);
    for (size_t i = 0; i < cap; i++) rules[i].id = FREE;
    for (size_t i = 0; i < b->cap; i++) {
        const rule r = b->rules[i];
        if (r.id != FREE) rules[find_slot(rules, cap, r.left, r.right)] = r;
    }
    free(b->rules);
    b->rules = rules;
    b->cap = cap;
    return 0;
}

int lt_bpe_add(lt_bpe *b, int32_t left, int32_t right, int32_t id, lt_err *err)
{
    if (b->next_rank == UINT32_MAX) return lt_fail(err, "merges: there are too many");
    if (2 * b->used >= b->cap && grow_table(b, err)) return -1;
    rule *r = &b->rules[find_slot(b->rules, b->cap, left, right)];
    if (r->id == FREE) b->used++;
    *r = (rule){left, right, b->next_rank++, id};
    return 0;
}

/* ---- the heap: the candidate that comes first is heap[0] ---- */

static bool is_before(const candidate *a, const candidate *b)
{
    return a->rule.rank != b->rule.rank ? a->rule.rank < b->rule.rank : a->at < b->at;
}

static void push(lt_bpe *b, candidate c)
{
    size_t i = b->count++;
    while (i > 0 && is_before(&c, &b->heap[(i - 1) / 2])) {
        b->heap[i] = b->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    b->heap[i] = c;
}

static candidate pop(lt_bpe *b)
{
    const candidate first = b->heap[0], last = b->heap[--b->count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= b->count) break;
        if (child + 1 < b->count && is_before(&b->heap[child + 1], &b->heap[child])) child++;
        if (!is_before(&b->heap[child], &last)) break;
        b->heap[i] = b->heap[child];
        i = child;
    }
    b->heap[i] = last;
    return first;
}

/* ---- merging ---- */

/* Makes room for n symbols: each merge removes one candidate and adds at most two. */
static int reserve(lt_bpe *b, size_t n, lt_err *err)
{
    if (n <= b->link_cap) return 0;
    const size_t cap = n + n / 2;
    link *links = realloc(b->links, cap * sizeof *links);
    if (links) b->links = links;
    candidate *heap = realloc(b->heap, 2 * cap * sizeof *heap);
    if (heap) b->heap = heap;
    if (!links || !heap) return lt_fail(err, "merges: out of memory for %zu symbols", n);
    b->link_cap = cap;
    return 0;
}

/* Does a rule merge the symbols at `left` and `right`? Then they are a candidate. */
static void consider(lt_bpe *b, const int32_t *ids, uint32_t left, uint32_t right)
{
    if (left == END || right == END) return;
    const rule *r = &b->rules[find_slot(b->rules, b->cap, ids[left], ids[right])];
    if (r->id != FREE) push(b, (candidate){*r, left});
}

static void merge_first(lt_bpe *b, int32_t *ids)
{
    const candidate c = pop(b);
    const uint32_t right = b->links[c.at].behind;
    /* Do the two still stand there? */
    if (ids[c.at] != c.rule.left || right == END || ids[right] != c.rule.right) return;
    ids[c.at] = c.rule.id;
    ids[right] = GONE;
    const uint32_t behind = b->links[right].behind;
    b->links[c.at].behind = behind;
    if (behind != END) b->links[behind].before = c.at;
    consider(b, ids, b->links[c.at].before, c.at);
    consider(b, ids, c.at, behind);
}

int lt_bpe_merge(lt_bpe *b, int32_t *ids, size_t *count, lt_err *err)
{
    const size_t n = *count;
    if (n < 2 || !b->used) return 0;
    if (n >= END) return lt_fail(err, "merges: %zu bytes without a split are too many", n);
    if (reserve(b, n, err)) return -1;
    b->count = 0;
    for (uint32_t i = 0; i < n; i++) b->links[i] = (link){i ? i - 1 : END, i + 1 < n ? i + 1 : END};
    for (uint32_t i = 0; i + 1 < n; i++) consider(b, ids, i, i + 1);
    while (b->count) merge_first(b, ids);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (ids[i] != GONE) ids[kept++] = ids[i];
    *count = kept;
    return 0;
}

int lt_bpe_new(lt_bpe **out, lt_err *err)
{
    lt_bpe *b = calloc(1, sizeof *b);
    if (!b) return lt_fail(err, "merges: out of memory");
    *out = b;
    return 0;
}

void lt_bpe_free(lt_bpe *b)
{
    if (!b) return;
    free(b->rules);
    free(b->heap);
    free(b->links);
    free(b);
}
