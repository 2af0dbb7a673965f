# cython: language_level=3, wraparound=False, boundscheck=False, cdivision=True
"""The compiled twin of `hub.journal.packing` and of `read_layout`: same contracts, same tests.

Optional: built where a C compiler is there, chosen at import by `hub.journal.block`.

Nothing that stands in a block or a frame is used as a place or a size before it was compared with what is there:
`read_sections` is called on every block that comes in, `skip_value` never reads at or behind its end. Nothing here calls
Python code between a check and the use of what was checked.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from zlib import crc32

from hub.journal.layout import Layout

cdef enum:
    HEADER_BYTES = 40           # of a block
    CHECKED_FROM = 8
    SPARSE = 1
    ENCODINGS = 2
    RECORDS_LIMIT = 65536
    TOPIC_LIMIT_BYTES = 65535
    FRAME_HEADER_BYTES = 8
    BATCH_COUNT_BYTES = 4
    BATCH_LIMIT_MESSAGES = 65536
    KIND_MESSAGES = 2
    FLAG_BATCH = 1
    BLOCK_RECORDS = 8192
    BLOCK_BYTES = 1048576
    BLOCK_BYTES_LIMIT = 1073741824

cdef int64_t SECTION_LIMIT_BYTES = 2147483647
cdef int64_t OFFSET_LIMIT = 4611686018427387904


# ---- where the sections of a block are ----

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
    """Turn places into pointers; `base` is aligned to 8."""
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
    """Write the checksum: all else is there."""
    cdef uint32_t checksum = crc32(memoryview(block)[CHECKED_FROM:])
    memcpy(PyBytes_AS_STRING(block) + 4, &checksum, 4)
    return 0


# ---- frames to blocks ----

cdef inline int64_t read_u32(const uint8_t* at) noexcept nogil:
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


cdef inline int64_t read_u16(const uint8_t* at) noexcept nogil:
    return (<uint32_t> at[0] << 8) | at[1]


# Of the first bytes from 0xc0 on: how many bytes of length follow (255: there is no such byte), how many bytes besides.
cdef uint8_t* LENGTH_BYTES = [
    0, 255, 0, 0,  1, 2, 4,  1, 2, 4,  0, 0,  0, 0, 0, 0,  0, 0, 0, 0,  0, 0, 0, 0, 0,  1, 2, 4,  2, 4,  2, 4,
]
cdef uint8_t* FIXED_BYTES = [
    0, 0, 0, 0,  0, 0, 0,  1, 1, 1,  4, 8,  1, 2, 4, 8,  1, 2, 4, 8,  2, 3, 5, 9, 17,  0, 0, 0,  0, 0,  0, 0,
]


cdef inline const uint8_t* skip_value(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Return where the msgpack value at `at` ends; NULL if it is malformed or does not end before `end`."""
    cdef int64_t due = 1        # values that must still come: at most 2^33 for each five bytes, so it does not overflow
    cdef int64_t length
    cdef uint8_t tag, width
    while due:
        if due > end - at:      # each takes at least one byte
            return NULL
        tag = at[0]
        at += 1
        due -= 1
        if tag < 0x80 or tag >= 0xE0:
            continue
        if tag < 0xA0:
            due += (tag & 0x0F) << (tag < 0x90)
            continue
        if tag < 0xC0:
            length = tag & 0x1F
        else:
            tag -= 0xC0
            width = LENGTH_BYTES[tag]
            if width == 0:
                length = FIXED_BYTES[tag]
            else:
                if width > end - at:
                    return NULL  # 255 too, or else below
                if width == 1:
                    length = at[0]
                elif width == 2:
                    length = read_u16(at)
                elif width == 4:
                    length = read_u32(at)
                else:
                    return NULL
                at += width
                if tag >= 0x1C:  # array 16 and 32, map 16 and 32
                    due += length << (tag >= 0x1E)
                    continue
                length += FIXED_BYTES[tag]
        if length > end - at:
            return NULL
        at += length
    return at


