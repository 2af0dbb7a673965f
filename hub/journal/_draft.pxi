# Part of _packing.pyx: a block that grows. The pure twin is in packing.py.

cdef struct Known:
    const uint8_t* key
    int32_t key_bytes
    int32_t number


cdef inline uint32_t place_of(const uint8_t* key, int64_t key_bytes) noexcept nogil:
    """Return the place where a topic is remembered. It is made of the last bytes, as topics differ at their ends."""
    cdef uint64_t tail = 0
    memcpy(&tail, key + max(key_bytes - 8, 0), min(key_bytes, 8))
    return ((tail + key_bytes) * <uint64_t> 0x9E3779B97F4A7C15) >> 56


cdef class Draft:
    """A dense block that grows. It points into frames: whoever adds records keeps their frames until `take`."""

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
    cdef Known[KNOWN_TOPICS] known  # in front of `numbers`: a look there takes 30 ns
    cdef int32_t number         # of the topic that was found last
    cdef const uint8_t* key     # and its text: many records have the same; NULL if there is none
    cdef int64_t key_bytes

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
        memset(self.known, 0, sizeof(self.known))

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
        cdef Known* known = &self.known[place_of(key, key_bytes)]
        self.key = key
        self.key_bytes = key_bytes
        if known.key != NULL and known.key_bytes == key_bytes and memcmp(key, known.key, key_bytes) == 0:
            self.number = known.number
            return 0
        cdef bytes text = PyBytes_FromStringAndSize(<const char*> key, key_bytes)
        found = self.numbers.get(text)
        if found is None:
            text.decode("utf-8")
            found = len(self.numbers)
            self.numbers[text] = found
            self.topic_bytes += key_bytes
        self.number = found
        known.key, known.key_bytes, known.number = key, <int32_t> key_bytes, self.number
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
