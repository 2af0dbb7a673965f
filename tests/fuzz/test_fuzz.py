"""Whatever a stranger sends is answered, refused, or ends the connection; nothing else happens.

Each target gets its sound inputs, those that are kept in `corpus`, and some that are made of them, always the same:
`FUZZ_SEED=x` makes others. `make fuzz` looks for longer, and where nobody has looked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.hub_targets import close_recording_hub
from tests.fuzz.target import INPUT_LIMIT_BYTES, Mutator, Target, kept
from tests.fuzz.targets import TARGETS

SEED = os.environ.get("FUZZ_SEED", "")
each = pytest.mark.parametrize("target", TARGETS, ids=[target.name for target in TARGETS])


@pytest.fixture(scope="module", autouse=True)
def closed_hubs() -> Iterator[None]:
    yield
    close_recording_hub()


@each
def test_what_is_kept(target: Target) -> None:
    for data in (*target.seeds(), *kept(target)):
        run(target, data)


@each
def test_what_is_made(target: Target) -> None:
    mutator = Mutator(target.name + SEED, [*target.seeds(), *kept(target)], target.words)
    for _ in range(target.runs):
        run(target, mutator.make())


@each
def test_edges(target: Target) -> None:
    for data in (b"", b"\0", b"\xff", *(bytes([byte]) * INPUT_LIMIT_BYTES for byte in (0, 0x20, 0x5B, 0x80, 0xFF))):
        run(target, data)


def test_every_folder_has_a_target() -> None:
    folders = {path.name for path in (Path(__file__).parent / "corpus").iterdir()}
    assert folders <= {target.name for target in TARGETS}


def run(target: Target, data: bytes) -> None:
    try:
        target.run(data)
    except Exception as error:
        error.add_note(f"the input of {target.name}: bytes.fromhex({data.hex()!r})")
        raise
