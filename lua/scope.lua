-- Frees what was put into it when it ends: `local mine <close> = scope.new()`.
-- Arrays and buffers are large, and Lua's collector does not know it.
local scope = {}

function scope:add(thing)
    self[#self + 1] = thing
    return thing
end

function scope:free()
    for i = #self, 1, -1 do
        self[i]:free()
        self[i] = nil
    end
end

function scope.new() return setmetatable({}, { __index = scope, __close = scope.free }) end

return scope
