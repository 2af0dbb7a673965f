"""Arrays of records: what is drawn, how many are outstanding, and what counts as an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hub.errors import RequestFailedError
from hub.request_frame import Status
from peers.bench.arrays import RESULT_BYTES, ArraySetup, Batches, Operation, requests_in, results_for, write_results
from peers.bench.y import Ask, Asked
from peers.shm.ring import Block
from tests.bench.test_y import Asker, Change

REQUESTER = 0x0123456789ABCDEF


def right(topic: str, body: bytes) -> bytes:
    requests = requests_in(body)
    results = results_for(requests)
    write_results(Operation[topic.rpartition("/")[2].upper()], requests, results)
    return results.tobytes()


class ArrayAsker(Asker):
    def __init__(self, change: Change = lambda _, answer: answer) -> None:
        super().__init__(change, right)
        self.allocated = 0

    async def request(self, topic: str, value: Any, *, timeout_s: float) -> Any:
        return await super().request(
            topic, bytes(value.memory if isinstance(value, Block) else value), timeout_s=timeout_s
        )

    async def allocate(self, size_bytes: int) -> Block:
        self.allocated += 1
        return Block.alone(size_bytes)


async def asked(asker: ArrayAsker, pairs: int = 10_000, batches: int = 4, *, shared: bool = False) -> Asked:
    setup = ArraySetup("", "/y", shared, 500, batches)
    return await Batches(asker, setup, REQUESTER).ask(Ask(pairs, 0, batches))


@pytest.mark.parametrize("shared", [False, True])
async def test_every_pair_is_asked_once_and_checked(shared: bool) -> None:  # noqa: FBT001 -- a parameter
    asker = ArrayAsker()
    found = await asked(asker, shared=shared)
    assert asker.allocated == (40 if shared else 0)
    assert (found.pairs, found.wrong, found.failed, found.lost) == (10_000, 0, 0, 0)
    assert len(asker.asked) == 40
    assert asker.most_open == 8
    bodies = [requests_in(body) for _, body in asker.asked]
    headers = np.concatenate([body[:, 0] for body in bodies])
    assert np.array_equal(np.sort(headers >> np.uint64(32)), np.arange(10_000))
    assert all((body[:, 1] == REQUESTER).all() for body in bodies)
    kinds = {
        topic: {int(word) for word in requests_in(body)[:, 0] & np.uint64(0xFF0000)} for topic, body in asker.asked
    }
    assert kinds == {"/y/add": {0x010000}, "/y/multiply": {0x020000}}


async def test_the_last_batch_may_be_smaller() -> None:
    assert (await asked(ArrayAsker(), 1_234)).pairs == 1_234


async def test_every_wrong_result_is_counted() -> None:
    def change(number: int, right: bytes) -> bytes:
        if number == 5:
            return right[:-1] + bytes([right[-1] ^ 0x80])
        return right

    found = await asked(ArrayAsker(change))
    assert (found.wrong, found.failed, found.lost) == (1, 0, 0)


async def test_bodies_that_fail_count_with_all_their_pairs() -> None:
    sizes: list[int] = []

    def change(number: int, right: bytes) -> bytes:
        if number in {3, 4, 5}:
            sizes.append(len(right) // RESULT_BYTES)
        if number == 3:
            raise RequestFailedError(Status.FAILED, "out of paper")
        if number == 4:
            return right[:-1]
        return right[:-RESULT_BYTES] if number == 5 else right

    found = await asked(ArrayAsker(change), batches=1)
    assert found.failed == sizes[0] + sizes[1]
    assert found.wrong == sizes[2]
    assert found.reasons[0] == "out of paper"
    assert "are no records of 24" in found.reasons[1]


async def test_operations_and_operands_are_random() -> None:
    asker = ArrayAsker()
    await asked(asker)
    bodies = {operation: b"".join(body for topic, body in asker.asked if operation.name.lower() in topic)
              for operation in Operation}  # fmt: skip
    shares = [len(requests_in(body)) / 10_000 for body in bodies.values()]
    assert all(0.4 < share < 0.6 for share in shares)
    operands = np.concatenate([requests_in(body)[:, 2:].ravel() for body in bodies.values()])
    assert len(np.unique(operands)) == 20_000
