# Part of _packing.pyx: where the sections of a block are. The pure twin is layout.py.

cdef struct Sections:
    int64_t records, topics, topic_bytes, flags, value_bytes, first
    int64_t times_at, offsets_at, topic_nos_at, value_ends_at, topic_ends_at, encodings_at, text_at, values_at, size
    int64_t* times
    int64_t* offsets            # NULL if dense
    int32_t* topic_nos
    int32_t* value_ends
    int32_t* topic_ends
    uint8_t* encodings          # NULL if all are msgpack
    uint8_t* text
    uint8_t* values


cdef inline int64_t padded(int64_t size) noexcept nogil:
    return (size + 7) & ~<int64_t> 7


cdef void lay_out(Sections* s) noexcept nogil:
    """Find places from the numbers of the header."""
    s.times_at = HEADER_BYTES
    s.offsets_at = s.times_at + 8 * s.records
    s.topic_nos_at = s.offsets_at + (8 * s.records if s.flags & SPARSE else 0)
    s.value_ends_at = s.topic_nos_at + padded(4 * s.records)
    s.topic_ends_at = s.value_ends_at + padded(4 * (s.records + 1))
    s.encodings_at = s.topic_ends_at + padded(4 * (s.topics + 1))
    s.text_at = s.encodings_at + (padded(s.records) if s.flags & ENCODINGS else 0)
    s.values_at = s.text_at + padded(s.topic_bytes)
    s.size = s.values_at + padded(s.value_bytes)


cdef void point(Sections* s, uint8_t* base) noexcept nogil:
    """Turn places into pointers; `base` must be aligned to 8 bytes."""
    s.times = <int64_t*> (base + s.times_at)
    s.offsets = <int64_t*> (base + s.offsets_at) if s.flags & SPARSE else NULL
    s.topic_nos = <int32_t*> (base + s.topic_nos_at)
    s.value_ends = <int32_t*> (base + s.value_ends_at)
    s.topic_ends = <int32_t*> (base + s.topic_ends_at)
    s.encodings = base + s.encodings_at if s.flags & ENCODINGS else NULL
    s.text = base + s.text_at
    s.values = base + s.values_at


cdef bint ends_ascend(const int32_t* ends, int64_t count, int64_t length) noexcept nogil:
    cdef int64_t index
    cdef int bad = (ends[0] != 0) | (ends[count] != length)
    for index in range(count):
        bad |= ends[index + 1] < ends[index]
    return not bad


cdef const char* fault_in_columns(Sections* s) noexcept nogil:
    """Return what is wrong with what stands in the columns, NULL if nothing."""
    cdef int64_t index
    cdef int bad = 0
    for index in range(s.records):
        bad |= <uint32_t> s.topic_nos[index] >= <uint32_t> s.topics
    if bad:
        return "a topic is not in the dictionary"
    if not ends_ascend(s.value_ends, s.records, s.value_bytes):
        return "the ends of values do not ascend from 0 to their length"
    if not ends_ascend(s.topic_ends, s.topics, s.topic_bytes):
        return "the ends of topics do not ascend from 0 to their length"
    for index in range(s.topics):
        bad |= s.topic_ends[index + 1] - s.topic_ends[index] > TOPIC_LIMIT_BYTES
    if bad:
        return "a topic is longer than a frame can bear"
    if s.encodings != NULL:
        for index in range(s.records):
            bad |= s.encodings[index] > 3
        if bad:
            return "an encoding has more than two bits"
    if s.offsets != NULL:
        bad = (s.offsets[0] != s.first) | (s.offsets[s.records - 1] >= OFFSET_LIMIT)
        for index in range(s.records - 1):
            bad |= s.offsets[index + 1] <= s.offsets[index]
        if bad:
            return "the offsets do not ascend from the first on"
    elif s.first + s.records > OFFSET_LIMIT:
        return "the offsets do not ascend from the first on"
    return NULL


