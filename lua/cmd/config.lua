-- lathe config: every setting, its value, where it came from.
local lathe = require("lathe")
local report = require("lua.report")

local config = { summary = "every setting, its value, where it came from" }

local function shown(value) return value == "" and report.NONE or value end

function config.declare() end

function config.run(options)
    report.print(options, {
        { "env", "variable" },
        { "value", "value", format = shown },
        { "source", "from" },
        { "help", "what it does" },
    }, lathe.settings())
end

return config
