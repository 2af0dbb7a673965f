# Part of _packing.pyx: where a value of msgpack ends. The pure twin is values.py.

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
