# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twin of `peers.wire.runs.next_run`: same contract, same tests; headers are read through a pointer.

Optional: built where a C compiler is there, chosen at import by `peers.wire.scanner`. What it saves is the interpreter's
work per frame: about 2 ns instead of 80 while the topic stays the same, 40 instead of 210 when it changes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

cdef Py_ssize_t HEADER_BYTES = 8
cdef Py_ssize_t BATCH_COUNT_BYTES = 4
cdef Py_ssize_t BATCH_LIMIT_MESSAGES = 65536
cdef uint8_t FLAG_BATCH = 1


cdef inline Py_ssize_t read_u32(const uint8_t* at) noexcept nogil:
    return (<uint32_t> at[0] << 24) | (<uint32_t> at[1] << 16) | (<uint32_t> at[2] << 8) | at[3]


def next_run(bytes data not None, Py_ssize_t position, dict table not None, Py_ssize_t limit_bytes):
    """Walk over complete frames whose keys are in `table` with one and the same route: see `peers.wire.runs`."""
    cdef const uint8_t* base = <const uint8_t*> PyBytes_AS_STRING(data)
    cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
    cdef Py_ssize_t start = position
    cdef Py_ssize_t messages = 0
    cdef Py_ssize_t body_length, body_start, frame_end, count
    cdef Py_ssize_t known = -1          # where the key that was looked up last stands
    cdef Py_ssize_t known_bytes = 0     # and its size, with the four bytes of the header in front of it
    cdef Py_ssize_t key_bytes
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
        if known < 0 or key_bytes != known_bytes or memcmp(at + 4, base + known, key_bytes) != 0:
            found = table.get(PyBytes_FromStringAndSize(<const char*> at + 4, key_bytes))
            if found is not route or found is None:
                if messages or found is None:
                    break
                route = found
            known = position + 4
            known_bytes = key_bytes
        if at[5] & FLAG_BATCH:
            if body_length <= BATCH_COUNT_BYTES:
                break
            count = read_u32(base + body_start)
            if count == 0 or count > body_length - BATCH_COUNT_BYTES or count > BATCH_LIMIT_MESSAGES:
                break
            messages += count
        else:
            messages += 1
        position = frame_end
    if messages:
        return route, position, messages
    return None, start, 0
