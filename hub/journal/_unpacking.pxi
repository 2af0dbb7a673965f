# Part of _packing.pyx: blocks and columns to frames. The pure twin is packing.py.

cdef struct Messages:
    const int32_t* topic_nos    # NULL: each has a topic of its own
    const int32_t* topic_ends
    const uint8_t* topics
    const int32_t* value_ends
    const uint8_t* values
    const uint8_t* encodings    # NULL: all are msgpack


cdef inline int64_t topic_of(const Messages* m, int64_t index) noexcept nogil:
    return index if m.topic_nos == NULL else m.topic_nos[index]


cdef inline bint same_topic(const Messages* m, int64_t one, int64_t other) noexcept nogil:
    if m.topic_nos != NULL:
        return m.topic_nos[one] == m.topic_nos[other]
    cdef int64_t size = m.topic_ends[one + 1] - m.topic_ends[one]
    return (
        m.topic_ends[other + 1] - m.topic_ends[other] == size
        and memcmp(m.topics + m.topic_ends[one], m.topics + m.topic_ends[other], size) == 0
    )


cdef inline bint is_value(const Messages* m, int64_t index) noexcept nogil:
    """Return whether this is exactly one value of msgpack, so that it may be joined to others."""
    cdef const uint8_t* end = m.values + m.value_ends[index + 1]
    if m.encodings != NULL and m.encodings[index]:
        return False
    return skip_value(m.values + m.value_ends[index], end) == end


cdef int64_t end_of_frame(const Messages* m, int64_t start, int64_t count, int64_t limit_bytes) noexcept nogil:
    """Return behind which message the frame ends that begins with the one at `start`."""
    cdef int64_t index = start + 1
    if not is_value(m, start):
        return index
    while (
        index < count
        and index - start < FRAME_MESSAGES
        and same_topic(m, start, index)
        and <int64_t> m.value_ends[index + 1] - m.value_ends[start] + BATCH_COUNT_BYTES <= limit_bytes
        and is_value(m, index)
    ):
        index += 1
    return index


cdef inline void write_u32(uint8_t* at, int64_t number) noexcept nogil:
    at[0], at[1], at[2], at[3] = number >> 24 & 255, number >> 16 & 255, number >> 8 & 255, number & 255


cdef class Writer:
    """Puts frames together to bytes of up to FRAMES_BYTES."""

    cdef bytes scratch
    cdef uint8_t* at
    cdef int64_t used
    cdef int64_t messages
    cdef list done

    def __cinit__(self):
        self.scratch = PyBytes_FromStringAndSize(NULL, FRAMES_BYTES)
        self.at = <uint8_t*> PyBytes_AS_STRING(self.scratch)
        self.used = 0
        self.messages = 0
        self.done = []

    cdef int flush(self) except -1:
        if self.used:
            self.done.append((PyBytes_FromStringAndSize(<const char*> self.at, self.used), self.messages))
            self.used = self.messages = 0
        return 0

    cdef uint8_t* room(self, int64_t size, int64_t messages) except NULL:
        """Return where to write a frame."""
        cdef bytes large
        if self.used + size > FRAMES_BYTES:
            self.flush()
        if size > FRAMES_BYTES:
            large = PyBytes_FromStringAndSize(NULL, size)
            self.done.append((large, messages))
            return <uint8_t*> PyBytes_AS_STRING(large)
        self.used += size
        self.messages += messages
        return self.at + self.used - size

    cdef int write(self, const Messages* m, int64_t start, int64_t stop) except -1:
        """Append the frame of some messages, which have one topic."""
        cdef int64_t number = topic_of(m, start)
        cdef int64_t key_bytes = m.topic_ends[number + 1] - m.topic_ends[number]
        cdef int64_t values_bytes = <int64_t> m.value_ends[stop] - m.value_ends[start]
        cdef bint is_batch = stop - start > 1
        cdef int64_t body_bytes = values_bytes + (BATCH_COUNT_BYTES if is_batch else 0)
        cdef uint8_t* at = self.room(FRAME_HEADER_BYTES + key_bytes + body_bytes, stop - start)
        write_u32(at, body_bytes)
        at[4] = KIND_MESSAGES
        at[5] = FLAG_BATCH if is_batch else 0 if m.encodings == NULL else m.encodings[start] << 1
        at[6], at[7] = key_bytes >> 8, key_bytes & 255
        memcpy(at + FRAME_HEADER_BYTES, m.topics + m.topic_ends[number], key_bytes)
        at += FRAME_HEADER_BYTES + key_bytes
        if is_batch:
            write_u32(at, stop - start)
            at += BATCH_COUNT_BYTES
        memcpy(at, m.values + m.value_ends[start], values_bytes)
        return 0


