# Part of _packing.pyx: a block taken apart by topic, and put together again. The pure twin is weaving.py.

cdef enum:
    PARTS_LIMIT = 256
    CHUNK_BYTES = 32            # copied at once, where there is room for so much
    SHORT_BYTES = 512           # values up to this are copied in chunks: quicker than a call of memcpy

cdef struct Strand:
    Sections block
    int64_t ordered             # how many of its records the order tells of
    int64_t at                  # the next of its records
    int32_t* numbers            # topics: its own → of all parts, in the order of the parts


def split(bytes block not None, bytes groups not None):
    """Take a block apart by topic, as `hub.journal.weaving` does."""
    cdef Sections s
    cdef uint8_t[PARTS_LIMIT] part_of       # of a group
    cdef int64_t[PARTS_LIMIT] counts        # records of a group
    cdef int64_t[PARTS_LIMIT + 1] starts    # of the runs of a part
    cdef int64_t[PARTS_LIMIT] stops
    cdef int64_t record, group, part
    cdef int64_t parts = 0
    read_sections(<const uint8_t*> PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), &s)
    if s.flags & SPARSE:
        raise ValueError("a sparse block is not split: its offsets have gaps")
    if PyBytes_GET_SIZE(groups) != s.topics:
        raise IndexError(f"{len(groups)} topics have a group, the block has {s.topics}")
    cdef const uint8_t* group_of = <const uint8_t*> PyBytes_AS_STRING(groups)
    cdef bytes order = PyBytes_FromStringAndSize(NULL, s.records)
    cdef uint8_t* parts_at = <uint8_t*> PyBytes_AS_STRING(order)
    memset(counts, 0, sizeof(counts))
    for record in range(s.records):
        counts[group_of[s.topic_nos[record]]] += 1
    starts[0] = 0
    for group in range(PARTS_LIMIT):
        if counts[group]:
            part_of[group] = <uint8_t> parts
            starts[parts + 1] = starts[parts] + counts[group]
            stops[parts] = starts[parts]
            parts += 1
    cdef bytes scratch = PyBytes_FromStringAndSize(NULL, s.records * sizeof(Run))
    cdef Run* runs = <Run*> PyBytes_AS_STRING(scratch)
    for record in range(s.records):
        part = part_of[group_of[s.topic_nos[record]]]
        parts_at[record] = <uint8_t> part
        if stops[part] > starts[part] and runs[stops[part] - 1].stop == record:
            runs[stops[part] - 1].stop = <int32_t> (record + 1)
        else:
            runs[stops[part]].start, runs[stops[part]].stop = <int32_t> record, <int32_t> (record + 1)
            stops[part] += 1
    cdef list blocks = []
    for part in range(parts):
        blocks.append(gather(&s, runs + starts[part], stops[part] - starts[part], True))
    return order, blocks


def weave(bytes order not None, list parts not None, int64_t first, checksum=None):
    """Put parts together again, as `hub.journal.weaving` does."""
    cdef list kept = list(parts)
    if not 0 < len(kept) <= PARTS_LIMIT or not 0 < PyBytes_GET_SIZE(order) <= RECORDS_LIMIT:
        raise ValueError(f"{len(kept)} parts of {len(order)} records cannot be")
    if not 0 <= first <= OFFSET_LIMIT - PyBytes_GET_SIZE(order):
        raise ValueError(f"the offset {first} is not within the limits")
    cdef bytes scratch = PyBytes_FromStringAndSize(NULL, PARTS_LIMIT * sizeof(Strand))
    cdef Strand* strands = <Strand*> PyBytes_AS_STRING(scratch)
    cdef const uint8_t* part_of = <const uint8_t*> PyBytes_AS_STRING(order)
    cdef int64_t span = PyBytes_GET_SIZE(order)
    cdef Sections t
    cdef int64_t index, low, high
    cdef bytes block
    t.records = t.value_bytes = t.flags = 0
    memset(strands, 0, PARTS_LIMIT * sizeof(Strand))
    for index in range(len(kept)):
        if kept[index] is not None:
            block = kept[index]
            read_sections(
                <const uint8_t*> PyBytes_AS_STRING(block), PyBytes_GET_SIZE(block), &strands[index].block
            )
            t.records += strands[index].block.records
            t.value_bytes += strands[index].block.value_bytes
            if any_encoded(&strands[index].block, 1):
                t.flags |= ENCODINGS
    for index in range(span):
        strands[part_of[index]].ordered += 1
    for index in range(len(kept)):
        if strands[index].block.records and strands[index].block.records != strands[index].ordered:
            raise ValueError(f"part {index} has other records than the order says")
    if t.records == 0:
        raise ValueError("nothing to weave")
    low, high = 0, span - 1
    while strands[part_of[low]].block.records == 0:
        low += 1
    while strands[part_of[high]].block.records == 0:
        high -= 1
    t.first = first + low
    if high - low + 1 != t.records:
        t.flags |= SPARSE
    return interleave(strands, len(kept), part_of, low, high + 1, &t, checksum)


