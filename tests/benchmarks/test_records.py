"""Records in arrays, against the same written one by one with `struct`."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.errors import RejectedError
from tests.benchmarks.arrays.records import (
    REQUEST_BYTES,
    RESULT_BYTES,
    Operation,
    answer,
    fill,
    requests_in,
    results_in,
    wrong,
)

WORD = st.integers(0, 2**64 - 1)
PAIRS = st.lists(st.tuples(st.integers(0, 2**32 - 1), WORD, WORD), min_size=1, max_size=20)
OPERATIONS = st.sampled_from(Operation)
REQUEST, RESULT = struct.Struct("<HBBIQQQ"), struct.Struct("<HBBIQQ")


def made(operation: Operation, requester: int, pairs: list[tuple[int, int, int]]) -> bytearray:
    """The requests of these pairs, as an array's bytes."""
    body = bytearray(REQUEST_BYTES * len(pairs))
    transactions = np.array([transaction for transaction, _, _ in pairs], dtype=np.uint64)
    operands = np.array([pair[place] for place in (1, 2) for pair in pairs], dtype=np.uint64)
    fill(requests_in(body), operation, transactions, requester, operands)
    return body


def answered(operation: Operation, body: bytearray) -> bytearray:
    """The results."""
    requests = requests_in(body)
    results = bytearray(RESULT_BYTES * len(requests))
    answer(operation, requests, results_in(results))
    return results


@given(operation=OPERATIONS, requester=WORD, pairs=PAIRS)
def test_requests_are_laid_out_as_described(
    operation: Operation, requester: int, pairs: list[tuple[int, int, int]]
) -> None:
    """16 zero bits, type, length in words, transaction id; then the requester and two operands."""
    expected = b"".join(
        REQUEST.pack(0, operation, 4, transaction, requester, first, second) for transaction, first, second in pairs
    )
    assert made(operation, requester, pairs) == expected


@given(operation=OPERATIONS, requester=WORD, pairs=PAIRS)
def test_results_are_those_of_whole_numbers_modulo_two_to_the_64(
    operation: Operation, requester: int, pairs: list[tuple[int, int, int]]
) -> None:
    """Each has the transaction id and the requester of its request; and the check finds nothing to complain of."""
    requests = made(operation, requester, pairs)
    results = answered(operation, requests)
    expected = []
    for transaction, first, second in pairs:
        value = (first + second if operation is Operation.ADD else first * second) % 2**64
        expected.append(RESULT.pack(0, 0x80 | operation, 3, transaction, requester, value))
    assert results == b"".join(expected)
    assert wrong(operation, requests_in(requests), results_in(results)) == 0


@given(operation=OPERATIONS, pairs=PAIRS, chosen=st.randoms(use_true_random=False))
def test_a_result_with_any_other_bit_is_found(
    operation: Operation, pairs: list[tuple[int, int, int]], chosen: st.DataObject
) -> None:
    """Whichever bit it is, exactly that result is counted as wrong."""
    requests = made(operation, 7, pairs)
    results = answered(operation, requests)
    bit = chosen.randrange(len(results) * 8)  # type: ignore[attr-defined]
    results[bit // 8] ^= 1 << bit % 8
    assert wrong(operation, requests_in(requests), results_in(results)) == 1


def test_results_that_are_missing_are_wrong_all() -> None:
    """Which of them is missing cannot be told."""
    requests = made(Operation.ADD, 7, [(1, 2, 3), (2, 3, 4)])
    results = answered(Operation.ADD, requests)
    assert wrong(Operation.ADD, requests_in(requests), results_in(results[:RESULT_BYTES])) == 2


def test_a_service_refuses_what_is_for_another() -> None:
    """It names the record, and writes no result."""
    requests = made(Operation.ADD, 7, [(1, 2, 3)]) + made(Operation.MULTIPLY, 7, [(2, 2, 3)])
    results = bytearray(2 * RESULT_BYTES)
    with pytest.raises(RejectedError, match="record 1 begins with 0x0000000204020000: no request to add"):
        answer(Operation.ADD, requests_in(requests), results_in(results))
    assert not any(results)


@pytest.mark.parametrize("size_bytes", [0, 1, 31, 33])
def test_a_body_that_is_not_made_of_records(size_bytes: int) -> None:
    """The error says how large it is."""
    with pytest.raises(RejectedError, match=f"{size_bytes} bytes are no records of 32"):
        requests_in(bytes(size_bytes))