cdef class Draft:
    """A dense block that grows. It points into frames: whoever adds to it keeps them until `take`."""

    cdef int64_t* times
    cdef const uint8_t** values
    cdef int32_t* value_ends    # without the zero in front
    cdef int32_t* topic_nos
    cdef uint8_t* encodings
    cdef int64_t capacity
    cdef int64_t count
    cdef int64_t first
    cdef int64_t value_bytes
    cdef int64_t topic_bytes
    cdef bint encoded           # not all are msgpack
    cdef dict numbers
    cdef const uint8_t* key     # of the last record: many have the same
    cdef int64_t key_bytes
    cdef int32_t number

    def __cinit__(self, int64_t first):
        self.times = NULL
        self.values = NULL
        self.value_ends = NULL
        self.topic_nos = NULL
        self.encodings = NULL
        self.capacity = 0
        self.count = 0
        self.restart(first)

    def __dealloc__(self):
        free(self.times)
        free(self.values)
        free(self.value_ends)
        free(self.topic_nos)
        free(self.encodings)

    cdef void restart(self, int64_t first):
        self.first = first
        self.count = 0
        self.value_bytes = 0
        self.topic_bytes = 0
        self.encoded = False
        self.numbers = {}
        self.key = NULL
        self.key_bytes = -1

    cdef int grow(self) except -1:
        cdef int64_t capacity = min(max(64, 4 * self.capacity), RECORDS_LIMIT)
        cdef void* moved
        moved = realloc(self.times, capacity * 8)
        if moved == NULL:
            raise MemoryError
        self.times = <int64_t*> moved
        moved = realloc(self.values, capacity * sizeof(uint8_t*))
        if moved == NULL:
            raise MemoryError
        self.values = <const uint8_t**> moved
        moved = realloc(self.value_ends, capacity * 4)
        if moved == NULL:
            raise MemoryError
        self.value_ends = <int32_t*> moved
        moved = realloc(self.topic_nos, capacity * 4)
        if moved == NULL:
            raise MemoryError
        self.topic_nos = <int32_t*> moved
        moved = realloc(self.encodings, capacity)
        if moved == NULL:
            raise MemoryError
        self.encodings = <uint8_t*> moved
        self.capacity = capacity
        return 0

    cdef int find_topic(self, const uint8_t* key, int64_t key_bytes) except -1:
        """Set `number` to that of a topic."""
        if key_bytes == self.key_bytes and memcmp(key, self.key, key_bytes) == 0:
            return 0
        cdef bytes text = PyBytes_FromStringAndSize(<const char*> key, key_bytes)
        found = self.numbers.get(text)
        if found is None:
            text.decode("utf-8")
            self.number = <int32_t> len(self.numbers)
            self.numbers[text] = self.number
            self.topic_bytes += key_bytes
        else:
            self.number = found
        self.key = key
        self.key_bytes = key_bytes
        return 0

    cdef inline int add(self, int64_t time_us, uint8_t encoding, const uint8_t* value, int64_t size) except -1:
        """Append a record of the topic that was found last."""
        cdef int64_t count = self.count
        if count == self.capacity:
            self.grow()
        self.times[count] = time_us
        self.topic_nos[count] = self.number
        self.values[count] = value
        self.value_bytes += size
        self.value_ends[count] = <int32_t> self.value_bytes
        self.encodings[count] = encoding
        self.encoded |= encoding != 0
        self.count = count + 1
        return 0

    cdef bytes take(self):
        """Return what was appended as a block, and begin the next one."""
        cdef Sections s
        cdef int64_t at = 0
        cdef int64_t number = 0
        cdef bytes key
        s.records, s.topics, s.topic_bytes = self.count, len(self.numbers), self.topic_bytes
        s.value_bytes, s.first, s.flags = self.value_bytes, self.first, ENCODINGS if self.encoded else 0
        cdef bytes block = open_block(&s)
        memcpy(s.times, self.times, self.count * 8)
        memcpy(s.topic_nos, self.topic_nos, self.count * 4)
        s.value_ends[0] = 0
        memcpy(s.value_ends + 1, self.value_ends, self.count * 4)
        if self.encoded:
            memcpy(s.encodings, self.encodings, self.count)
        s.topic_ends[0] = 0
        for key in self.numbers:
            memcpy(s.text + at, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
            at += PyBytes_GET_SIZE(key)
            number += 1
            s.topic_ends[number] = <int32_t> at
        self.copy_values(s.values)
        close_block(block)
        self.restart(self.first + self.count)
        return block

    cdef void copy_values(self, uint8_t* to) noexcept nogil:
        """Copy the values; those that stand behind one another, as in a BATCH, at once."""
        cdef int64_t index
        cdef int64_t start = 0          # where the value begins in the block
        cdef int64_t run_start = 0      # the same of the run
        cdef const uint8_t* run = self.values[0]
        for index in range(self.count):
            if self.values[index] != run + (start - run_start):
                memcpy(to + run_start, run, start - run_start)
                run = self.values[index]
                run_start = start
            start = self.value_ends[index]
        memcpy(to + run_start, run, start - run_start)


cdef int64_t batch_count(const uint8_t* body, int64_t size) except -1:
    """How many values a BATCH body says it holds."""
    cdef int64_t count = read_u32(body) if size >= BATCH_COUNT_BYTES else 0
    if not 0 < count <= BATCH_LIMIT_MESSAGES:
        raise ValueError(f"a BATCH of {size} bytes holds an impossible number of values")
    return count


cdef bytes batch_ends(const uint8_t* body, int64_t size, int64_t count, uint8_t encoding):
    """Where the values of a BATCH body end, int32; if they cannot be told apart, the first is all of them."""
    cdef bytes scratch = PyBytes_FromStringAndSize(NULL, count * 4)
    cdef int32_t* ends = <int32_t*> PyBytes_AS_STRING(scratch)
    cdef const uint8_t* at = body + BATCH_COUNT_BYTES if encoding == 0 else NULL
    cdef int64_t index = 0
    while at != NULL and index < count:
        at = skip_value(at, body + size)
        ends[index] = <int32_t> (at - body)
        index += 1
    if at != body + size:
        for index in range(count):
            ends[index] = <int32_t> size
    return scratch


def pack(
    list parts not None, int64_t first, int64_t limit_records=BLOCK_RECORDS, int64_t limit_bytes=BLOCK_BYTES
):
    """Make blocks of frames: see `hub.journal.packing`."""
    if not (0 < limit_records <= RECORDS_LIMIT and 0 < limit_bytes <= BLOCK_BYTES_LIMIT):
        raise ValueError(f"blocks of {limit_records} records and {limit_bytes} bytes are not within the limits")
    if not 0 <= first < OFFSET_LIMIT:
        raise ValueError(f"the offset {first} is not within the limits")
    cdef list kept = list(parts)  # the draft points into them, whatever becomes of the list
    cdef list blocks = []
    cdef Draft draft = Draft(first)
    cdef int64_t time_us, body_bytes, key_bytes, count, index, start
    cdef uint8_t encoding
    cdef bytes frames, scratch
    cdef const int32_t* ends
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef const uint8_t* body
    for time_us, frames in kept:
        if frames is None:
            raise TypeError("frames are bytes")
        at = <const uint8_t*> PyBytes_AS_STRING(frames)
        end = at + PyBytes_GET_SIZE(frames)
        while at < end:
            if end - at < FRAME_HEADER_BYTES:
                raise ValueError("a frame is cut off")
            body_bytes = read_u32(at)
            key_bytes = read_u16(at + 6)
            if FRAME_HEADER_BYTES + key_bytes + body_bytes > end - at:
                raise ValueError("a frame is cut off")
            if at[4] != KIND_MESSAGES or body_bytes > BLOCK_BYTES_LIMIT:
                raise ValueError(f"a frame of kind {at[4]} and {body_bytes} bytes has no place in the journal")
            encoding = at[5] >> 1 & 3
            body = at + FRAME_HEADER_BYTES + key_bytes
            draft.find_topic(at + FRAME_HEADER_BYTES, key_bytes)
            if not at[5] & FLAG_BATCH:
                draft.add(time_us, encoding, body, body_bytes)
                if draft.count >= limit_records or max(draft.value_bytes, draft.topic_bytes) >= limit_bytes:
                    blocks.append(draft.take())
            else:
                count = batch_count(body, body_bytes)
                scratch = batch_ends(body, body_bytes, count, encoding)
                ends = <const int32_t*> PyBytes_AS_STRING(scratch)
                start = BATCH_COUNT_BYTES
                for index in range(count):
                    if draft.key == NULL:  # a block was cut within the frame
                        draft.find_topic(at + FRAME_HEADER_BYTES, key_bytes)
                    draft.add(time_us, encoding, body + start, ends[index] - start)
                    start = ends[index]
                    if draft.count >= limit_records or max(draft.value_bytes, draft.topic_bytes) >= limit_bytes:
                        blocks.append(draft.take())
            at = body + body_bytes
    if draft.count:
        blocks.append(draft.take())
    return blocks


# ---- blocks to blocks ----

cdef int64_t first_at_or_after(Sections* s, int64_t offset) noexcept nogil:
    """Index of the first record with at least this offset."""
    cdef int64_t low = 0
    cdef int64_t high = s.records
    cdef int64_t middle
    if s.offsets == NULL:
        return min(max(offset, s.first) - s.first, high)
    while low < high:
        middle = (low + high) >> 1
        if s.offsets[middle] < offset:
            low = middle + 1
        else:
            high = middle
    return low


def select(bytes block not None, int64_t start, int64_t end, bytes wanted):
    """Choose records of a block: see `hub.journal.packing`."""
    cdef Sections s
    read_sections(<const uint8_t*> PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), &s)
    if wanted is not None and PyBytes_GET_SIZE(wanted) != s.topics:
        raise IndexError(f"{len(wanted)} topics wanted or not, the block has {s.topics}")
    cdef int64_t low = first_at_or_after(&s, start)
    cdef int64_t high = first_at_or_after(&s, end)
    if low >= high:
        return b""
    cdef const uint8_t* is_wanted = NULL
    if wanted is not None:
        is_wanted = <const uint8_t*> PyBytes_AS_STRING(wanted)
    cdef bytes scratch = PyBytes_FromStringAndSize(NULL, 4 * (high - low))
    cdef int32_t* chosen = <int32_t*> PyBytes_AS_STRING(scratch)
    cdef int64_t count = 0
    cdef int64_t index
    for index in range(low, high):
        chosen[count] = <int32_t> index
        count += 1 if is_wanted == NULL else is_wanted[s.topic_nos[index]] != 0
    if count == s.records:
        return block
    return gather(&s, chosen, count) if count else b""


