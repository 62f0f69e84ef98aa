-- What the checks of families over paged caches draw: rows of sequences at positions that bite,
-- and block tables that scatter a sequence's pages over the cache. A page is 64 tokens; s has the
-- sizes M, SLOTS (sequences), PAGES (of a sequence) and BLOCKS (of the cache).
local paged = {}

paged.PAGE = 64

-- Contexts of 1 to 5 tokens, and the ends of pages, pools and of 16 and 512 pools.
local EDGES <const> = { 3, 0, 1, 63, 2, 64, 4, 127, 66, 67, 2047, 2051, 2048, 4095, 130, 191 }
local PADDING <const> = 5  -- of so many rows the fourth is padding

function paged.tokens(s) return s.PAGES * paged.PAGE end

-- Of row i: the last one that the pages hold, then edges. All differ while there are enough.
function paged.position(s, i)
    local last, fit = paged.tokens(s) - 1, {}
    for _, edge in ipairs(EDGES) do
        if edge < last then fit[#fit + 1] = edge end
    end
    return i == 0 and last or fit[(i - 1) % #fit + 1]
end

-- Of row i: the sequences take turns; -1 is padding.
function paged.slot(s, i) return i % PADDING == 3 and -1 or i % s.SLOTS end

-- Pages of a sequence that have a block: all, or the first ones and the last.
function paged.held(s) return math.min(s.PAGES, s.BLOCKS // s.SLOTS) end

-- Element i of the block table: blocks from the cache's end, all different. A page without one has
-- -1 or a number past the cache.
function paged.block(s, i)
    local slot, page, held = i // s.PAGES, i % s.PAGES, paged.held(s)
    local from_end = s.PAGES - page
    if page < held - 1 or from_end == 1 then
        return s.BLOCKS - 1 - slot * held - math.min(page, held - 1)
    end
    return page % 2 == 0 and -1 or s.BLOCKS
end

return paged
