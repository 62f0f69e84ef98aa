-- Precision recipes: in which format each kind of weight is held, and with it which products run.
local recipe = {}

local RECIPES <const> = {
    -- all in bf16: weights as stored, or decoded, so that a checkpoint in NVFP4 gives the bits of
    -- its decoded copy in BF16
    reference = {
        kda = "bf16", kda_gates = "bf16", dsa = "bf16", dense = "bf16", shared = "bf16",
        experts = "bf16",
    },
    -- what the card runs: NVFP4 experts and dense layers with NVFP4 activations, NVFP4 projections
    -- with bf16 ones, E4M3 attention with E4M3 ones; weights that are not stored so are quantised
    card = {
        kda = "w4a16", kda_gates = "w8a8", dsa = "w8a8", dense = "w4a4", shared = "w4a16",
        experts = "w4a4",
    },
}

recipe.NAMES = { "card", "reference" }

-- The recipe of this name, or nil and a sentence.
function recipe.find(name)
    if RECIPES[name] then return RECIPES[name] end
    return nil, ("recipe '%s': no such name (known: %s)"):format(
        name, table.concat(recipe.NAMES, ", "))
end

return recipe
