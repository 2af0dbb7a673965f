# cython: language_level=3, wraparound=False, boundscheck=False, cdivision=True
"""Compiled loops of `peers.zeek.zmtp`: runs of events, log records, and CURVE's boxes; built where a C compiler is there.

No number of a message is used as a place or a size before it was compared with the bytes that are there. Input does not
change meanwhile: bytes cannot, and a bytearray is held by its buffer.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memmove

cdef enum:
    # These are the numbers of the pure twins, of `hub.messages.runs` and `peers.values.msgpack`; a test compares them.
    MORE = 1
    LONG = 2
    COMMAND = 4
    SHORT_LIMIT = 255
    BOX_AT = 16
    BOX_BYTES = 16
    KEY_BYTES = 32
    NONCE_BYTES = 24
    HEAD_PARTS = 3
    SHORT_HEADER_BYTES = 2
    LONG_HEADER_BYTES = 9
    LENGTH_BYTES = 4
    RUNS_LIMIT = 4096
    VALUE_HEAD_BYTES = 9
    DEPTH_LIMIT = 8
    PROTOCOLS = 4
    PORT_LIMIT = 65536
    V4_MAPPED_BITS = 96
    CODE_ADDRESS = 2
    CODE_SUBNET = 3
    CODE_ENUM = 7
    CODE_SET = 8
    CODE_RAW_STRING = 10
    EXTENSION_HEAD_BYTES = 6    # the longest there is
    TAG_STRING = 5
    TAG_SUBNET = 7
    TAG_PORT = 8
    TAG_ENUM = 11
    TAG_TABLE = 13
    TAG_VECTOR = 14
    V6_BITS = 128
    ELEMENTS_LIMIT = 65536
    BEGINNING_BYTES = 21        # of EVENT_BEGINNING
    PLAIN_DEPTH = 16            # an event that nests deeper is looked at in Python, which allows more
    PLAIN_MEMBERS = 32          # so is one with a larger set


# ---- what is written ----

cdef struct Out:
    uint8_t* bytes
    Py_ssize_t size
    Py_ssize_t room


cdef int make_room(Out* out, Py_ssize_t more) except -1:
    """Have room for so many bytes."""
    cdef Py_ssize_t room
    cdef void* moved
    if out.room - out.size < more:
        room = out.room * 2 + more + 256
        moved = realloc(out.bytes, room)
        if moved == NULL:
            raise MemoryError()
        out.bytes = <uint8_t*> moved
        out.room = room
    return 0


cdef int add(Out* out, const uint8_t* bytes, Py_ssize_t size) except -1:
    make_room(out, size)
    memcpy(out.bytes + out.size, bytes, size)
    out.size += size
    return 0


cdef inline void put_number(uint8_t* to, uint64_t number, int size) noexcept:
    """Write a number, big-endian."""
    cdef int at
    for at in range(size):
        to[at] = <uint8_t> (number >> 8 * (size - 1 - at))


cdef inline uint64_t read_number(const uint8_t* bytes, int size) noexcept:
    cdef uint64_t found = 0
    cdef int at
    for at in range(size):
        found = found << 8 | bytes[at]
    return found


cdef int add_head(Out* out, uint8_t first, uint64_t number, int size) except -1:
    """Write a byte, and a number of so many bytes."""
    make_room(out, 1 + size)
    out.bytes[out.size] = first
    put_number(out.bytes + out.size + 1, number, size)
    out.size += 1 + size
    return 0


# ---- events to frames ----

cdef const uint8_t* BEGINNING = b"\x0e\x03\x02\x00\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x00\x01\x0e"

cdef Py_ssize_t[12] SIZES
SIZES[:] = [0, 1, 8, 8, 8, -1, 16, 17, 3, 8, 8, -1]   # behind each tag, as `peers.values.binary` has them


cdef inline Py_ssize_t take_length(const uint8_t* data, Py_ssize_t* at, Py_ssize_t end) noexcept:
    """Return a length of up to 4 bytes, and go behind it; -1 if there is none, or a longer one."""
    cdef Py_ssize_t length = 0
    cdef int byte
    for byte in range(4):
        if at[0] >= end:
            return -1
        length |= <Py_ssize_t> (data[at[0]] & 0x7F) << 7 * byte
        at[0] += 1
        if data[at[0] - 1] < 0x80:
            return length
    return -1


cdef Py_ssize_t plain_end(
    const uint8_t* data, Py_ssize_t at, Py_ssize_t end, int depth, Py_ssize_t* elements
) noexcept:
    """Return where a value of Broker ends that begins at `at`; -1 if it is not sound, or was not found to be.

    That is so with lengths of 5 bytes and more, sets and tables of more members than plain ones have, and containers
    that nest deeper: `is_event` decides about these.
    """
    cdef Py_ssize_t length
    cdef uint8_t tag
    if at >= end:
        return -1
    tag = data[at]
    at += 1
    if tag > TAG_VECTOR:
        return -1
    if tag > TAG_ENUM:
        length = take_length(data, &at, end)
        if depth >= PLAIN_DEPTH or length < 0 or length > end - at:
            return -1
        if tag == TAG_VECTOR:
            return plain_values_end(data, at, end, length, depth + 1, elements)
        return plain_members_end(data, at, end, length, tag == TAG_TABLE, depth + 1, elements)
    if tag == TAG_STRING or tag == TAG_ENUM:
        length = take_length(data, &at, end)
        if length < 0:
            return -1
    else:
        length = SIZES[tag]
    if length > end - at:
        return -1
    if tag == TAG_PORT and data[at + 2] >= PROTOCOLS:
        return -1
    if tag == TAG_SUBNET and data[at + 16] > V6_BITS:
        return -1
    return at + length


cdef Py_ssize_t plain_values_end(
    const uint8_t* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count, int depth, Py_ssize_t* elements
) noexcept:
    """Return where so many values end; -1 as `plain_end`."""
    cdef Py_ssize_t number
    elements[0] += count
    if elements[0] > ELEMENTS_LIMIT:
        return -1
    for number in range(count):
        at = plain_end(data, at, end, depth, elements)
        if at < 0:
            return -1
    return at


cdef Py_ssize_t plain_members_end(
    const uint8_t* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t count, bint is_table, int depth, Py_ssize_t* elements
) noexcept:
    """Return where so many members of a set, or keys of a table and what they stand for, end; they differ. -1 as above."""
    cdef Py_ssize_t[PLAIN_MEMBERS] starts
    cdef Py_ssize_t[PLAIN_MEMBERS] sizes
    cdef Py_ssize_t number, other
    elements[0] += count * (1 + is_table)
    if count > PLAIN_MEMBERS or elements[0] > ELEMENTS_LIMIT:
        return -1
    for number in range(count):
        starts[number] = at
        at = plain_end(data, at, end, depth, elements)
        if at < 0:
            return -1
        sizes[number] = at - starts[number]
        for other in range(number):
            if sizes[other] == sizes[number] and memcmp(data + starts[other], data + starts[number], sizes[other]) == 0:
                return -1
        if is_table:
            at = plain_end(data, at, end, depth, elements)
            if at < 0:
                return -1
    return at


cdef bint is_plain_event(const uint8_t* data, Py_ssize_t at, Py_ssize_t end) noexcept:
    """Return whether an event follows what all begin with, to the end; where not, `is_event` may still say so."""
    cdef Py_ssize_t elements = 3
    cdef Py_ssize_t parts = take_length(data, &at, end)
    cdef Py_ssize_t part
    if parts < 2:
        return False
    elements += parts
    for part in range(parts):
        if at >= end or (part == 0 and data[at] != TAG_STRING) or (part == 1 and data[at] != TAG_VECTOR):
            return False
        at = plain_end(data, at, end, 2, &elements)
        if at < 0:
            return False
    return at == end and elements <= ELEMENTS_LIMIT


cdef Py_ssize_t head_end(const uint8_t* data, Py_ssize_t position, Py_ssize_t end) noexcept:
    """Return where three short frames end that are not the last of their message; `position` if they do not stand there."""
    cdef Py_ssize_t at = position
    cdef int part
    for part in range(HEAD_PARTS):
        if at + 1 >= end or data[at] != MORE:
            return position
        at += SHORT_HEADER_BYTES + data[at + 1]
    return at if at <= end else position


def is_event_at(bytes data not None, Py_ssize_t start, Py_ssize_t end, is_event):
    """Return whether an event stands in some bytes from `start` to `end`."""
    cdef const uint8_t* bytes_ = <const uint8_t*> PyBytes_AS_STRING(data)
    if not 0 <= start <= end <= PyBytes_GET_SIZE(data):
        raise ValueError("no part of the data")
    if end - start > BEGINNING_BYTES and memcmp(bytes_ + start, BEGINNING, BEGINNING_BYTES) == 0:
        if is_plain_event(bytes_, start + BEGINNING_BYTES, end):
            return True
    return is_event(data[start:end])


cdef Py_ssize_t take_one_head(
    const uint8_t* data,
    Py_ssize_t position,
    Py_ssize_t end,
    Py_ssize_t head_bytes,
    bytes routing_key,
    bytes beginning,
    uint64_t limit_bytes,
    is_event,
    Out* out,
    Py_ssize_t* messages,
) except -1:
    """Write events with the same head as frames; return where the last of them ends, and count them."""
    cdef const uint8_t* head = data + position
    cdef const uint8_t* key = <const uint8_t*> PyBytes_AS_STRING(routing_key)
    cdef const uint8_t* begins = <const uint8_t*> PyBytes_AS_STRING(beginning)
    cdef Py_ssize_t key_bytes = PyBytes_GET_SIZE(routing_key)
    cdef uint64_t least = PyBytes_GET_SIZE(beginning)
    cdef Py_ssize_t at
    cdef uint64_t length
    while end - position > head_bytes and memcmp(data + position, head, head_bytes) == 0:
        at = position + head_bytes
        if end - at < SHORT_HEADER_BYTES:
            break
        if data[at] == 0:
            length = data[at + 1]
            at += SHORT_HEADER_BYTES
        elif data[at] == LONG and end - at >= LONG_HEADER_BYTES:
            length = read_number(data + at + 1, 8)
            at += LONG_HEADER_BYTES
        else:
            break
        if length > <uint64_t> (end - at) or length + (at - position) > limit_bytes or length < least:
            break
        if memcmp(data + at, begins, least) != 0:
            break
        if not is_plain_event(data, at + least, at + length):
            if not is_event(PyBytes_FromStringAndSize(<const char*> data + at, length)):
                break
        make_room(out, LENGTH_BYTES + key_bytes + length)
        put_number(out.bytes + out.size, length, LENGTH_BYTES)
        memcpy(out.bytes + out.size + LENGTH_BYTES, key, key_bytes)
        memcpy(out.bytes + out.size + LENGTH_BYTES + key_bytes, data + at, length)
        out.size += LENGTH_BYTES + key_bytes + length
        position = at + length
        messages[0] += 1
    return position


def find_events(data, Py_ssize_t position, dict heads, dict table, limit_bytes, bytes beginning not None, is_event):
    """Walk over whole events from `position` on whose heads and routes are known.

    Args:
        data: What was read.
        position: Where an event begins.
        heads: Head of an event, as it stands on the wire → its routing key.
        table: Routing key → route.
        limit_bytes: Longest event.
        beginning: Of every payload; others end the walk.
        is_event: Whether a payload that begins so is an event to its end; others end the walk, too.

    Returns:
        The same messages as the hub's frames; of each run, its route, where it ends in these frames, and its number of
        messages; and where the last event ends. At most `RUNS_LIMIT` runs.
    """
    cdef Py_buffer view
    cdef Out out
    cdef const uint8_t* bytes_
    cdef Py_ssize_t end, behind, messages, head_behind
    cdef uint64_t limit = limit_bytes
    cdef list routes = [], ends = [], counts = []
    out.bytes, out.size, out.room = NULL, 0, 0
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        bytes_ = <const uint8_t*> view.buf
        end = view.len
        while 0 <= position < end:
            head_behind = head_end(bytes_, position, end)
            head = PyBytes_FromStringAndSize(<const char*> bytes_ + position, head_behind - position)
            routing_key = heads.get(head)
            found = None if routing_key is None else table.get(routing_key)
            if found is None:
                break
            is_new = not routes or found is not routes[len(routes) - 1]
            if is_new and len(routes) == RUNS_LIMIT:
                break
            messages = 0
            behind = take_one_head(
                bytes_, position, end, head_behind - position, routing_key, beginning, limit, is_event, &out, &messages
            )
            if not messages:
                break
            if is_new:
                routes.append(found)
                ends.append(out.size)
                counts.append(messages)
            else:
                ends[len(ends) - 1] = out.size
                counts[len(counts) - 1] += messages
            position = behind
        frames = PyBytes_FromStringAndSize(<const char*> out.bytes, out.size) if out.size else b""
        return frames, (routes, ends, counts), position
    finally:
        PyBuffer_Release(&view)
        free(out.bytes)


# ---- log records to msgpack ----

cdef struct In:
    const uint8_t* bytes
    Py_ssize_t position
    Py_ssize_t end


cdef int need(In* source, uint64_t size) except -1:
    """Raise unless so many bytes are left."""
    if size > <uint64_t> (source.end - source.position):
        raise ValueError(f"{size} bytes are said to follow, and {source.end - source.position} do")
    return 0


cdef uint64_t take_number(In* source, int size) except? 1:
    need(source, size)
    cdef uint64_t found = read_number(source.bytes + source.position, size)
    source.position += size
    return found


cdef int add_integer(Out* out, int64_t number) except -1:
    """Write an integer in the shortest form."""
    if number >= 0:
        if number < 128:
            return add_head(out, <uint8_t> number, 0, 0)
        if number < 256:
            return add_head(out, 0xCC, number, 1)
        if number < 65536:
            return add_head(out, 0xCD, number, 2)
        if number < 4294967296:
            return add_head(out, 0xCE, number, 4)
        return add_head(out, 0xCF, number, 8)
    if number >= -32:
        return add_head(out, <uint8_t> (256 + number), 0, 0)
    if number >= -128:
        return add_head(out, 0xD0, <uint64_t> number, 1)
    if number >= -32768:
        return add_head(out, 0xD1, <uint64_t> number, 2)
    if number >= -2147483648:
        return add_head(out, 0xD2, <uint64_t> number, 4)
    return add_head(out, 0xD3, <uint64_t> number, 8)


cdef int add_extension_head(Out* out, int code, uint64_t size) except -1:
    if size == 1 or size == 2 or size == 4 or size == 8 or size == 16:
        add_head(out, 0xD4 if size == 1 else 0xD5 if size == 2 else 0xD6 if size == 4 else 0xD7 if size == 8 else 0xD8, 0, 0)
    elif size < 256:
        add_head(out, 0xC7, size, 1)
    elif size < 65536:
        add_head(out, 0xC8, size, 2)
    else:
        add_head(out, 0xC9, size, 4)
    return add_head(out, <uint8_t> code, 0, 0)


cdef int add_array_head(Out* out, uint64_t size) except -1:
    if size < 16:
        return add_head(out, <uint8_t> (0x90 | size), 0, 0)
    return add_head(out, 0xDC, size, 2) if size < 65536 else add_head(out, 0xDD, size, 4)


cdef bint is_text(const uint8_t* text, Py_ssize_t size):
    """Return whether bytes are UTF-8."""
    cdef Py_ssize_t at
    for at in range(size):
        if text[at] & 0x80:
            break
    else:
        return True
    try:
        PyUnicode_DecodeUTF8(<char*> text, size, NULL)
    except UnicodeDecodeError:
        return False
    return True


cdef int add_string(In* source, Out* out) except -1:
    cdef uint64_t size = take_number(source, 4)
    need(source, size)
    cdef const uint8_t* text = source.bytes + source.position
    source.position += size
    if not is_text(text, size):
        add_extension_head(out, CODE_RAW_STRING, size)
    elif size < 32:
        add_head(out, <uint8_t> (0xA0 | size), 0, 0)
    elif size < 256:
        add_head(out, 0xD9, size, 1)
    elif size < 65536:
        add_head(out, 0xDA, size, 2)
    else:
        add_head(out, 0xDB, size, 4)
    return add(out, text, size)


cdef int add_enum(In* source, Out* out) except -1:
    cdef uint64_t size = take_number(source, 4)
    need(source, size)
    add_extension_head(out, CODE_ENUM, size)
    add(out, source.bytes + source.position, size)
    source.position += size
    return 0


cdef int add_port(In* source, Out* out) except -1:
    need(source, 12)
    cdef uint64_t number = take_number(source, 8)
    cdef uint64_t protocol = take_number(source, 4)
    if number >= PORT_LIMIT or protocol >= PROTOCOLS:
        raise ValueError(f"port {number} of protocol {protocol}")
    if number < 128:
        return add_head(out, <uint8_t> number, 0, 0)
    return add_head(out, 0xCC, number, 1) if number < 256 else add_head(out, 0xCD, number, 2)


cdef int address_bytes(In* source) except -1:
    """Return how many bytes the address has that stands behind its family."""
    cdef uint64_t family = take_number(source, 1)
    if family != 4 and family != 6:
        raise ValueError(f"an address of the family {family}")
    cdef int size = 4 if family == 4 else 16
    need(source, size)
    return size


cdef int add_address(In* source, Out* out) except -1:
    cdef int size = address_bytes(source)
    add_extension_head(out, CODE_ADDRESS, size)
    add(out, source.bytes + source.position, size)
    source.position += size
    return 0


cdef int add_subnet(In* source, Out* out) except -1:
    cdef int length = <int> take_number(source, 1)
    cdef int size = address_bytes(source)
    if size == 4:
        length -= V4_MAPPED_BITS
    if not 0 <= length <= 8 * size:
        raise ValueError(f"a subnet with a length of {length}")
    add_extension_head(out, CODE_SUBNET, size + 1)
    add(out, source.bytes + source.position, size)
    source.position += size
    return add_head(out, <uint8_t> length, 0, 0)


cdef int add_elements(In* source, Out* out, int kind, int depth) except -1:
    """Write the elements of a set or a vector."""
    if depth == DEPTH_LIMIT:
        raise ValueError(f"more than {DEPTH_LIMIT} sets and vectors in each other")
    cdef int64_t count = <int64_t> take_number(source, 8)
    cdef int64_t at
    cdef Py_ssize_t left = source.end - source.position
    if count < 0 or count > left // VALUE_HEAD_BYTES:
        raise ValueError(f"{count} elements are said to follow, in {left} bytes")
    if kind == 14 and count and read_number(source.bytes + source.position, 4) == 10:
        kind = 19  # numbers of ports may repeat: 53/tcp and 53/udp
    cdef Py_ssize_t begin = out.size
    cdef Py_ssize_t size, head
    if kind == 14:  # its head is written behind the rest, whose size it says
        make_room(out, EXTENSION_HEAD_BYTES)
        out.size += EXTENSION_HEAD_BYTES
    add_array_head(out, count)
    for at in range(count):
        if not add_value(source, out, -1, depth + 1):
            add_head(out, 0xC0, 0, 0)
    if kind != 14:
        return 0
    size = out.size - begin - EXTENSION_HEAD_BYTES
    out.size = begin
    add_extension_head(out, CODE_SET, size)
    head = out.size - begin
    memmove(out.bytes + out.size, out.bytes + begin + EXTENSION_HEAD_BYTES, size)
    out.size += size
    return 0


cdef int add_value(In* source, Out* out, int64_t expected, int depth) except -1:
    """Write a value; return whether it is set."""
    need(source, VALUE_HEAD_BYTES)
    cdef uint64_t kind = read_number(source.bytes + source.position, 4)
    cdef uint8_t present = source.bytes[source.position + 8]
    if expected != -1 and <uint64_t> expected != kind:
        raise ValueError(f"a value of type {kind} in a field of type {expected}")
    source.position += VALUE_HEAD_BYTES
    if not present:
        return 0
    if kind == 3 or 4 <= kind <= 6:
        need(source, 8)
        if kind == 3:
            add_head(out, 0xD7, 1, 1)
        else:
            add_head(out, 0xCB, 0, 0)
        add(out, source.bytes + source.position, 8)
        source.position += 8
    elif kind == 7 or kind == 17 or kind == 18:
        add_string(source, out)
    elif kind == 11:
        add_address(source, out)
    elif kind == 10:
        add_port(source, out)
    elif kind == 9:
        add_enum(source, out)
    elif kind == 1:
        add_head(out, 0xC3 if take_number(source, 8) else 0xC2, 0, 0)
    elif kind == 2:
        add_integer(out, <int64_t> take_number(source, 8))
    elif kind == 12:
        add_subnet(source, out)
    elif kind == 14 or kind == 19:
        add_elements(source, out, <int> kind, depth)
    else:
        raise ValueError(f"a value of type {kind}, which no log has")
    return 1


cdef int add_record(In* source, Out* out, list columns) except -1:
    """Write a record as a map; its head is written behind the rest, as it says how many fields are set."""
    cdef Py_ssize_t begin = out.size
    cdef Py_ssize_t field, size
    cdef uint64_t fields = 0
    cdef bytes name
    make_room(out, 3)
    out.size += 3
    for name, kind in columns:
        field = out.size
        add(out, <const uint8_t*> PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
        if add_value(source, out, kind, 0):
            fields += 1
        else:
            out.size = field
    size = out.size - begin - 3
    out.size = begin
    if fields < 16:
        add_head(out, <uint8_t> (0x80 | fields), 0, 0)
        memmove(out.bytes + out.size, out.bytes + begin + 3, size)
    else:
        add_head(out, 0xDE, fields, 2)
    out.size += size
    return 0


def take_records(bytes data not None, Py_ssize_t position, list columns not None, Py_ssize_t count):
    """Return records as msgpack maps, back to back, and where the last of them ends."""
    cdef In source
    cdef Out out
    cdef Py_ssize_t record
    source.bytes = <const uint8_t*> PyBytes_AS_STRING(data)
    source.end = PyBytes_GET_SIZE(data)
    if not 0 <= position <= source.end:
        raise ValueError(f"byte {position} of {source.end}")
    source.position = position
    out.bytes, out.size, out.room = NULL, 0, 0
    try:
        for record in range(count):
            add_record(&source, &out, columns)
        return PyBytes_FromStringAndSize(<const char*> out.bytes, out.size) if out.size else b"", source.position
    except ValueError as error:
        raise ValueError(str(error), source.position) from None
    finally:
        free(out.bytes)


# ---- frames to boxes ----

ctypedef int (*sealer)(uint8_t*, const uint8_t*, unsigned long long, const uint8_t*, const uint8_t*) noexcept nogil
ctypedef int (*opener)(uint8_t*, const uint8_t*, unsigned long long, const uint8_t*, const uint8_t*) noexcept nogil


cdef inline Py_ssize_t frame_body(const uint8_t* data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t* start) noexcept nogil:
    """Return how long the body of a frame is, and where it starts; -1 if the frame is not whole."""
    cdef uint64_t length = 0
    cdef int byte
    if data[at] & LONG:
        start[0] = at + LONG_HEADER_BYTES
        if start[0] > end:
            return -1
        for byte in range(8):
            length = length << 8 | data[at + 1 + byte]
    else:
        start[0] = at + SHORT_HEADER_BYTES
        if start[0] > end:
            return -1
        length = data[at + 1]
    return -1 if length > <uint64_t> (end - start[0]) else <Py_ssize_t> length


cdef bint fill_boxes(
    uint8_t* to, const uint8_t* data, Py_ssize_t end, uint64_t number, uint8_t* nonce, const uint8_t* key, sealer seal
) noexcept nogil:
    """Write each frame in a box, to where there is room for all; return whether libsodium has sealed them."""
    cdef Py_ssize_t at = 0, start = 0, length, size
    cdef int byte
    while at < end:
        length = frame_body(data, at, end, &start)
        size = BOX_AT + BOX_BYTES + 1 + length
        if size <= SHORT_LIMIT:
            to[0], to[1] = 0, <uint8_t> size
            to += SHORT_HEADER_BYTES
        else:
            to[0] = LONG
            for byte in range(8):
                to[1 + byte] = <uint8_t> (<uint64_t> size >> 8 * (7 - byte))
            to += LONG_HEADER_BYTES
        number += 1
        memcpy(to, b"\x07MESSAGE", 8)
        for byte in range(8):
            nonce[16 + byte] = to[8 + byte] = <uint8_t> (number >> 8 * (7 - byte))
        to += BOX_AT
        to[BOX_BYTES] = data[at] & MORE | (data[at] & COMMAND) >> 1
        memcpy(to + BOX_BYTES + 1, data + start, length)
        # In its place: libsodium allows a text at the place of its cipher.
        if seal(to, to + BOX_BYTES, length + 1, nonce, key) != 0:
            return False
        to += BOX_BYTES + 1 + length
        at = start + length
    return True


def seal_frames(bytes frames not None, uint64_t number, bytes prefix not None, bytes key not None, size_t function):
    """Return whole frames in boxes, and the last number that was used; `function` is `crypto_box_easy_afternm`."""
    cdef const uint8_t* data = <const uint8_t*> PyBytes_AS_STRING(frames)
    cdef const uint8_t* secret = <const uint8_t*> PyBytes_AS_STRING(key)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(frames)
    cdef Py_ssize_t at = 0, start = 0, length, size, total = 0
    cdef uint64_t count = 0
    cdef uint8_t[NONCE_BYTES] nonce
    cdef uint8_t* to
    cdef bint is_done
    if PyBytes_GET_SIZE(key) != KEY_BYTES or PyBytes_GET_SIZE(prefix) != NONCE_BYTES - 8 or not function:
        raise ValueError("no key, no nonce or no function")
    while at < end:
        length = frame_body(data, at, end, &start)
        if length < 0:
            raise ValueError("a frame that is not whole")
        size = BOX_AT + BOX_BYTES + 1 + length
        total += size + (SHORT_HEADER_BYTES if size <= SHORT_LIMIT else LONG_HEADER_BYTES)
        at = start + length
        count += 1
    if count > <uint64_t> -1 - number:
        raise OverflowError("no numbers are left")  # none may be used twice
    memcpy(nonce, PyBytes_AS_STRING(prefix), NONCE_BYTES - 8)
    sealed = PyBytes_FromStringAndSize(NULL, total)
    to = <uint8_t*> PyBytes_AS_STRING(sealed)
    with nogil:
        is_done = fill_boxes(to, data, end, number, nonce, secret, <sealer> function)
    if not is_done:
        raise RuntimeError("libsodium does not seal")
    return sealed, number + count


# ---- boxes to frames ----


cdef uint64_t read_wide(const uint8_t* data) noexcept nogil:
    """Return the number in 8 bytes."""
    cdef uint64_t number = 0
    cdef int byte
    for byte in range(8):
        number = number << 8 | data[byte]
    return number


def open_frames(  # noqa: PLR0913
    bytearray sealed not None,
    Py_ssize_t position,
    Py_ssize_t boxes,
    uint64_t limit_bytes,
    uint64_t number,
    bytes prefix not None,
    bytes key not None,
    size_t function,
):
    """Open boxes that are whole and as they should be; `function` is `crypto_box_open_easy_afternm`.

    Args:
        sealed: What was read.
        position: Where a frame begins.
        boxes: Most boxes.
        limit_bytes: The longest body of a frame around a box.
        number: The last one that the far side has used.
        prefix: Of its nonces.
        key: Of both sides.
        function: Its address.

    Returns:
        The frames, where the last box ends, and its number. What stands behind is for who can tell what is wrong.
    """
    cdef const uint8_t* data = <const uint8_t*> PyByteArray_AS_STRING(sealed)
    cdef const uint8_t* secret = <const uint8_t*> PyBytes_AS_STRING(key)
    cdef Py_ssize_t end = PyByteArray_GET_SIZE(sealed)
    cdef Py_ssize_t at = position, start = 0, size, length, head, count = 0
    cdef uint64_t came
    cdef uint8_t[NONCE_BYTES] nonce
    cdef uint8_t flags
    cdef uint8_t* to
    cdef int byte
    cdef opener unseal = <opener> function
    if PyBytes_GET_SIZE(key) != KEY_BYTES or PyBytes_GET_SIZE(prefix) != NONCE_BYTES - 8 or not function or position < 0:
        raise ValueError("no key, no nonce or no function")
    while count < boxes and at < end:
        if data[at] & ~(LONG | COMMAND):
            break
        size = frame_body(data, at, end, &start)
        if size < BOX_AT + BOX_BYTES + 1 or <uint64_t> size > limit_bytes:
            break
        at = start + size
        count += 1
    if not count:
        return b"", position, number
    frames = PyBytes_FromStringAndSize(NULL, at - position)  # a frame is shorter than the box around it
    to = <uint8_t*> PyBytes_AS_STRING(frames)
    memcpy(nonce, PyBytes_AS_STRING(prefix), NONCE_BYTES - 8)
    with nogil:
        while count:
            size = frame_body(data, position, end, &start)
            came = read_wide(data + start + 8)
            if memcmp(data + start, b"\x07MESSAGE", 8) != 0 or came <= number:
                break
            memcpy(nonce + 16, data + start + 8, 8)
            length = size - BOX_AT - BOX_BYTES - 1
            head = SHORT_HEADER_BYTES if length <= SHORT_LIMIT else LONG_HEADER_BYTES
            # The flags that stand in front of the body come to stand where its header ends.
            if unseal(to + head - 1, data + start + BOX_AT, size - BOX_AT, nonce, secret) != 0:
                break
            flags = to[head - 1]
            if flags > 2:
                break
            flags = COMMAND if flags == 2 else flags
            if length <= SHORT_LIMIT:
                to[0], to[1] = flags, <uint8_t> length
            else:
                to[0] = flags | LONG
                for byte in range(8):
                    to[1 + byte] = <uint8_t> (<uint64_t> length >> 8 * (7 - byte))
            to += head + length
            number = came
            position = start + size
            count -= 1
    return frames[:to - <uint8_t*> PyBytes_AS_STRING(frames)], position, number
