"""How much memory there is, in a container and without one; and giving back what is free."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hub.memory import Memory
from peers.node import memory as module
from peers.node.memory import MemoryWatch, available_bytes, resident_bytes
from tests.descriptors import no_descriptor_left

MIB = 1024 * 1024


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    write(tmp_path, "proc/meminfo", "MemTotal:        8388608 kB\nMemFree:   1 kB\n")
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_the_tightest_group_of_version_2_counts(machine: Path) -> None:
    write(machine, "proc/self/cgroup", "0::/outer/inner\n")
    write(machine, "sys/fs/cgroup/outer/inner/memory.max", "max\n")
    assert available_bytes(machine) == 8192 * MIB
    write(machine, "sys/fs/cgroup/outer/memory.max", f"{512 * MIB}\n")
    assert available_bytes(machine) == 512 * MIB
    write(machine, "sys/fs/cgroup/outer/inner/memory.max", f"{256 * MIB}\n")
    assert available_bytes(machine) == 256 * MIB


def test_what_is_resident_is_known_without_a_descriptor() -> None:
    resident_bytes()
    with no_descriptor_left():
        assert resident_bytes() > MIB


async def test_malloc_is_asked_when_much_is_held_that_nobody_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []
    monkeypatch.setattr(module, "give_back", lambda: asked.append(None))
    resident = 100 * MIB
    memory = Memory(1 << 40, lambda: resident)
    watch = MemoryWatch(memory)
    watch.tick()
    queues = memory.account("queues")
    queues.charge(200 * MIB)
    resident = 300 * MIB
    watch.tick()
    assert not asked
    queues.charge(-200 * MIB)
    for _ in range(3):
        watch.tick()
        await asyncio.sleep(0)
        if watch._giving_back is not None:
            await watch._giving_back
            await asyncio.sleep(0)
    assert len(asked) == 1


async def test_malloc_is_asked_again_for_what_it_could_not_give_back(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    tick = 0
    monkeypatch.setattr(module, "give_back", lambda: asked.append(tick))
    resident = 100 * MIB
    watch = MemoryWatch(Memory(1 << 40, lambda: resident))
    for tick in range(100):
        resident = 300 * MIB if 0 < tick < 90 else 100 * MIB
        watch.tick()
        if watch._giving_back is not None:
            await watch._giving_back
            await asyncio.sleep(0)
    assert asked == [1, 11, 31, 71]


async def test_what_is_freed_while_malloc_is_asked_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[None] = []
    resident = 100 * MIB
    memory = Memory(1 << 40, lambda: resident)
    queues = memory.account("queues")
    monkeypatch.setattr(module, "give_back", lambda: asked.append(None))
    watch = MemoryWatch(memory)
    watch.tick()
    queues.charge(200 * MIB)
    resident = 350 * MIB
    for freed in (100 * MIB, 0, 0):
        watch.tick()
        queues.charge(-freed)
        if watch._giving_back is not None:
            await watch._giving_back
            await asyncio.sleep(0)
    assert len(asked) == 2