cdef bytes gather(Sections* s, const int32_t* chosen, int64_t count):
    """Make a block of some records of another; `chosen` ascends."""
    cdef Sections t
    cdef int64_t index, number, start, size
    cdef int64_t value_bytes = 0
    cdef int64_t topics = 0
    cdef int64_t topic_bytes = 0
    cdef uint8_t encodings = 0
    cdef bytes scratch = PyBytes_FromStringAndSize(NULL, 4 * s.topics)
    cdef int32_t* numbers = <int32_t*> PyBytes_AS_STRING(scratch)  # old → new; first: whether it is used
    memset(numbers, 0, 4 * s.topics)
    for index in range(count):
        numbers[s.topic_nos[chosen[index]]] = 1
        value_bytes += s.value_ends[chosen[index] + 1] - s.value_ends[chosen[index]]
    if s.encodings != NULL:
        for index in range(count):
            encodings |= s.encodings[chosen[index]]
    for number in range(s.topics):
        if numbers[number]:
            numbers[number] = <int32_t> topics
            topics += 1
            topic_bytes += s.topic_ends[number + 1] - s.topic_ends[number]
        else:
            numbers[number] = -1
    t.records, t.topics, t.topic_bytes, t.value_bytes, t.flags = count, topics, topic_bytes, value_bytes, 0
    t.first = offset_of(s, chosen[0])
    if offset_of(s, chosen[count - 1]) - t.first != count - 1:
        t.flags |= SPARSE
    if encodings:
        t.flags |= ENCODINGS
    cdef bytes block = open_block(&t)
    for index in range(count):
        t.times[index] = s.times[chosen[index]]
        t.topic_nos[index] = numbers[s.topic_nos[chosen[index]]]
    if t.offsets != NULL:
        for index in range(count):
            t.offsets[index] = offset_of(s, chosen[index])
    if t.encodings != NULL:
        for index in range(count):
            t.encodings[index] = s.encodings[chosen[index]]
    copy_topics(s, &t, numbers)
    copy_chosen(s, &t, chosen, count)
    close_block(block)
    return block


