-- Descriptions that are refused when a kernel is made of them: the functions' results are wrong.
-- As family.lua.
-- case: a grid of a float
-- expect: FILE:6: family x: launch: grid x must be an integer from 1 to 2147483647, got the float 2.0
local t = base()
t.launch = function(s) return { grid = s.M / 1, block = 32 } end
return family("x", t)
-- case: an empty grid
-- expect: FILE:11: family x: launch: grid y must be an integer from 1 to 65535, got the integer 0
local t = base()
t.launch = function() return { grid = { 1, 0 }, block = 32 } end
return family("x", t)
-- case: no grid
-- expect: FILE:16: family x: launch: grid x must be an integer from 1 to 2147483647, got nil
local t = base()
t.launch = function() return { block = 32 } end
return family("x", t)
-- case: more rows of blocks than a device takes
-- expect: FILE:21: family x: launch: grid z must be an integer from 1 to 65535, got the integer 65536
local t = base()
t.launch = function() return { grid = { 1, 1, 65536 }, block = 32 } end
return family("x", t)
-- case: a block that is no whole number of warps
-- expect: FILE:26: family x: launch: block must be a multiple of 32 up to 1024, got the integer 48
local t = base()
t.launch = function() return { grid = 1, block = 48 } end
return family("x", t)
-- case: a block that is too large
-- expect: FILE:31: family x: launch: block must be a multiple of 32 up to 1024, got the integer 1056
local t = base()
t.launch = function() return { grid = 1, block = 1056 } end
return family("x", t)
-- case: more shared memory than the arch has
-- expect: FILE:36: family x: launch: shared is 232449 bytes, sm_90a has 232448 a block
local t = base()
t.launch = function() return { grid = 1, block = 32, shared = 232449 } end
return family("x", t)
-- case: shared memory of a float
-- expect: FILE:41: family x: launch: shared must be an integer of 0 or more, got the float 1024.0
local t = base()
t.launch = function() return { grid = 1, block = 32, shared = 2 ^ 10 } end
return family("x", t)
-- case: a cluster of more blocks than the arch has
-- expect: FILE:46: family x: launch: cluster must be an integer from 1 to 16 on sm_90a, got the integer 17
local t = base()
t.launch = function() return { grid = 34, cluster = 17, block = 32 } end
return family("x", t)
-- case: a grid that is not whole clusters
-- expect: FILE:51: family x: launch: grid x is 3, not a whole number of clusters of 2
local t = base()
t.launch = function() return { grid = 3, cluster = 2, block = 32 } end
return family("x", t)
-- case: a slip in a field of launch
-- expect: FILE:56: family x: launch: the legal fields are grid, cluster, block and shared
local t = base()
t.launch = function() return { grid = 1, block = 32, share = 1 } end
return family("x", t)
-- case: launch without a result
-- expect: FILE:61: family x: launch: { grid =, cluster =, block =, shared = } is needed, got nil
local t = base()
t.launch = function() end
return family("x", t)
-- case: a class of several words
-- expect: FILE:66: family x: class: one word is needed, got the string 'dot 1'
local t = base()
t.class = function() return "dot 1" end
return family("x", t)
-- case: work in floats
-- expect: FILE:71: family x: work: { bytes =, flops = } as integers is needed
local t = base()
t.work = function(s) return { bytes = s.M / 2, flops = 0 } end
return family("x", t)
-- case: an extent that comes out as 0
-- expect: FILE:76: family x: args: extent 1 of 'x' must be an integer of 1 or more, got the integer 0
local t = base()
t.args[2][3] = { function(s) return s.M // 4 end }
return family("x", t)
-- case: scratch in an unknown format
-- expect: FILE:81: family x: scratch: 'sums': unknown number format 'f64' (known: bf16 f16 f32 e4m3 u8 i8 u16 i32 u32 e2m1x2)
local t = base()
t.scratch = function() return { { "sums", "f64", { "M" } } } end
return family("x", t)
-- case: scratch that is named like an arg
-- expect: FILE:86: family x: scratch: 'x' is an arg already
local t = base()
t.scratch = function() return { { "x", "f32", { "M" } } } end
return family("x", t)
-- case: more parameters than a launch takes
-- expect: FILE:91: family x: scratch: 26 parameters, at most 24 are allowed
local t = base()
t.scratch = function()
    local rows = {}
    for i = 1, 24 do rows[i] = { ("a%d"):format(i), "f32", { 1 } } end
    return rows
end
return family("x", t)
-- case: a template's name with a path
-- expect: FILE:100: family x: template: a base name is needed, got the string '../x'
local t = base()
t.template = function() return "../x" end
return family("x", t)
-- case: an arg that no memory holds
-- expect: FILE:105: family x: args: 'x' is larger than any memory
local t = base()
t.args[2][3] = { "K", function() return 1 << 60 end }
return family("x", t)
-- case: a grid of more than three sizes
-- expect: FILE:110: family x: launch: grid has 4 sizes, at most 3
local t = base()
t.launch = function() return { grid = { 1, 1, 1, 1 }, block = 32 } end
return family("x", t)
