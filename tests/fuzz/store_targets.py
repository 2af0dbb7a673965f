"""Commands of Broker's data stores, as a peer sends them."""

from __future__ import annotations

import struct
from contextlib import suppress

from peers.broker.envelope import EnvelopeType
from peers.broker.stores.command import InvalidCommandError, decode_command, encode_command
from tests.broker.recorded import connection
from tests.fuzz.target import Target

__all__ = ["STORE_TARGETS"]


def _run_command(data: bytes) -> None:
    with suppress(InvalidCommandError):
        command = decode_command(data)
        written = encode_command(command)
        assert len(written) <= len(data), "what was read is longer than what stood there"
        assert decode_command(written) == command


def _command_seeds() -> list[bytes]:
    sides = [*connection("t01-clone-attach").values(), *connection("n05-data-store").values()]
    commands = [each.payload for side in sides for each in side.of_type(EnvelopeType.COMMAND)]
    return sorted(set(commands))


STORE_TARGETS = (
    Target(
        "store_command",
        _run_command,
        _command_seeds,
        [b"\xff" * 9 + b"\x01", struct.pack(">Q", 2**64 - 1), b"\x0d\x02", b"\x0c\x01"],
    ),
)