cdef list write_frames(const Messages* m, int64_t count, int64_t limit_bytes):
    """Turn messages into frames."""
    cdef Writer writer = Writer()
    cdef int64_t start = 0
    cdef int64_t stop
    while start < count:
        stop = end_of_frame(m, start, count, limit_bytes)
        writer.write(m, start, stop)
        start = stop
    writer.flush()
    return writer.done


def to_frames(bytes block not None, int64_t limit_bytes=FRAME_BYTES):
    """Turn a block into MESSAGES frames, as `hub.journal.packing` does."""
    cdef Sections s
    cdef Messages m
    read_sections(<const uint8_t*> PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), &s)
    m.topic_nos, m.topic_ends, m.topics = s.topic_nos, s.topic_ends, s.text
    m.value_ends, m.values, m.encodings = s.value_ends, s.values, s.encodings
    return write_frames(&m, s.records, limit_bytes)


cdef bytes rows_of(str name, offsets, int64_t data_bytes, int64_t start, int64_t count):
    """Copy the int32 offsets of some rows, so that they are aligned and ours, and check them."""
    cdef Py_buffer view
    cdef bytes copy
    cdef int64_t there, index
    cdef int bad
    cdef const int32_t* ends
    PyObject_GetBuffer(offsets, &view, PyBUF_SIMPLE)
    try:
        there = max(view.len // 4 - 1, 0)
        if start < 0 or count < 0 or start > there or count > there - start:
            raise ValueError(f"the rows {start} to {start + count} of {name}, there are {there}")
        if count == 0:
            return bytes(4)
        copy = PyBytes_FromStringAndSize(<const char*> view.buf + 4 * start, 4 * (count + 1))
    finally:
        PyBuffer_Release(&view)
    ends = <const int32_t*> PyBytes_AS_STRING(copy)
    bad = (ends[0] < 0) | (ends[count] > data_bytes)
    for index in range(count):
        bad |= ends[index + 1] < ends[index]
    if bad:
        raise ValueError(f"the offsets of {name} do not ascend within the {data_bytes} bytes")
    return copy


def frames_of_columns(topic_offsets, topic_data, value_offsets, value_data, int64_t start, int64_t count):
    """Turn rows of two Arrow columns into MESSAGES frames, as `hub.journal.packing` does."""
    cdef Py_buffer topics, values
    cdef bytes topic_ends, value_ends
    cdef Messages m
    cdef int64_t index
    cdef int bad = 0
    PyObject_GetBuffer(b"" if topic_data is None else topic_data, &topics, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(b"" if value_data is None else value_data, &values, PyBUF_SIMPLE)
        try:
            topic_ends = rows_of("topics", topic_offsets, topics.len, start, count)
            value_ends = rows_of("values", value_offsets, values.len, start, count)
            m.topic_nos = m.encodings = NULL
            m.topic_ends = <const int32_t*> PyBytes_AS_STRING(topic_ends)
            m.topics = <const uint8_t*> topics.buf
            m.value_ends = <const int32_t*> PyBytes_AS_STRING(value_ends)
            m.values = <const uint8_t*> values.buf
            for index in range(count):
                bad |= m.topic_ends[index + 1] - m.topic_ends[index] > TOPIC_LIMIT_BYTES
            if bad:
                raise ValueError("a topic is longer than a frame can bear")
            return write_frames(&m, count, FRAME_BYTES)
        finally:
            PyBuffer_Release(&values)
    finally:
        PyBuffer_Release(&topics)
