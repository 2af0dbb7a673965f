"""A policy that was replaced goes in steps, and only when nobody holds it any more."""

from __future__ import annotations

import asyncio
import sys
import weakref

import pytest

from hub.policy.language import read_policy
from hub.policy.policy import Policy
from peers.daemon import reloading as module
from peers.daemon.reloading import Remains


def large() -> Policy:
    paths = [f"/a{number % 10}/b{number % 100}/c{number}" for number in range(2_000)]
    role = {"publish": [*paths, "/status/{user}/x"], "subscribe": {"allow": ["*"], "deny": paths}}
    return read_policy({"roles": {"r": role}}, "policy")


def test_each_piece_frees_little() -> None:
    policy = large()
    pieces = list(policy.pieces())
    pieces.reverse()
    assert len(pieces) > 4_000
    del policy
    most = 0
    while pieces:
        before = sys.getallocatedblocks()
        pieces.pop()
        most = max(most, before - sys.getallocatedblocks())
    assert most < 100


async def test_it_waits_until_nobody_holds_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.001)
    policy = large()
    gone = weakref.ref(policy)
    remains = Remains(policy)
    remains.collect()
    count = len(remains._pieces)
    letting_go = asyncio.create_task(remains.let_go())
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert len(remains._pieces) == count > 4_000
    del policy
    await letting_go
    assert not remains._pieces
    assert gone() is None
