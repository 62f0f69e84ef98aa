std = "lua54"
max_line_length = 100
self = false -- an unused self is fine
exclude_files = { "tests/reject" } -- must-fail snippets: tests/lua/reject_spec.lua runs them
files["tests/lua"] = { std = "lua54+busted" }
