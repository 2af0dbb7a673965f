# cython: language_level=3
"""The compiled twin of `hub.requests.pending`: same contracts, same tests; its numbers are no objects.

Optional: built where a C compiler is there, chosen at import by `hub.requests.pending`. The garbage collector does not
know blocks, nor the dictionaries that hold nothing else: so a million of them cost it nothing. What is settled stands
nowhere any more; a core that is thrown away with requests pending leaves them behind.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t


@cython.no_gc
cdef class Block:
    """Requests of one frame, or a part of them, at one service."""

    cdef public object asker
    cdef public object responder
    cdef public dict bucket
    cdef public bytearray answered
    cdef public uint32_t first
    cdef public uint32_t own
    cdef public Py_ssize_t count
    cdef public Py_ssize_t left

    def __init__(self, asker, responder, uint32_t first, uint32_t own, Py_ssize_t count, dict bucket not None):
        self.asker = asker
        self.responder = responder
        self.first = first
        self.own = own
        self.count = count
        self.left = count
        self.bucket = bucket

    def enter(self):
        """Stand in both maps and in the bucket."""
        self.bucket[self] = None
        asker = self.asker
        responder = self.responder
        asker.asked_requests += self.left
        responder.owed_requests += self.left
        if self.count == 1:
            (<dict> asker.asked.singles)[self.first] = self
            (<dict> responder.owed.singles)[self.own] = self
        else:
            asker.asked.ranges[self.first] = self
            responder.owed.ranges[self.own] = self

    cpdef leave(self):
        """Stand nowhere any more: settled. Harmless when it is already."""
        cdef Py_ssize_t left = self.left
        if not left:
            return
        self.left = 0
        asker = self.asker
        responder = self.responder
        asker.asked_requests -= left
        responder.owed_requests -= left
        if self.count == 1:
            del (<dict> asker.asked.singles)[self.first]
            del (<dict> responder.owed.singles)[self.own]
        else:
            del asker.asked.ranges[self.first]
            del responder.owed.ranges[self.own]
        self.bucket.pop(self, None)
        if not self.bucket:
            self.bucket.clear()

    def pending(self, Py_ssize_t start=0, stop=None):
        """Return where what is pending begins and ends: see `hub.requests.pending`."""
        cdef Py_ssize_t begin, end = self.count if stop is None else stop
        cdef list found = []
        if self.answered is None:
            return [(start, end)]
        while True:
            begin = self.answered.find(0, start, end)
            if begin < 0:
                return found
            start = self.answered.find(1, begin, end)
            if start < 0:
                start = end
            found.append((begin, start))

    def settle(self, Py_ssize_t start, Py_ssize_t stop):
        """Take note that `start` to `stop` are answered; return which of them were pending."""
        cdef Py_ssize_t begin, end, settled = 0
        cdef list fresh
        if self.answered is None:
            if stop - start == self.count:
                self.leave()
                return [(start, stop)]
            self.answered = bytearray(self.count)
        fresh = self.pending(start, stop)
        for begin, end in fresh:
            settled += end - begin
        if settled == self.left:
            self.leave()
        elif settled:
            for begin, end in fresh:
                self.answered[begin:end] = b"\x01" * (end - begin)
            self.left -= settled
            self.asker.asked_requests -= settled
            self.responder.owed_requests -= settled
        return fresh

    def part(self, Py_ssize_t start, Py_ssize_t stop):
        """Make two blocks of it: what stands before `start` and what stands from `stop` on."""
        cdef Block block
        cdef Py_ssize_t begin, end, left
        cdef bytearray answered = self.answered
        if answered is None or answered.find(0, start, stop) >= 0:
            raise ValueError("what is pending cannot be cut out of a block")
        self.leave()
        for begin, end in ((0, start), (stop, len(answered))):
            rest = answered[begin:end]
            left = rest.count(0)
            if left:
                block = Block(
                    self.asker,
                    self.responder,
                    <uint32_t> (self.first + begin),
                    <uint32_t> (self.own + begin),
                    end - begin,
                    self.bucket,
                )
                block.left = left
                block.answered = rest
                block.enter()
