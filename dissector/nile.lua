-- Shows the frames of NileOS in Wireshark and tshark: IPI over Ethernet (0x88B5, docs/ipioe.md),
-- bulk transfers (0x88B6, docs/bulk.md), and the text form of BOSML in both.
--
--     tshark -X lua_script:dissector/nile.lua -r run.pcap
--     wireshark -X lua_script:dissector/nile.lua run.pcap
--
-- Every byte of a frame belongs to a named field. Lengths, versions, opcodes, flags and reserved
-- fields that the specifications forbid are marked as malformed, a wrong CRC as such. Sealed data
-- stay sealed: the keys are the nodes' own.

local calls = Proto("nile", "NileOS IPI over Ethernet")
local bulk = Proto("nile_bulk", "NileOS bulk transfer")
local bosml = Proto("nile_bosml", "NileOS BOSML, text form")

local COMMON = 24
local TAG = 16
local SHORTEST_FRAME = 60
local ETHERNET = 14

local OPCODES = {
    [1] = "request", [2] = "reply", [3] = "broadcast", [4] = "gossip", [5] = "acknowledge",
    [6] = "hello",
}
local STATUSES = {
    [0] = "ok", [1] = "dead", [2] = "timeout", [3] = "busy", [4] = "panicked", [5] = "no_memory",
    [6] = "no_tables", [7] = "not_found", [8] = "invalid", [9] = "exists", [10] = "denied",
    [11] = "gone",
    [12] = "failed",
}
local SUBJECTS = {
    [0] = "calls that have ended", [1] = "segments of a request", [2] = "segments of a reply",
}
local BULK_OPCODES = { [1] = "announce", [2] = "credit", [3] = "data", [4] = "cancel" }
local SIDES = { [1] = "the transfer's sender", [2] = "the transfer's receiver" }

