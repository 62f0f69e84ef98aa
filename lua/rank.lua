-- Tensor parallelism from the command line: which rank of how many a command is. There is no
-- communicator: a rank runs alone, and what the ranks would sum stays its own part of the sum.
local choice = require("lua.choice")
local fault = require("lua.fault")
local split = require("lua.model.split")

local rank = {}

function rank.declare(command)
    command:option("--ranks", "ranks that share the model (tensor parallelism); default 1")
    command:option("--rank", "which of them this is, from 0; default 0")
end

-- A checkpoint as the rank of the options has it (split.take).
function rank.take(options, found)
    local ranks = choice.number("--ranks", options.ranks, 1) or 1
    local mine = choice.number("--rank", options.rank, 0) or 0
    if mine >= ranks then
        fault.usage(("--rank: %d is asked for, but the rank%s 0%s (--ranks says how many)"):format(
            mine, ranks == 1 and " is" or "s are", ranks > 1 and " to " .. ranks - 1 or ""))
    end
    local taken, why = split.take(found, ranks, mine)
    if not taken then fault.usage("--ranks: " .. why) end
    return taken
end

-- Says once what a run of one of several ranks is not, and what must be equal on all of them
-- (digest.of_ranks).
function rank.warn(found, choices)
    io.stderr:write(("rank %d of %d alone: the partial sums of the ranks are not added up, so what "
        .. "comes out is not the model's\n"):format(found.rank, found.ranks))
    io.stderr:write(("choices of all ranks %s (the same on each of them, or they do not belong "
        .. "together)\n"):format(choices))
end

return rank
