# cython: language_level=3
"""The compiled twin of `PureBlock` in `hub.requests.services`, which says what each field means.

Both have the same contracts and pass the same tests. This one is built where a C compiler is there, and
`hub.requests.services` chooses it at import. Its numbers are no objects, so a block takes 80 bytes instead of 190.

The garbage collector does not know blocks (`no_gc`), nor the dictionaries that hold nothing else: so it need not look
through a million of them. It cannot free cycles of them, either. That does no harm, as a block that is settled stands
nowhere any more; only a core that is thrown away with requests pending leaves them behind.
"""

cimport cython
from libc.stdint cimport int64_t, uint32_t


@cython.no_gc
cdef class Block:
    """Those requests of one frame that went to one service, until all of them are answered."""

    cdef public object asker
    cdef public object responder
    cdef public dict bucket
    cdef public bytearray answered
    cdef public uint32_t first
    cdef public uint32_t issued
    cdef public Py_ssize_t count
    cdef public Py_ssize_t left

    def __init__(self, asker, responder, uint32_t first, uint32_t issued, Py_ssize_t count, dict bucket not None):
        self.asker = asker
        self.responder = responder
        self.first = first
        self.issued = issued
        self.count = count
        self.left = count
        self.bucket = bucket

    def enter(self):
        """Put the block into both maps and into the bucket."""
        asker = self.asker
        responder = self.responder
        if self.count == 1:
            (<dict> asker.asked.singles)[self.first] = self
            (<dict> responder.owed.singles)[self.issued] = self
        else:
            asker.asked.ranges[self.first] = self
            responder.owed.ranges[self.issued] = self
        asker.asked_requests += self.left
        responder.owed_requests += self.left
        self.bucket[self] = None

    cpdef leave(self):
        """Take the block out of all three places: it is settled. This does no harm if it was settled before."""
        cdef Py_ssize_t left = self.left
        if not left:
            return
        self.left = 0
        asker = self.asker
        responder = self.responder
        if self.count == 1:
            del (<dict> asker.asked.singles)[self.first]
            del (<dict> responder.owed.singles)[self.issued]
        else:
            del asker.asked.ranges[self.first]
            del responder.owed.ranges[self.issued]
        asker.asked_requests -= left
        responder.owed_requests -= left
        self.bucket.pop(self, None)  # a block that is due was taken out of it already
        if not self.bucket:
            self.bucket.clear()  # a dictionary that was large keeps its room otherwise

    def pending(self, Py_ssize_t start=0, stop=None):
        """Return where what is pending begins and ends, within places `start` to `stop` of the block."""
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
        """Take note that the places `start` to `stop` are answered; return which of them were pending."""
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
        """Make two blocks of this one: what stands before `start`, and what stands from `stop` on.

        The ids between are not pending, and the requester uses them again.
        """
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
                    <uint32_t> (self.issued + begin),
                    end - begin,
                    self.bucket,
                )
                block.left = left
                block.answered = rest
                block.enter()
