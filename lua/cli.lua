-- The command line: finds the command, gives it its words, hands back the exit code.
require("lua.strict")
local argparse = require("argparse")
local choice = require("lua.choice")
local fault = require("lua.fault")
local lathe = require("lathe")

local COMMANDS <const> = {  -- in the order of a first visit; lua/cmd/NAME.lua each
    "families", "gen", "build", "check", "bench", "tune", "plan", "run", "eval", "why", "cache",
    "config",
}

local MINUS <const> = "a value that begins with - is written --option=-1; numbers are 0 or more"

local EPILOG <const> = [[
A shape is a word for each size: M=2 N=4096 K=11264. Settings are LATHE_* variables: `lathe config`.
Exit codes: 0, 1 a check failed, 2 a wrong command line or input, 3 a device error.]]

-- The commands that the words may mean: one that comes first, as it mostly does, is it.
local function meant(words)
    for _, name in ipairs(COMMANDS) do
        if name == words[1] then return { name } end
    end
    return COMMANDS
end

local function parser_of(words, commands)
    local parser = argparse("lathe", "GPU kernels from Lua descriptions, cut to the exact shape.")
        :epilog(EPILOG):command_target("command"):require_command(true)
    parser:option("--device", "cuda:N or cpu; default: cuda:0 where there is one, else cpu")
    parser:flag("--json", "print tables as JSON")
    parser:flag("--version", "print the version and end")
        :action(function()
            print("lathe " .. lathe.version)
            os.exit(0)
        end)
    for _, name in ipairs(meant(words)) do
        commands[name] = require("lua.cmd." .. name)
        commands[name].declare(parser:command(name, commands[name].summary))
    end
    return parser
end

-- "lathe: gen: unknown option '--foo' (did you mean '--for'?)" from what argparse says.
local function refuse(words, commands, message)
    local happened, tip = message:match("^(.-)\n(Did you mean .*)$")
    local command
    for _, word in ipairs(words) do command = command or commands[word] and word end
    local hint = message:find("^unknown option '%-%d") and MINUS or tip and tip:gsub("^D", "d")
        or ("`lathe %s--help` shows what there is"):format(command and command .. " " or "")
    fault.usage(("%s: %s (%s)"):format(command or "command line", happened or message, hint))
end

return function(words)
    if words[1] == "--tune-worker" then return require("lua.tune.worker")() end
    local commands = {}
    local parser = parser_of(words, commands)
    local ok, options = parser:pparse(words)
    if not ok then refuse(words, commands, options) end
    if options.device then
        choice.check_device("--device", options.device)
        fault.expect(lathe.set("device", options.device))
    end
    local default = lathe.setting("device")
    if default ~= "" then choice.check_device("LATHE_DEVICE", default) end
    return commands[options.command].run(options) or 0
end