-- Fields by name; what a protocol registers is collected in its list.
local function fields_of(proto, prefix)
    local list, known = {}, {}
    local function add(name, kind, label, ...)
        known[name] = ProtoField[kind](prefix .. "." .. name, label, ...)
        list[#list + 1] = known[name]
    end
    return add, known, function() proto.fields = list end
end

local add, F, register = fields_of(calls, "nile")
add("version", "uint8", "Version")
add("header_length", "uint8", "Header length")
add("opcode", "uint8", "Opcode", base.DEC, OPCODES)
add("reserved", "bytes", "Reserved")
add("flags", "uint16", "Flags", base.HEX)
add("flags.sealed", "bool", "Sealed", 16, nil, 0x0001)
add("flags.encoded", "bool", "Encoded (binary BOSML)", 16, nil, 0x0002)
add("flags.segmented", "bool", "Segmented", 16, nil, 0x0004)
add("flags.routed", "bool", "Routed", 16, nil, 0x0008)
add("flags.timed", "bool", "Timed", 16, nil, 0x0010)
add("flags.named", "bool", "Named", 16, nil, 0x0020)
add("flags.package", "bool", "A package asks", 16, nil, 0x0040)
add("flags.operator", "bool", "An operator asks", 16, nil, 0x0080)
add("flags.unknown", "uint16", "Unknown flags", base.HEX, nil, 0xff00)
add("data_length", "uint16", "Data length")
add("id", "uint32", "Message id")
add("crc", "uint32", "CRC-32C", base.HEX)
add("crc.correct", "bool", "CRC is correct")
add("source.node", "uint32", "Source node")
add("source.generation", "uint32", "Source generation")
add("destination.node", "uint32", "Destination node")
add("destination.generation", "uint32", "Destination generation (0: any)")
add("source.core", "uint16", "Source core")
add("destination.core", "uint16", "Destination core")
add("service", "uint16", "Service number")
add("method", "uint16", "Method number")
add("status", "uint16", "Status", base.DEC, STATUSES)
add("ack.id", "uint32", "Acknowledged id")
add("ack.bitmap", "uint32", "Acknowledged after it", base.HEX)
add("ack.subject", "uint8", "Subject", base.DEC, SUBJECTS)
add("ack.segment", "uint16", "First segment that is missing")
add("hello.known", "uint32", "Receiver's generation as known (0: not)")
add("hello.state", "uint16", "State", base.HEX)
add("hello.state.asks", "bool", "Asks for a hello", 16, nil, 0x0001)
add("hello.state.echoes", "bool", "Echo is valid", 16, nil, 0x0002)
add("hello.state.refuses", "bool", "Refuses the receiver's generation", 16, nil, 0x0004)
add("hello.state.leaves", "bool", "The sender ends", 16, nil, 0x0008)
add("hello.echo", "uint32", "Echoed id")
add("hello.echo_nonce", "bytes", "Echoed boot nonce")
add("hello.sequence", "uint64", "First sequence to come")
add("segment.index", "uint16", "Segment index")
add("segment.count", "uint16", "Segment count")
add("segment.total", "uint32", "Bytes of the message")
add("route.source", "uint32", "Source network")
add("route.destination", "uint32", "Destination network")
add("timed.patience", "uint32", "Patience in microseconds")
add("timed.oldest", "uint32", "Oldest call not ended")
add("nonce", "bytes", "Boot nonce")
add("sequence", "uint64", "Sequence of the seal")
add("data", "bytes", "Data")
add("data.binary", "bytes", "Data in BOSML's binary form")
add("data.sealed", "bytes", "Sealed data")
add("tag", "bytes", "Tag of the seal")
add("padding", "bytes", "Padding")
register()

local add_bulk, B, register_bulk = fields_of(bulk, "nile_bulk")
add_bulk("version", "uint8", "Version")
add_bulk("header_length", "uint8", "Header length")
add_bulk("opcode", "uint8", "Opcode", base.DEC, BULK_OPCODES)
add_bulk("reserved", "bytes", "Reserved")
add_bulk("flags", "uint16", "Flags", base.HEX)
add_bulk("flags.sealed", "bool", "Sealed", 16, nil, 0x0001)
add_bulk("flags.last", "bool", "Last block", 16, nil, 0x0002)
add_bulk("flags.complete", "bool", "Complete", 16, nil, 0x0004)
add_bulk("flags.unknown", "uint16", "Unknown flags", base.HEX, nil, 0xfff8)
add_bulk("data_length", "uint16", "Data length")
add_bulk("transfer", "uint32", "Transfer")
add_bulk("crc", "uint32", "CRC-32C", base.HEX)
add_bulk("crc.correct", "bool", "CRC is correct")
add_bulk("source.node", "uint32", "Source node")
add_bulk("source.generation", "uint32", "Source generation")
add_bulk("destination.node", "uint32", "Destination node")
add_bulk("destination.generation", "uint32", "Destination generation (0: any)")
add_bulk("source.core", "uint16", "Source core")
add_bulk("destination.core", "uint16", "Destination core")
add_bulk("announce.block", "uint16", "Most bytes of a block")
add_bulk("announce.tag", "uint64", "What the cores know it by", base.HEX)
add_bulk("announce.label", "uint64", "What they know of it besides", base.HEX)
add_bulk("announce.total", "uint64", "Bytes in all")
add_bulk("announce.ready", "uint64", "Bytes ready")
add_bulk("announce.oldest", "uint32", "Oldest transfer that is not over")
add_bulk("announce.next", "uint32", "Sequences before it are done")
add_bulk("credit.block", "uint16", "Bytes of a block")
add_bulk("credit.base", "uint32", "First block that is missing")
add_bulk("credit.next", "uint32", "After the highest sequence that came")
add_bulk("credit.limit", "uint32", "Sequences before it may be sent")
add_bulk("credit.end", "uint32", "Blocks before it may be sent")
add_bulk("credit.arrived", "bytes", "Blocks that arrived (bitmap)")
add_bulk("data.block", "uint32", "Block")
add_bulk("data.sequence", "uint32", "Sequence of the frame")
add_bulk("data.ready", "uint32", "Blocks ready")
add_bulk("cancel.status", "uint16", "Reason", base.DEC, STATUSES)
add_bulk("cancel.side", "uint16", "Cancelled by", base.DEC, SIDES)
add_bulk("sequence", "uint64", "Sequence of the seal")
add_bulk("data", "bytes", "Data")
add_bulk("data.sealed", "bytes", "Sealed data")
add_bulk("tag", "bytes", "Tag of the seal")
add_bulk("padding", "bytes", "Padding")
register_bulk()

local function expert_of(proto, prefix)
    local malformed = ProtoExpert.new(
        prefix .. ".malformed", "Not as the protocol says", expert.group.MALFORMED,
        expert.severity.ERROR)
    local crc = ProtoExpert.new(
        prefix .. ".crc.wrong", "Wrong CRC", expert.group.CHECKSUM, expert.severity.ERROR)
    proto.experts = { malformed, crc }
    return { malformed = malformed, crc = crc }
end

local calls_expert = expert_of(calls, "nile")
local bulk_expert = expert_of(bulk, "nile_bulk")

-- What each opcode's header has, in order: a field and its size. "-" is a reserved field.
local HEADERS = {
    [1] = {
        { "destination.node", 4 }, { "destination.generation", 4 }, { "source.core", 2 },
        { "destination.core", 2 }, { "service", 2 }, { "method", 2 },
    },
    [2] = {
        { "destination.node", 4 }, { "destination.generation", 4 }, { "source.core", 2 },
        { "destination.core", 2 }, { "service", 2 }, { "status", 2 },
    },
    [3] = {},
    [4] = { { "destination.node", 4 }, { "destination.core", 2 }, { "-", 2 } },
    [5] = {
        { "destination.node", 4 }, { "destination.generation", 4 }, { "ack.id", 4 },
        { "ack.bitmap", 4 }, { "ack.subject", 1 }, { "-", 1 }, { "ack.segment", 2 },
    },
    [6] = {
        { "destination.node", 4 }, { "hello.known", 4 },
        {
            "hello.state", 2,
            {
                "hello.state.asks", "hello.state.echoes", "hello.state.refuses",
                "hello.state.leaves",
            },
        },
        { "-", 2 }, { "hello.echo", 4 }, { "hello.echo_nonce", 16 }, { "hello.sequence", 8 },
    },
}

-- What each flag adds to the header, in this order.
local EXTENSIONS = {
    { 0x04, { { "segment.index", 2 }, { "segment.count", 2 }, { "segment.total", 4 } } },
    { 0x08, { { "route.source", 4 }, { "route.destination", 4 } } },
    { 0x10, { { "timed.patience", 4 }, { "timed.oldest", 4 } } },
    { 0x20, { { "nonce", 16 } } },
    { 0x01, { { "sequence", 8 } } },
}

local FLAGS = {
    "sealed", "encoded", "segmented", "routed", "timed", "named", "package", "operator", "unknown",
}

local BULK_DESTINATION = { { "destination.node", 4 }, { "destination.generation", 4 } }
local BULK_HEADERS = {
    [1] = {
        { "source.core", 2 }, { "destination.core", 2 }, { "announce.block", 2 }, { "-", 2 },
        { "announce.tag", 8 }, { "announce.label", 8 }, { "announce.total", 8 },
        { "announce.ready", 8 }, { "announce.oldest", 4 }, { "announce.next", 4 },
    },
    [2] = {
        { "credit.block", 2 }, { "-", 2 }, { "credit.base", 4 }, { "credit.next", 4 },
        { "credit.limit", 4 }, { "credit.end", 4 },
    },
    [3] = { { "data.block", 4 }, { "data.sequence", 4 }, { "data.ready", 4 } },
    [4] = { { "cancel.status", 2 }, { "cancel.side", 2 } },
}

local BULK_FLAGS = { "sealed", "last", "complete", "unknown" }

-- CRC-32C, by a table for one byte. `bit` is in every Wireshark, whatever its Lua is.
local band, bxor, rshift = bit.band, bit.bxor, bit.rshift
local CRC = {}
for byte = 0, 255 do
    local rest = byte
    for _ = 1, 8 do
        local low = band(rest, 1)
        rest = rshift(rest, 1)
        if low == 1 then rest = bxor(rest, 0x82f63b78) end
    end
    CRC[byte] = rest
end

local function crc32c(bytes)
    local crc = 0xffffffff
    for place = 1, #bytes do
        crc = bxor(CRC[band(bxor(crc, bytes:byte(place)), 0xff)], rshift(crc, 8))
    end
    return bxor(crc, 0xffffffff) % 0x100000000
end

-- One frame while it is shown: where in it we are, and under what.
local Frame = {}
Frame.__index = Frame

function Frame.new(tvb, tree, fields, experts)
    return setmetatable(
        { tvb = tvb, tree = tree, fields = fields, experts = experts, at = 0 }, Frame)
end

function Frame:malformed(why)
    self.tree:add_proto_expert_info(self.experts.malformed, why)
end

-- Shows the field `name` of `size` bytes here, and goes on behind it.
function Frame:show(name, size, bits)
    local reserved = name == "-"
    local range = self.tvb(self.at, size)
    local item = self.tree:add(self.fields[reserved and "reserved" or name], range)
    for _, part in ipairs(bits or {}) do
        item:add(self.fields[part], range)
    end
    if reserved and range:bytes():tohex():find("[^0]") then
        self:malformed("a reserved field is not zero")
    end
    self.at = self.at + size
    return range
end

-- Shows `fields` one after the other, as far as the header goes: it ends at `stop`.
function Frame:walk(fields, stop)
    for _, field in ipairs(fields) do
        if self.at + field[2] > stop then return false end
        self:show(field[1], field[2], field[3])
    end
    return true
end

-- Says whether the CRC at `at` is that of the bytes before `stop`.
function Frame:check_crc(at, stop, optional)
    local range = self.tvb(at, 4)
    if optional and range:uint() == 0 then return end
    local bytes = self.tvb:raw(0, at) .. "\0\0\0\0" .. self.tvb:raw(at + 4, stop - at - 4)
    local correct = crc32c(bytes) == range:uint()
    self.tree:add(self.fields["crc.correct"], range, correct):set_generated()
    if not correct then self.tree:add_proto_expert_info(self.experts.crc) end
end

-- Shows the first 24 bytes, which the two protocols share; `flags` names the bits.
function Frame:common(flags, id)
    local header = {}
    local function number(name, size, bits) return self:show(name, size, bits):uint() end
    header.version = number("version", 1)
    header.length = number("header_length", 1)
    header.opcode = number("opcode", 1)
    self:show("-", 1)
    local bits = {}
    for place, flag in ipairs(flags) do bits[place] = "flags." .. flag end
    header.flags = number("flags", 2, bits)
    header.data = number("data_length", 2)
    header.id = number(id, 4)
    self:show("crc", 4)
    header.source = number("source.node", 4)
    header.generation = number("source.generation", 4)
    header.sealed = band(header.flags, 1) ~= 0
    header.stop = header.length + header.data + (header.sealed and TAG or 0)
    return header
end

-- Shows what is behind the frame proper: padding, if the frame is as short as frames may be.
function Frame:rest(stop)
    local left = self.tvb:len() - stop
    if left > 0 then
        self.at = stop
        self:show("padding", left)
        if ETHERNET + self.tvb:len() > SHORTEST_FRAME then
            self:malformed("the frame is longer than its header says")
        end
    end
end

-- Shows a document in BOSML's text form. Wireshark's own dissector gives up what is not XML.
local function show_text(frame, range, pinfo, tree)
    local under = tree:add(bosml, range)
    local function show() Dissector.get("xml"):call(range:tvb(), pinfo, under) end
    if not pcall(show) then frame:malformed("the text is no document") end
end

local function is_text(range)
    return range:len() > 0 and range(0, 1):string() == "<"
end

-- Messages that are being put together, by who sent what; and whole ones by the frame whose
-- segment was the last to come.
local partial, whole = {}, {}

function calls.init() partial, whole = {}, {} end

local function gather(pinfo, key, segment, bytes)
    if pinfo.visited then return end
    local message = partial[key] or { parts = {}, have = 0 }
    partial[key] = message
    if not message.parts[segment.index] then
        message.parts[segment.index] = bytes
        message.have = message.have + 1
    end
    if message.have == segment.count then
        whole[pinfo.number] = table.concat(message.parts, "", 0, segment.count - 1)
        partial[key] = nil
    end
end

local function show_data(frame, pinfo, root, header, segment)
    local name = "data"
    if header.sealed then
        name = "data.sealed"
    elseif band(header.flags, 0x02) ~= 0 then
        name = "data.binary"
    end
    if header.data == 0 then return end
    local range = frame:show(name, header.data)
    if header.sealed then return end
    if segment then
        if segment.index >= segment.count then
            return frame:malformed("a segment beyond the last one")
        end
        local ends = tostring(frame.tvb(COMMON, 8):bytes())
        local key = table.concat({ header.source, header.generation, ends, header.opcode,
            header.id, segment.count }, " ")
        gather(pinfo, key, segment, range:bytes():raw())
        local message = whole[pinfo.number]
        if not message then return end
        range = ByteArray.new(message, true):tvb("Message")()
    end
    if name == "data" and is_text(range) then show_text(frame, range, pinfo, root) end
end

local function describe_call(header, tvb)
    local from = "n" .. header.source
    local function half(at) return tvb(at, 2):uint() end
    local function to() return "n" .. tvb(COMMON, 4):uint() end
    local what = OPCODES[header.opcode] .. " " .. header.id
    if header.opcode <= 2 then
        local last = header.opcode == 1 and "method " .. half(38)
            or STATUSES[half(38)] or "status " .. half(38)
        return string.format("%s %s.c%d to %s.c%d, service %d, %s", what, from, half(32), to(),
            half(34), half(36), last)
    elseif header.opcode == 3 then
        return what .. " " .. from
    elseif header.opcode == 5 then
        return string.format("%s %s to %s, of %d", what, from, to(), tvb(32, 4):uint())
    end
    return string.format("%s %s to %s", what, from, to())
end

function calls.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "NILE"
    local frame = Frame.new(tvb, root:add(calls, tvb()), F, calls_expert)
    if tvb:len() < COMMON then return frame:malformed("shorter than a header") end
    local header = frame:common(FLAGS, "id")
    local fields = HEADERS[header.opcode]
    if header.version ~= 1 then return frame:malformed("another version") end
    if not fields then return frame:malformed("an unknown opcode") end
    if band(header.flags, 0xff00) ~= 0 then frame:malformed("unknown flags") end
    if band(header.flags, 0xc0) == 0xc0 then frame:malformed("two who ask") end
    if tvb:len() < header.stop then return frame:malformed("shorter than it says") end
    local complete = frame:walk(fields, header.length)
    local segment
    for _, extension in ipairs(EXTENSIONS) do
        if complete and band(header.flags, extension[1]) ~= 0 then
            local at = frame.at
            complete = frame:walk(extension[2], header.length)
            if complete and extension[1] == 0x04 then
                segment = { index = tvb(at, 2):uint(), count = tvb(at + 2, 2):uint() }
            end
        end
    end
    if not complete or frame.at ~= header.length then
        return frame:malformed("the header's length is not that of its fields")
    end
    pinfo.cols.info = describe_call(header, tvb)
    show_data(frame, pinfo, root, header, segment)
    pinfo.cols.protocol = "NILE"
    if header.sealed then frame:show("tag", TAG) end
    frame:check_crc(12, header.length + header.data)
    frame:rest(header.stop)
end

local function describe_bulk(header, tvb)
    local function word(at) return tvb(at, 4):uint() end
    local what = string.format("%s of transfer %d, n%d to n%d", BULK_OPCODES[header.opcode],
        header.id, header.source, word(COMMON))
    if header.opcode == 2 then
        return string.format("%s: base %d, limit %d", what, word(36), word(44))
    elseif header.opcode == 3 then
        return string.format("%s: block %d, sequence %d", what, word(32), word(36))
    elseif header.opcode == 4 then
        return what .. ": " .. (STATUSES[tvb(32, 2):uint()] or "unknown")
    end
    return what
end

function bulk.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "NILE-BULK"
    local frame = Frame.new(tvb, root:add(bulk, tvb()), B, bulk_expert)
    if tvb:len() < COMMON + 8 then return frame:malformed("shorter than a header") end
    local header = frame:common(BULK_FLAGS, "transfer")
    local fields = BULK_HEADERS[header.opcode]
    if header.version ~= 1 then return frame:malformed("another version") end
    if not fields then return frame:malformed("an unknown opcode") end
    if band(header.flags, 0xfff8) ~= 0 then frame:malformed("unknown flags") end
    if tvb:len() < header.stop then return frame:malformed("shorter than it says") end
    local complete = frame:walk(BULK_DESTINATION, header.length)
        and frame:walk(fields, header.length)
    if complete and header.sealed then
        complete = frame:walk({ { "sequence", 8 } }, header.length)
    end
    if not complete or frame.at ~= header.length then
        return frame:malformed("the header's length is not that of its fields")
    end
    pinfo.cols.info = describe_bulk(header, tvb)
    if header.data > 0 then
        local name = header.sealed and "data.sealed" or "data"
        if header.opcode == 2 and not header.sealed then name = "credit.arrived" end
        frame:show(name, header.data)
    end
    if header.sealed then frame:show("tag", TAG) end
    -- Between nodes that share memory there is no CRC.
    frame:check_crc(12, header.stop, true)
    frame:rest(header.stop)
end

local types = DissectorTable.get("ethertype")
types:add(0x88b5, calls)
types:add(0x88b6, bulk)
