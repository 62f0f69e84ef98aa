-- Descriptions that must be refused.
-- tests/lua/reject_spec.lua runs each case on its own, with `family` and `base()` defined on line 1.
-- case: an unknown field names the nearest legal one
-- expect: FILE:7: family x: unknown field 'knob' (did you mean 'knobs'?)
local t = base()
t.knob = {}
return family("x", t)
-- case: a missing field is named
-- expect: FILE:12: family x: field 'maths' is missing
local t = base()
t.maths = nil
return family("x", t)
-- case: a field of another type is shown
-- expect: FILE:17: family x: field 'rev' must be an integer, got the float 1.0
local t = base()
t.rev = 1.0
return family("x", t)
-- case: a function is needed where one is called
-- expect: FILE:22: family x: field 'keep' must be a function, got the boolean true
local t = base()
t.keep = true
return family("x", t)
-- case: rev counts from 1
-- expect: FILE:27: family x: rev must be 1 or more, got 0
local t = base()
t.rev = 0
return family("x", t)
-- case: maths is one line
-- expect: FILE:32: family x: maths must be one line
local t = base()
t.maths = "y = x\nz = x"
return family("x", t)
-- case: a name with two underscores could not be parsed back
-- expect: FILE:35: family x__y: a name is small letters, digits and single underscores, with at most one dot
return family("x__y", base())
-- case: a name has one dot at most
-- expect: FILE:38: family x.y.z: a name is small letters, digits and single underscores, with at most one dot
return family("x.y.z", base())
-- case: a name is needed
-- expect: FILE:41: family nil: a name is small letters, digits and single underscores, with at most one dot
return family(nil, base())
-- case: a table is needed
-- expect: FILE:44: family x: a table of fields is needed, got nil
return family("x")
-- case: a family without sizes
-- expect: FILE:49: family x: shape needs at least one size
local t = base()
t.shape = {}
return family("x", t)
-- case: a size in small letters
-- expect: FILE:54: family x: a size is 1 to 8 capital letters, got the string 'm'
local t = base()
t.shape = { "m" }
return family("x", t)
-- case: a size given twice
-- expect: FILE:59: family x: shape has the size M twice
local t = base()
t.shape = { "M", "K", "M" }
return family("x", t)
-- case: a knob that is named like a size hides it
-- expect: FILE:64: family x: knob 'K' hides the size K
local t = base()
t.knobs = { { "K", 1, 2 } }
return family("x", t)
-- case: so does one in small letters
-- expect: FILE:69: family x: knob 'k' hides the size K
local t = base()
t.knobs = { { "k", 1, 2 } }
return family("x", t)
-- case: a knob's name is one word
-- expect: FILE:74: family x: a knob's name is one word of small letters, got 'warp_count'
local t = base()
t.knobs = { { "warp_count", 1, 2 } }
return family("x", t)
-- case: two knobs with one first letter could not be told apart in a name
-- expect: FILE:79: family x: knobs 'cols' and 'chunk' both begin with 'c'
local t = base()
t.knobs = { { "cols", 1 }, { "warps", 4 }, { "chunk", 1 } }
return family("x", t)
-- case: a knob given twice
-- expect: FILE:84: family x: knobs has the name 'cols' twice
local t = base()
t.knobs = { { "cols", 1 }, { "cols", 4 } }
return family("x", t)
-- case: a knob without values
-- expect: FILE:89: family x: knob 'warps' has no values
local t = base()
t.knobs = { { "warps" } }
return family("x", t)
-- case: a knob's values are integers
-- expect: FILE:94: family x: knob 'warps' takes integers of 0 or more, got the float 4.0
local t = base()
t.knobs = { { "warps", 4, 8 / 2 } }
return family("x", t)
-- case: a knob's values differ
-- expect: FILE:99: family x: knob 'warps' has the value 4 twice
local t = base()
t.knobs = { { "warps", 4, 8, 4 } }
return family("x", t)
-- case: a knob is a table
-- expect: FILE:104: family x: knobs[1] must be { name, value, ... }, got the string 'warps'
local t = base()
t.knobs = { "warps" }
return family("x", t)
-- case: an arg in an unknown format
-- expect: FILE:109: family x: args: 'y': unknown number format 'fp8' (known: bf16 f16 f32 e4m3 u8 i8 u16 i32 u32 e2m1x2)
local t = base()
t.args[1][2] = "fp8"
return family("x", t)
-- case: an arg given twice
-- expect: FILE:114: family x: args: the name 'x' is there twice
local t = base()
t.args = { { "x", "f32", { "M" }, out = true }, { "x", "f32", { "M" } } }
return family("x", t)
-- case: an arg in capitals would hide a size
-- expect: FILE:119: family x: args: row 2 must begin with a name in small letters, got the string 'X'
local t = base()
t.args[2][1] = "X"
return family("x", t)
-- case: an extent that is no size
-- expect: FILE:124: family x: args: 'x': an extent is a size, an integer of 1 or more or a function, got the string 'N'
local t = base()
t.args[2][3] = { "M", "N" }
return family("x", t)
-- case: an arg without extents
-- expect: FILE:129: family x: args: 'x': the third word must be a list of extents such as { "M", "K" }
local t = base()
t.args[2][3] = nil
return family("x", t)
-- case: a slip in an arg's option
-- expect: FILE:134: family x: args: 'x': unknown word 'layuot' (legal: out, inout, layout)
local t = base()
t.args[2].layuot = "rows"
return family("x", t)
-- case: out is true or not there
-- expect: FILE:139: family x: args: 'x': out must be true, got the boolean false
local t = base()
t.args[2].out = false
return family("x", t)
-- case: a kernel that writes nothing
-- expect: FILE:144: family x: args: none is out, so the kernel would compute nothing
local t = base()
t.args[1].out = nil
return family("x", t)
-- case: args by name have no order
-- expect: FILE:149: family x: args: a list of { name, format, extents } is needed
local t = base()
t.args = { y = { "f32", { "M" } } }
return family("x", t)
-- case: a packer is named after its layout
-- expect: FILE:154: family x: it packs 'tile16', so its name must be pack_tile16
local t = base()
t.packs = "tile16"
return family("x", t)
-- case: no samples
-- expect: FILE:159: family x: check: samples must be a list of shapes, got nil
local t = base()
t.check = { bits = true }
return family("x", t)
-- case: no measure
-- expect: FILE:164: family x: check: ulp, relative or both, or bits alone is needed, got none
local t = base()
t.check.ulp = nil
return family("x", t)
-- case: two measures
-- expect: FILE:169: family x: check: ulp, relative or both, or bits alone is needed, got ulp and bits
local t = base()
t.check.bits = true
return family("x", t)
-- case: bits is true or not there
-- expect: FILE:174: family x: check: bits must be true, got the integer 1
local t = base()
t.check = { bits = 1, samples = { { M = 1, K = 32 } } }
return family("x", t)
-- case: a measure is a number
-- expect: FILE:179: family x: check: ulp must be a number of 0 or more, got the string '1'
local t = base()
t.check.ulp = "1"
return family("x", t)
-- case: a slip in a field of check
-- expect: FILE:184: family x: check: unknown field 'sample' (did you mean 'samples'?)
local t = base()
t.check.sample = {}
return family("x", t)
-- case: a draw of what is no arg
-- expect: FILE:189: family x: check: draw names 'z', which is no arg
local t = base()
t.check.draw = { z = "normal" }
return family("x", t)
-- case: a draw is the name of a distribution
-- expect: FILE:194: family x: check: draw of 'x' must be a distribution's name or a function, got the integer 1
local t = base()
t.check.draw = { x = 1 }
return family("x", t)
-- case: a sample without one of its sizes
-- expect: FILE:199: family x: check: samples[2]: size K is missing
local t = base()
t.check.samples[2] = { M = 1 }
return family("x", t)
-- case: a sample with a size too many
-- expect: FILE:204: family x: check: samples[2]: unknown size 'N' (the sizes are M K)
local t = base()
t.check.samples[2] = { M = 1, K = 32, N = 1 }
return family("x", t)
-- case: a sample's sizes are integers
-- expect: FILE:209: family x: check: samples[2]: size K must be an integer from 0 to 2147483647, got the float 32.0
local t = base()
t.check.samples[2] = { M = 1, K = 64 / 2 }
return family("x", t)
-- case: a sample that the family does not serve
-- expect: FILE:214: family x: check: samples[2]: m1_k31 is not served: K is not a multiple of 32
local t = base()
t.check.samples[2] = { M = 1, K = 31 }
return family("x", t)
-- case: a real shape that the family does not serve
-- expect: FILE:219: family x: check: real[1]: m1_k31 is not served: K is not a multiple of 32
local t = base()
t.check.real = { { M = 1, K = 31 } }
return family("x", t)
-- case: a refusal carries its reason
-- expect: FILE:224: family x: check: samples[1]: serves must return true, or nil and a reason, got the boolean false for m2_k64
local t = base()
t.serves = function() return false end
return family("x", t)
-- case: a mistake inside a function keeps its own line
-- expect: FILE:228: attempt to perform arithmetic on a nil value (field 'Q')
local t = base()
t.serves = function(s) return s.Q % 2 == 0 end
return family("x", t)
-- case: a family may not look outside
-- expect: FILE:232: unknown name 'os'
local now = os.time()
return family("x", base())
-- case: it requires modules of gen alone
-- expect: FILE:236: a family may load modules of gen only, not 'lua.strict'
local strict = require("lua.strict")
return family("x", base())
-- case: it sets no globals
-- expect: FILE:240: 'LOAD' cannot be set (a family's own names are local)
LOAD = 16
return family("x", base())
-- case: a file that returns nothing
-- expect: FILE: a family or a list of families must be returned, got nil
family("x", base())
-- case: a file that returns something else
-- expect: FILE: the list holds what is no family
return { base() }
-- case: two families of one name
-- expect: FILE: family x_y: this name is taken by FILE
return { family("x.y", base()), family("x_y", base()) }
-- case: a syntax error keeps its line
-- expect: FILE:253: unexpected symbol near '='
local t = = base() return family("x", t)
-- case: an empty list
-- expect: FILE: the list of families is empty
return {}
-- case: random numbers differ from run to run
-- expect: FILE:259: unknown name 'math.random'
local lucky = math.random(4)
return family("x", base())
-- case: what Lua brings is not its to change
-- expect: FILE:263: 'string.format' cannot be set (a family's own names are local)
string.format = nil
return family("x", base())
