# Part of _packing.pyx: the checksum of a whole block, from the one that stands in it. The pure twin is packing.py.
#
# A crc32 is a polynomial over GF(2), modulo CRC_POLYNOMIAL. That of some bytes with others behind them is the one of the
# first, times x to as many as there are bits behind, plus the one of the others. So the 8 bytes in front of what a
# block's own checksum covers are all that is read again: 1 us, where reading a mebibyte takes 250.

cdef uint32_t CRC_POLYNOMIAL = 0xEDB88320U  # of zlib's crc32: its coefficients, the one of x^0 in the highest bit
cdef uint32_t* POWERS = [  # x^(2^n), filled in below
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
]


cdef uint32_t product(uint32_t one, uint32_t other) noexcept nogil:
    """Multiply two polynomials."""
    cdef uint32_t found = 0
    cdef uint32_t bit = <uint32_t> 1 << 31
    while bit:
        if one & bit:
            found ^= other
        other = other >> 1 ^ (CRC_POLYNOMIAL if other & 1 else 0)
        bit >>= 1
    return found


cdef void fill_powers() noexcept nogil:
    cdef int number
    POWERS[0] = <uint32_t> 1 << 30
    for number in range(1, 32):
        POWERS[number] = product(POWERS[number - 1], POWERS[number - 1])


fill_powers()


cdef uint32_t power(uint64_t exponent) noexcept nogil:
    """Return x to that; of an exponent of more than 32 bits, those above go on in turns, as x^(2^32) is x again."""
    cdef uint32_t found = <uint32_t> 1 << 31
    cdef int number = 0
    while exponent:
        if exponent & 1:
            found = product(POWERS[number & 31], found)
        exponent >>= 1
        number += 1
    return found


def whole_checksum(bytes block not None):
    """Return the crc32 of a whole block, as `hub.journal.packing` does."""
    cdef uint32_t behind
    cdef int64_t size = PyBytes_GET_SIZE(block) - CHECKED_FROM
    if size < 0:
        raise ValueError(f"{len(block)} bytes are shorter than a header")
    memcpy(&behind, PyBytes_AS_STRING(block) + 4, 4)
    cdef uint32_t front = crc32(block[:CHECKED_FROM])
    return product(power(8 * <uint64_t> size), front) ^ behind
