-- A step's times as one HTML page that needs nothing else: a table by length of the sequence, a
-- roofline of the kernels, a timeline of the launches layer by layer, a table by kernel.
local floor = require("lua.floor")
local report = require("lua.report")

local page = {}

local WIDTH <const>, HEIGHT <const>, LEFT <const>, BOTTOM <const> = 960, 420, 70, 40
local ROW <const> = 14        -- of the timeline, in pixels
local HUES <const> = 137      -- degrees between sections: neighbours differ much

local STYLE <const> = [[
body { font: 14px sans-serif; margin: 2em auto; max-width: 1000px; color: #222 }
table { border-collapse: collapse; font-size: 12px } td, th { padding: 2px 8px; text-align: right }
td:first-child, th:first-child { text-align: left; font-family: monospace }
tr:nth-child(even) { background: #f4f4f4 } svg { background: #fcfcfc; border: 1px solid #ddd }
svg text { font-size: 11px; fill: #555 } .key { display: inline-block; margin-right: 1em }
.key i { display: inline-block; width: 10px; height: 10px; margin-right: 4px }
]]

local function escape(text)
    return (tostring(text):gsub("[&<>\"]",
        { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

-- A colour for each section, in the order in which the kernels name them.
local function colours_of(launches)
    local colours, order = {}, {}
    for _, launch in ipairs(launches) do
        if not colours[launch.section] then
            order[#order + 1] = launch.section
            colours[launch.section] = ("hsl(%d 65%% 50%%)"):format(#order * HUES % 360)
        end
    end
    return colours, order
end

local function table_of(out, columns, rows)
    local line = {}
    for i, column in ipairs(columns) do line[i] = ("<th>%s</th>"):format(escape(column[2])) end
    out("<table><tr>%s</tr>", table.concat(line))
    for _, row in ipairs(rows) do
        for i, column in ipairs(columns) do
            local value = row[column[1]]
            local text = column.format and column.format(value, row) or value
            line[i] = ("<td>%s</td>"):format(escape(text == nil and report.NONE or text))
        end
        out("<tr>%s</tr>", table.concat(line))
    end
    out("</table>")
end

-- ---- the roofline ----

local function log10(x) return math.log(x, 10) end

-- The whole powers of ten, two at least, between which all values lie, and at(value): its pixel.
local function axis(values, from, to)
    local low, high = math.huge, -math.huge
    for _, value in ipairs(values) do
        low, high = math.min(low, log10(value)), math.max(high, log10(value))
    end
    low = math.floor(low)
    high = math.max(math.ceil(high), low + 1)
    return { low = low, high = high, at = function(value)
        return from + (log10(value) - low) / (high - low) * (to - from)
    end }
end

-- Kernels as points, { kernel, x = flops a byte, y = GFLOP/s }: of those that have flops.
local function points_of(kernels)
    local points = {}
    for _, kernel in ipairs(kernels) do
        if kernel.flops > 0 then
            points[#points + 1] = { kernel = kernel, x = kernel.flops / kernel.bytes,
                y = kernel.flops / kernel.us / 1e3 }
        end
    end
    return points
end

-- The axes that hold the points, and the roof over them where the device's is known.
local function axes_of(points, bytes_a_us)
    local xs, ys = {}, {}
    for i, point in ipairs(points) do xs[i], ys[i] = point.x, point.y end
    local x = axis(xs, LEFT, WIDTH - 20)
    for _, power in ipairs(bytes_a_us and { x.low, x.high } or {}) do
        ys[#ys + 1] = 10.0 ^ power * bytes_a_us / 1e3
    end
    return x, axis(ys, HEIGHT - BOTTOM, 20)
end

local function draw_axes(out, x, y)
    for power = x.low, x.high do
        local at = x.at(10.0 ^ power)
        out('<line x1="%.1f" x2="%.1f" y1="20" y2="%d" stroke="#eee"/>', at, at, HEIGHT - BOTTOM)
        out('<text x="%.1f" y="%d">%g</text>', at - 8, HEIGHT - BOTTOM + 16, 10.0 ^ power)
    end
    for power = y.low, y.high do
        local at = y.at(10.0 ^ power)
        out('<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#eee"/>', LEFT, WIDTH - 20, at, at)
        out('<text x="8" y="%.1f">%g</text>', at + 4, 10.0 ^ power)
    end
    out('<text x="%d" y="%d">flops a byte</text><text x="8" y="14">GFLOP/s</text>',
        WIDTH // 2, HEIGHT - 6)
end

local function draw_roof(out, x, y, bytes_a_us)
    local from, to = 10.0 ^ x.low, 10.0 ^ x.high
    local top = y.at(to * bytes_a_us / 1e3)
    out('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#222"/>', x.at(from),
        y.at(from * bytes_a_us / 1e3), x.at(to), top)
    out('<text x="%.1f" y="%.1f" text-anchor="end">%.2f TB/s</text>', x.at(to), top - 6,
        bytes_a_us / 1e6)
end

-- Kernels as points under what the memory allows.
local function roofline(out, kernels, colours, key)
    local points, bytes_a_us = points_of(kernels), floor.bandwidth(key)
    if #points == 0 then return end
    local x, y = axes_of(points, bytes_a_us)
    out('<svg width="%d" height="%d">', WIDTH, HEIGHT)
    draw_axes(out, x, y)
    if bytes_a_us then draw_roof(out, x, y, bytes_a_us) end
    for _, point in ipairs(points) do
        local kernel = point.kernel
        out('<circle cx="%.1f" cy="%.1f" r="4" fill="%s" fill-opacity="0.7"><title>'
            .. "%s: %.2f us, %.0f GB/s</title></circle>", x.at(point.x), y.at(point.y),
            colours[kernel.section], escape(kernel.kernel), kernel.us, kernel.gbps)
    end
    out("</svg>")
end

-- ---- the timeline ----

-- Launches by layer, "L00" and so on, each with its length in us.
local function rows_of(launches)
    local rows, by_name, longest = {}, {}, 0
    for _, launch in ipairs(launches) do
        local name = launch.site:match("^[^.]+")
        local row = by_name[name]
        if not row then
            row = { name = name, us = 0, list = {} }
            by_name[name], rows[#rows + 1] = row, row
        end
        row.list[#row.list + 1] = { launch = launch, at = row.us }
        row.us = row.us + launch.us
        longest = math.max(longest, row.us)
    end
    return rows, longest
end

local function timeline(out, launches, colours)
    local rows, longest = rows_of(launches)
    local scale = (WIDTH - LEFT - 60) / longest
    out('<svg width="%d" height="%d">', WIDTH, ROW * (#rows + 1))
    for i, row in ipairs(rows) do
        local y = ROW * (i - 1) + 4
        out('<text x="8" y="%d">%s</text>', y + 10, escape(row.name))
        for _, each in ipairs(row.list) do
            local launch = each.launch
            out('<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"><title>%s: %s, %.2f us'
                .. "</title></rect>", LEFT + each.at * scale, y, math.max(launch.us * scale, 0.3),
                ROW - 3, colours[launch.section], escape(launch.site), escape(launch.kernel),
                launch.us)
        end
        out('<text x="%.1f" y="%d">%.0f us</text>', LEFT + row.us * scale + 6, y + 10, row.us)
    end
    out("</svg>")
end

-- ---- the whole ----

-- The text of the page. about: title, lines, key of the device, whose memory the roof is; launches:
-- { site, section, kernel, us } in order; steps, kernels: { columns, rows }, as report.print takes.
function page.text(about, launches, steps, kernels)
    local parts = {}
    local function out(text, ...)
        parts[#parts + 1] = select("#", ...) > 0 and text:format(...) or text
    end
    local colours, order = colours_of(launches)
    out('<!doctype html><html lang="en"><meta charset="utf-8"><title>%s</title><style>%s</style>',
        escape(about.title), STYLE)
    out("<h1>%s</h1>", escape(about.title))
    for _, line in ipairs(about.lines) do out("<p>%s</p>", escape(line)) end
    out("<h2>A step</h2>")
    table_of(out, table.unpack(steps))
    out("<h2>Sections</h2><p>")
    for _, section in ipairs(order) do
        out('<span class="key"><i style="background:%s"></i>%s</span>', colours[section], section)
    end
    out("</p><h2>Roofline: kernels alone, cold</h2>")
    roofline(out, kernels[2], colours, about.key)
    out("<h2>Timeline: launches one after the other, by layer</h2>")
    timeline(out, launches, colours)
    out("<h2>Kernels</h2>")
    table_of(out, table.unpack(kernels))
    out("</html>")
    return table.concat(parts, "\n")
end

return page