cdef int read_sections(const uint8_t* base, int64_t size, Sections* s) except -1:
    """Find and check the sections of a block; afterwards nothing in it leads out of it."""
    cdef uint32_t numbers[4]
    cdef uint64_t value_bytes
    cdef const char* fault
    if size < HEADER_BYTES:
        raise ValueError(f"{size} bytes are shorter than a header")
    if memcmp(base, b"HJB1", 4) != 0:
        raise ValueError("it does not begin with HJB1")
    memcpy(numbers, base + 8, 16)
    memcpy(&value_bytes, base + 24, 8)
    memcpy(&s.first, base + 32, 8)
    s.records, s.topics, s.topic_bytes, s.flags = numbers[0], numbers[1], numbers[2], numbers[3]
    if s.flags & ~<int64_t> (SPARSE | ENCODINGS):
        raise ValueError(f"flags {s.flags} are not known to this version")
    if not (0 < s.records <= RECORDS_LIMIT and 0 < s.topics <= s.records and 0 <= s.first < OFFSET_LIMIT):
        raise ValueError(f"{s.records} records of {s.topics} topics from {s.first} on cannot be")
    if s.topic_bytes > SECTION_LIMIT_BYTES or value_bytes > <uint64_t> SECTION_LIMIT_BYTES:
        raise ValueError(f"{s.topic_bytes} bytes of topics or {value_bytes} of values are too many")
    s.value_bytes = <int64_t> value_bytes
    lay_out(s)
    if s.size != size:
        raise ValueError(f"it has {size} bytes and says {s.size}")
    point(s, <uint8_t*> base)
    fault = fault_in_columns(s)
    if fault != NULL:
        raise ValueError((<bytes> fault).decode())
    return 0


def read_layout(block not None):
    """Find the sections of a block and check all of it but the checksum: see `hub.journal.layout`."""
    cdef Py_buffer view
    cdef Sections s
    cdef bytes copy
    PyObject_GetBuffer(block, &view, PyBUF_SIMPLE)
    try:
        if <size_t> view.buf & 7:  # the columns are read as what they are, so they must be aligned
            copy = PyBytes_FromStringAndSize(<const char*> view.buf, view.len)
            read_sections(<const uint8_t*> PyBytes_AS_STRING(copy), view.len, &s)
        else:
            read_sections(<const uint8_t*> view.buf, view.len, &s)
    finally:
        PyBuffer_Release(&view)
    return Layout(
        s.records, s.topics, s.topic_bytes, s.flags, s.value_bytes, s.first,
        s.times_at, s.offsets_at, s.topic_nos_at, s.value_ends_at, s.topic_ends_at, s.encodings_at, s.text_at,
        s.values_at,
    )


cdef bytes open_block(Sections* s):
    """Make a block with its header and nothing in its sections yet; what pads them is there."""
    if s.topic_bytes > SECTION_LIMIT_BYTES or s.value_bytes > SECTION_LIMIT_BYTES:
        raise ValueError("the values or topics are too many bytes for one block")
    lay_out(s)
    cdef bytes block = PyBytes_FromStringAndSize(NULL, s.size)
    cdef uint8_t* base = <uint8_t*> PyBytes_AS_STRING(block)
    cdef uint32_t numbers[4]
    point(s, base)
    # Of each section that may be padded, its last eight bytes.
    memset(base + s.value_ends_at - 8, 0, 8)
    memset(base + s.topic_ends_at - 8, 0, 8)
    memset(base + s.encodings_at - 8, 0, 8)
    memset(base + s.text_at - 8, 0, 8)
    memset(base + s.values_at - 8, 0, 8)
    memset(base + s.size - 8, 0, 8)
    numbers[0], numbers[1], numbers[2], numbers[3] = s.records, s.topics, s.topic_bytes, s.flags
    memcpy(base, b"HJB1", 4)
    memcpy(base + 8, numbers, 16)
    memcpy(base + 24, &s.value_bytes, 8)
    memcpy(base + 32, &s.first, 8)
    return block


cdef int close_block(bytes block) except -1:
    """Write the checksum, when all else is there."""
    cdef uint32_t checksum = crc32(memoryview(block)[CHECKED_FROM:])
    memcpy(PyBytes_AS_STRING(block) + 4, &checksum, 4)
    return 0