cdef bytes interleave(
    Strand* strands, int64_t parts, const uint8_t* part_of, int64_t low, int64_t high, Sections* t, object checksum
):
    """Make a block of all records of the strands, of which `t` has the sums; the checksum may be known."""
    cdef dict known = {}            # topics of all parts, each once, in the order of the parts
    cdef list tables = []
    cdef bytes table, key
    cdef Sections* s
    cdef int64_t index, number, at
    for index in range(parts):
        s = &strands[index].block
        table = PyBytes_FromStringAndSize(NULL, 4 * s.topics)
        strands[index].numbers = <int32_t*> PyBytes_AS_STRING(table)
        tables.append(table)
        for number in range(s.topics):
            key = PyBytes_FromStringAndSize(
                <const char*> s.text + s.topic_ends[number], s.topic_ends[number + 1] - s.topic_ends[number]
            )
            strands[index].numbers[number] = known.setdefault(key, len(known))
    cdef bytes ranks = b"\xff" * (4 * len(known))           # those → of the new block
    cdef int32_t* rank_of = <int32_t*> PyBytes_AS_STRING(ranks)
    cdef bytes places = PyBytes_FromStringAndSize(NULL, 4 * len(known))     # and back
    cdef int32_t* ranked = <int32_t*> PyBytes_AS_STRING(places)
    t.topics = rank_topics(strands, part_of, low, high, rank_of, ranked, len(known))
    for index in range(parts):
        for number in range(strands[index].block.topics):
            strands[index].numbers[number] = rank_of[strands[index].numbers[number]]
    cdef list texts = list(known)
    t.topic_bytes = 0
    for number in range(t.topics):
        t.topic_bytes += len(texts[ranked[number]])
    cdef bytes block = open_block(t)
    at = t.topic_ends[0] = 0
    for number in range(t.topics):
        key = texts[ranked[number]]
        memcpy(t.text + at, PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
        at += PyBytes_GET_SIZE(key)
        t.topic_ends[number + 1] = <int32_t> at
    with nogil:
        copy_strands(strands, part_of, low, high, t)
    cdef uint32_t known_checksum
    if checksum is None:
        close_block(block)
    else:
        known_checksum = checksum
        memcpy(PyBytes_AS_STRING(block) + 4, &known_checksum, 4)
    return block


cdef int64_t rank_topics(
    Strand* strands, const uint8_t* part_of, int64_t low, int64_t high, int32_t* rank_of, int32_t* ranked, int64_t most
) noexcept nogil:
    """Number the topics as they come; return how many do. Most have come long before the end, where this stops."""
    cdef int64_t index
    cdef int64_t count = 0
    cdef int32_t number
    cdef Strand* strand
    for index in range(low, high):
        strand = &strands[part_of[index]]
        if strand.block.records:
            number = strand.numbers[strand.block.topic_nos[strand.at]]
            strand.at += 1
            if rank_of[number] < 0:
                rank_of[number], ranked[count] = <int32_t> count, number
                count += 1
                if count == most:
                    break
    for index in range(PARTS_LIMIT):
        strands[index].at = 0
    return count


cdef void copy_strands(Strand* strands, const uint8_t* part_of, int64_t low, int64_t high, Sections* t) noexcept nogil:
    """Copy the records, a run of neighbours that have the same part at once."""
    cdef int64_t start = low
    cdef int64_t record = 0
    cdef int64_t value_at = 0
    cdef int64_t stop, index, from_record, size
    cdef int32_t shift
    cdef Strand* strand
    cdef Sections* s
    cdef uint8_t part = part_of[low]
    cdef bint is_alone = strands[part].block.records == t.records
    cdef const uint8_t* found
    t.value_ends[0] = 0
    while start < high:
        if is_alone:  # what is not wanted is passed over quickly
            found = <const uint8_t*> memchr(part_of + start, part, high - start)
            start = found - part_of
        part = part_of[start]
        stop = start + 1
        while stop < high and part_of[stop] == part:
            stop += 1
        strand = &strands[part]
        s = &strand.block
        if s.records:
            from_record = strand.at
            strand.at += stop - start
            shift = <int32_t> (value_at - s.value_ends[from_record])
            size = s.value_ends[strand.at] - s.value_ends[from_record]
            for index in range(stop - start):
                t.times[record + index] = s.times[from_record + index]
                t.topic_nos[record + index] = strand.numbers[s.topic_nos[from_record + index]]
                t.value_ends[record + index + 1] = s.value_ends[from_record + index + 1] + shift
            if t.offsets != NULL:
                for index in range(stop - start):
                    t.offsets[record + index] = t.first + start - low + index
            if t.encodings != NULL:
                for index in range(stop - start):
                    t.encodings[record + index] = (
                        s.encodings[from_record + index] if s.encodings != NULL else 0
                    )
            copy_value(
                t.values + value_at, t.value_bytes - value_at,
                s.values + value_at - shift, s.value_bytes - (value_at - shift), size,
            )
            value_at += size
            record += stop - start
        start = stop


cdef inline void copy_value(
    uint8_t* to, int64_t room, const uint8_t* source, int64_t there, int64_t size
) noexcept nogil:
    """Copy a value; where it is short, some bytes more, which the next value overwrites."""
    cdef int64_t at = 0
    if size > SHORT_BYTES or room < size + CHUNK_BYTES or there < size + CHUNK_BYTES:
        memcpy(to, source, size)
        return
    while at < size:
        memcpy(to + at, source + at, CHUNK_BYTES)
        at += CHUNK_BYTES