cdef inline int64_t offset_of(Sections* s, int64_t index) noexcept nogil:
    return s.first + index if s.offsets == NULL else s.offsets[index]


cdef void copy_topics(Sections* s, Sections* t, const int32_t* numbers) noexcept nogil:
    """Copy the entries of the dictionary that have a new number, which ascend as the old ones."""
    cdef int64_t number, size
    cdef int64_t at = 0
    t.topic_ends[0] = 0
    for number in range(s.topics):
        if numbers[number] >= 0:
            size = s.topic_ends[number + 1] - s.topic_ends[number]
            memcpy(t.text + at, s.text + s.topic_ends[number], size)
            at += size
            t.topic_ends[numbers[number] + 1] = <int32_t> at


cdef void copy_chosen(Sections* s, Sections* t, const int32_t* chosen, int64_t count) noexcept nogil:
    """Copy values and their ends; values of records that stand behind one another at once."""
    cdef int64_t index = 0
    cdef int64_t at = 0
    cdef int64_t run, shift
    t.value_ends[0] = 0
    while index < count:
        run = index
        shift = at - s.value_ends[chosen[run]]
        while True:
            t.value_ends[index + 1] = <int32_t> (s.value_ends[chosen[index] + 1] + shift)
            index += 1
            if index == count or chosen[index] != chosen[index - 1] + 1:
                break
        memcpy(t.values + at, s.values + s.value_ends[chosen[run]], t.value_ends[index] - at)
        at = t.value_ends[index]


