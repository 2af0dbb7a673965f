# cython: language_level=3, wraparound=False
"""The compiled twin of `hub.messages.runs`, which says what its two functions do. Both pass the same tests.

It is built where a C compiler is there, and `hub.messages.stretch` chooses it at import. It reads headers through a pointer, and
so saves the interpreter's work for each frame: that takes about 2 ns instead of 80 while the topic stays the same, and
40 instead of 210 when it changes.

No byte is read before its place was compared with the end of what was read.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

# These are the numbers of `hub.messages.frame` and `hub.messages.runs`; a test compares them.
cdef Py_ssize_t HEADER_BYTES = 8
cdef Py_ssize_t BATCH_COUNT_BYTES = 4
cdef Py_ssize_t BATCH_LIMIT_MESSAGES = 65536
cdef Py_ssize_t RUNS_LIMIT = 4096
cdef uint8_t FLAG_BATCH = 1


cdef inline Py_ssize_t read_u32(const uint8_t* at) noexcept nogil:
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


def find_runs(bytes data not None, Py_ssize_t position, dict table not None, Py_ssize_t limit_bytes):
    """Walk over complete frames from `position` on whose keys are in `table`."""
    cdef const uint8_t* base = <const uint8_t*> PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t messages = 0        # of the run that is not in the lists yet
    cdef Py_ssize_t found_runs = 0
    cdef Py_ssize_t body_length, body_start, frame_end, count
    cdef Py_ssize_t known = -1          # where the key that was looked up last stands
    cdef Py_ssize_t known_bytes = 0     # and its size, with the four bytes of the header in front of it
    cdef Py_ssize_t key_bytes
    cdef list routes = []
    cdef list ends = []
    cdef list counts = []
    cdef object route = None
    cdef object found
    cdef const uint8_t* at
    while end - position >= HEADER_BYTES:
        at = base + position
        body_length = read_u32(at)
        key_bytes = 4 + ((<Py_ssize_t> at[6] << 8) | at[7])
        body_start = position + 4 + key_bytes
        frame_end = body_start + body_length
        if frame_end > end or body_length > limit_bytes:
            break
        # While keys repeat, comparing bytes is ten times as quick as a look into the table, which takes an object.
        if known < 0 or key_bytes != known_bytes or memcmp(at + 4, base + known, key_bytes) != 0:
            found = table.get(PyBytes_FromStringAndSize(<const char*> at + 4, key_bytes))
            if found is None:
                break
        else:
            found = route
        count = 1
        if at[5] & FLAG_BATCH:
            if body_length <= BATCH_COUNT_BYTES:
                break
            count = read_u32(base + body_start)
            if count == 0 or count > body_length - BATCH_COUNT_BYTES or count > BATCH_LIMIT_MESSAGES:
                break
        if found is not route:
            if route is not None:
                routes.append(route)
                ends.append(position)
                counts.append(messages)
                messages = 0
                found_runs += 1
                if found_runs == RUNS_LIMIT:
                    return routes, ends, counts
            route = found
        known = position + 4
        known_bytes = key_bytes
        messages += count
        position = frame_end
    if route is not None:
        routes.append(route)
        ends.append(position)
        counts.append(messages)
    return routes, ends, counts


def join_runs(bytes data not None, Py_ssize_t start, list ends not None, list messages not None, list chosen not None):
    """Put the chosen runs one behind the other."""
    cdef const char* base = PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t number, begin, end
    for number in chosen:
        begin = ends[number - 1] if number else start
        end = ends[number]
        if not 0 <= begin <= end <= PyBytes_GET_SIZE(data):
            raise IndexError(f"run {number} is not within the {PyBytes_GET_SIZE(data)} bytes")
        size += end - begin
        total += <Py_ssize_t> messages[number]
    cdef bytes joined = PyBytes_FromStringAndSize(NULL, size)
    cdef char* at = PyBytes_AS_STRING(joined)
    for number in chosen:
        begin = ends[number - 1] if number else start
        end = ends[number]
        memcpy(at, base + begin, end - begin)
        at += end - begin
    return joined, total
