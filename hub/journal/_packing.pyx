# cython: language_level=3, wraparound=False, boundscheck=False, cdivision=True
"""The compiled twin of `hub.journal.packing` and `read_layout`, which say what they do.

Both pass the same tests. This one is built where a C compiler is there, and `hub.journal.block` chooses it at import.

Nothing that stands in a block or a frame is used as a place or a size before it was compared with what is there:
`read_sections` is called on every block that comes in, `skip_value` never reads at or behind its end. And what was
compared cannot change afterwards: blocks and frames are immutable bytes, and offsets of Arrow columns are copied first.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy, memset

from zlib import crc32

from hub.journal.layout import Layout

cdef enum:
    # These are the numbers of `hub.messages.frame` and of the pure twins; a test compares them.
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
    FLAG_TAGGED = 8
    TOPIC_LENGTH_BYTES = 2
    KEY_BYTES_IMPOSSIBLE = 65536
    BLOCK_RECORDS = 8192
    BLOCK_BYTES = 1048576
    BLOCK_BYTES_LIMIT = 1073741824
    KNOWN_TOPICS = 256          # what `place_of` tells apart
    FRAME_MESSAGES = 4096
    FRAME_BYTES = 65536
    FRAMES_BYTES = 262144

cdef int64_t SECTION_LIMIT_BYTES = 2147483647
cdef int64_t OFFSET_LIMIT = 4611686018427387904

include "_layout.pxi"
include "_values.pxi"
include "_draft.pxi"
include "_unpacking.pxi"
include "_checksum.pxi"


# ---- frames to blocks ----

cdef int64_t batch_count(const uint8_t* body, int64_t size) except -1:
    """Return how many values a BATCH body says it holds."""
    cdef int64_t count = read_u32(body) if size >= BATCH_COUNT_BYTES else 0
    if not 0 < count <= BATCH_LIMIT_MESSAGES:
        raise ValueError(f"a BATCH of {size} bytes holds an impossible number of values")
    return count


cdef bytes batch_ends(const uint8_t* body, int64_t size, int64_t count, uint8_t encoding):
    """Return where the values of a BATCH body end, int32; if they cannot be told apart, the first is all of them."""
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
    """Make blocks of frames, as `hub.journal.packing` does."""
    if not (0 < limit_records <= RECORDS_LIMIT and 0 < limit_bytes <= BLOCK_BYTES_LIMIT):
        raise ValueError(f"blocks of {limit_records} records and {limit_bytes} bytes are not within the limits")
    if not 0 <= first < OFFSET_LIMIT:
        raise ValueError(f"the offset {first} is not within the limits")
    cdef list kept = list(parts)  # the draft points into them, whatever becomes of the list
    cdef list blocks = []
    cdef Draft draft = Draft(first)
    cdef int64_t time_us, body_bytes, key_bytes, topic_bytes, count, index, start
    cdef uint8_t encoding
    cdef const uint8_t* topic
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
            topic = at + FRAME_HEADER_BYTES
            topic_bytes = key_bytes
            if at[5] & FLAG_TAGGED:  # labels and names are not kept
                topic_bytes = read_u16(topic) if key_bytes >= TOPIC_LENGTH_BYTES else KEY_BYTES_IMPOSSIBLE
                topic += TOPIC_LENGTH_BYTES
                if topic_bytes + TOPIC_LENGTH_BYTES > key_bytes:
                    raise ValueError(f"a tagged key of {key_bytes} bytes is shorter than its topic")
            draft.find_topic(topic, topic_bytes)
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
                        draft.find_topic(topic, topic_bytes)
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
    """Return the index of the first record with at least this offset."""
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
    """Choose records of a block, as `hub.journal.packing` does."""
    cdef Sections s
    read_sections(<const uint8_t*> PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), &s)
    if wanted is not None and PyBytes_GET_SIZE(wanted) != s.topics:
        raise IndexError(f"{len(wanted)} topics wanted or not, the block has {s.topics}")
    cdef int64_t low = first_at_or_after(&s, start)
    cdef int64_t high = first_at_or_after(&s, end)
    if low >= high:
        return b""
    cdef bytes scratch = PyBytes_FromStringAndSize(NULL, ((high - low) // 2 + 1) * sizeof(Run))
    cdef Run* runs = <Run*> PyBytes_AS_STRING(scratch)
    cdef int64_t count = 1
    if wanted is None:
        runs[0].start, runs[0].stop = low, high
    else:
        count = find_runs(&s, low, high, <const uint8_t*> PyBytes_AS_STRING(wanted), runs)
    if count == 0:
        return b""
    if runs[0].stop - runs[0].start == s.records:
        return block
    return gather(&s, runs, count)


cdef struct Run:
    int32_t start, stop         # records that stand behind one another


cdef int64_t find_runs(Sections* s, int64_t low, int64_t high, const uint8_t* wanted, Run* runs) noexcept nogil:
    """Find the runs of records of wanted topics; none touches the next one."""
    cdef const int32_t* topic_nos = s.topic_nos
    cdef int64_t count = 0
    while True:
        while low < high and not wanted[topic_nos[low]]:
            low += 1
        if low == high:
            return count
        runs[count].start = <int32_t> low
        while low < high and wanted[topic_nos[low]]:
            low += 1
        runs[count].stop = <int32_t> low
        count += 1


cdef bytes gather(Sections* s, const Run* runs, int64_t count, bint counted_anew=False):
    """Make a block of some records of another; `counted_anew`: with offsets as if nothing was between them."""
    cdef Sections t
    cdef int64_t index, record, number
    cdef int64_t at = 0
    cdef uint8_t encodings = 0
    cdef bytes scratch = PyBytes_FromStringAndSize(NULL, 4 * s.topics)
    cdef int32_t* numbers = <int32_t*> PyBytes_AS_STRING(scratch)  # old → new; first: whether it is used
    cdef const int32_t* topic_nos = s.topic_nos
    t.records = t.topics = t.topic_bytes = t.value_bytes = t.flags = 0
    memset(numbers, 0, 4 * s.topics)
    for index in range(count):
        for record in range(runs[index].start, runs[index].stop):
            numbers[topic_nos[record]] = 1
        if s.encodings != NULL:
            for record in range(runs[index].start, runs[index].stop):
                encodings |= s.encodings[record]
        t.records += runs[index].stop - runs[index].start
        t.value_bytes += s.value_ends[runs[index].stop] - s.value_ends[runs[index].start]
    for number in range(s.topics):
        if numbers[number]:
            numbers[number] = <int32_t> t.topics
            t.topics += 1
            t.topic_bytes += s.topic_ends[number + 1] - s.topic_ends[number]
        else:
            numbers[number] = -1
    t.first = s.first if counted_anew else offset_of(s, runs[0].start)
    if not counted_anew and offset_of(s, runs[count - 1].stop - 1) - t.first != t.records - 1:
        t.flags |= SPARSE
    if encodings:
        t.flags |= ENCODINGS
    cdef bytes block = open_block(&t)
    copy_topics(s, &t, numbers)
    t.value_ends[0] = 0
    for index in range(count):
        copy_run(s, &t, numbers, at, runs[index].start, runs[index].stop - runs[index].start)
        at += runs[index].stop - runs[index].start
    close_block(block)
    return block


cdef inline void copy_run(
    Sections* s, Sections* t, const int32_t* numbers, int64_t at, int64_t start, int64_t count
) noexcept nogil:
    """Copy records that stand behind one another; `value_ends[at]` is there already."""
    cdef int64_t index
    # Local names, so that the compiler sees that what is written is not one of these pointers.
    cdef const int32_t* topic_nos = s.topic_nos + start
    cdef const int32_t* value_ends = s.value_ends + start
    cdef int32_t* new_nos = t.topic_nos + at
    cdef int32_t* new_ends = t.value_ends + at
    cdef int32_t value_at = new_ends[0]
    cdef int32_t shift = value_at - value_ends[0]
    memcpy(t.values + value_at, s.values + value_ends[0], value_ends[count] - value_ends[0])
    memcpy(t.times + at, s.times + start, 8 * count)
    for index in range(count):
        new_nos[index] = numbers[topic_nos[index]]
    for index in range(1, count + 1):
        new_ends[index] = value_ends[index] + shift
    if t.offsets != NULL:
        for index in range(count):
            t.offsets[at + index] = offset_of(s, start + index)
    if t.encodings != NULL:
        memcpy(t.encodings + at, s.encodings + start, count)


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


def merge(list blocks not None):
    """Make one block of several, as `hub.journal.packing` does."""
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
    """Return whether any value is not msgpack."""
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