def merge(list blocks not None):
    """Make one block of several: see `hub.journal.packing`."""
    cdef list kept = list(blocks)
    if not kept:
        raise ValueError("nothing to merge")
    cdef bytes sections = PyBytes_FromStringAndSize(NULL, len(kept) * sizeof(Sections))
    cdef Sections* each = <Sections*> PyBytes_AS_STRING(sections)
    cdef Sections t
    cdef int64_t index
    cdef bytes block
    t.records = t.value_bytes = t.topic_bytes = t.flags = 0
    for index in range(len(kept)):
        block = kept[index]
        if block is None:
            raise TypeError("blocks are bytes")
        read_sections(<const uint8_t*> PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), &each[index])
        t.records += each[index].records
        t.value_bytes += each[index].value_bytes
        t.topic_bytes += each[index].topic_bytes
        t.flags |= each[index].flags
    if t.flags & SPARSE:
        raise ValueError("a sparse block is not merged: its offsets have gaps")
    for index in range(1, len(kept)):
        if each[index].first != each[index - 1].first + each[index - 1].records:
            raise ValueError(
                f"a block begins at {each[index].first}, the one before it ends at "
                f"{each[index - 1].first + each[index - 1].records}"
            )
    if t.records > RECORDS_LIMIT:
        raise ValueError(f"{t.records} records are too many for one block")
    if t.topic_bytes > SECTION_LIMIT_BYTES or t.value_bytes > SECTION_LIMIT_BYTES:
        raise ValueError("the values or topics are too many bytes for one block")
    if len(kept) == 1:
        return kept[0]
    if not any_encoded(each, len(kept)):
        t.flags = 0
    t.first = each[0].first
    return join(each, len(kept), &t)


cdef bint any_encoded(const Sections* each, int64_t blocks) noexcept nogil:
    """Whether any value is not msgpack."""
    cdef int64_t index, record
    for index in range(blocks):
        if each[index].encodings != NULL:
            for record in range(each[index].records):
                if each[index].encodings[record]:
                    return True
    return False


cdef bytes join(Sections* each, int64_t blocks, Sections* t):
    """Make a block of dense ones that follow one another; `t` has their sums."""
    cdef dict numbers = {}
    cdef list tables = []
    cdef bytes table, key
    cdef int32_t* new
    cdef Sections* s
    cdef int64_t index, number
    cdef int64_t record = 0
    cdef int64_t value_at = 0
    cdef int64_t text_at = 0
    for index in range(blocks):
        s = &each[index]
        table = PyBytes_FromStringAndSize(NULL, 4 * s.topics)
        new = <int32_t*> PyBytes_AS_STRING(table)
        for number in range(s.topics):
            key = PyBytes_FromStringAndSize(
                <const char*> s.text + s.topic_ends[number], s.topic_ends[number + 1] - s.topic_ends[number]
            )
            new[number] = numbers.setdefault(key, len(numbers))
        tables.append(table)
    t.topics = len(numbers)
    t.topic_bytes = 0
    for key in numbers:
        t.topic_bytes += PyBytes_GET_SIZE(key)
    cdef bytes block = open_block(t)
    t.topic_ends[0] = 0
    for number, key in enumerate(numbers):
        memcpy(t.text + text_at, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        text_at += PyBytes_GET_SIZE(key)
        t.topic_ends[number + 1] = <int32_t> text_at
    t.value_ends[0] = 0
    for index in range(blocks):
        s = &each[index]
        table = tables[index]
        new = <int32_t*> PyBytes_AS_STRING(table)
        memcpy(t.times + record, s.times, 8 * s.records)
        for number in range(s.records):
            t.topic_nos[record + number] = new[s.topic_nos[number]]
            t.value_ends[record + number + 1] = <int32_t> (value_at + s.value_ends[number + 1])
        if t.encodings != NULL:
            if s.encodings != NULL:
                memcpy(t.encodings + record, s.encodings, s.records)
            else:
                memset(t.encodings + record, 0, s.records)
        memcpy(t.values + value_at, s.values, s.value_bytes)
        record += s.records
        value_at += s.value_bytes
    close_block(block)
    return block
