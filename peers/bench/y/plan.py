"""`Plan`: what the benchmark is asked to do. A frozen value; `check` says in one line what cannot be done."""

from __future__ import annotations

import importlib.util
from typing import Literal

import msgspec

from peers.bench.errors import BenchError
from peers.bench.y.bodies import ring_bytes_for
from peers.bench.y.operation import Mode
from peers.transport.endpoints import Endpoint, Scheme

__all__ = ["MODES", "Plan", "Transport"]

Transport = Literal["unix", "tcp"]

MODES: tuple[Mode, ...] = ("one", "many", "batched")

_BATCH_LIMIT = 131_072
"""Pairs: if all want the same operation, 4 MiB of records."""

_REQUEST_BYTES = 32

_OUTSTANDING_LIMIT = 65_536
"""What a hub lets a client have pending, unless told otherwise."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark."""

    modes: tuple[Mode, ...] = MODES
    transport: Transport = "unix"
    """Of all connections to a hub that is started."""
    shared: bool = False
    """Whether the arrays of mode `batched` travel in shared memory."""
    outstanding: int = 1_024
    """Pairs asked and not yet answered, in mode `many`."""
    batch: int = 65_536
    """Pairs that are made at a time in mode `batched`; about half of them go to each service, in one body."""
    batches: int = 8
    """Batches asked and not yet answered."""
    seconds: float = 3.0
    """Of each run."""
    pairs: int = 0
    """Of each run, instead of a time."""
    repeat: int = 3
    """Runs of each mode; the median counts."""
    pin: bool = True
    """Whether all processes share one CPU in mode `one`, where only one of them has something to do at a time: an idle
    CPU takes longer to wake up than the work takes. Not with a hub that runs already."""
    urls: tuple[str, ...] = ()
    """Of a running hub; empty: one is started."""
    hub_pid: int = 0
    hub_flags: tuple[str, ...] = ()

    def check(self) -> Plan:
        """Return the plan, if it can be carried out.

        Raises:
            BenchError: It cannot; the text names the option.
        """
        for name, value, least, most in self._ranges():
            if not least <= value <= most:
                raise BenchError(f"--{name}: {value:,} given, expected a number from {least:,} to {most:,}")
        if not self.modes or len(set(self.modes)) != len(self.modes):
            raise BenchError(f"--mode: each once, of {', '.join(MODES)}")
        if "batched" in self.modes and importlib.util.find_spec("numpy") is None:
            raise BenchError("--mode batched: needs NumPy: pip install '.[bench]'")
        self._check_hub()
        return self

    def _ranges(self) -> list[tuple[str, float, float, float]]:
        return [
            ("outstanding", self.outstanding, 1, _OUTSTANDING_LIMIT),
            ("batch", self.batch, 1, _BATCH_LIMIT),
            ("batches", self.batches, 1, 1_000),
            ("seconds", self.seconds, 0.001, 3_600),
            ("pairs", self.pairs, 0, 10**12),
            ("repeat", self.repeat, 1, 1_000),
            ("hub-pid", self.hub_pid, 0, 1 << 32),
        ]

    def _check_hub(self) -> None:
        schemes = [Endpoint.parse(url).scheme for url in self.urls]
        if len(self.urls) > 1 or not set(schemes) <= {Scheme.TCP, Scheme.UNIX}:
            raise BenchError("--url: one tcp:// or unix:// url expected")
        if self.urls and self.hub_flags:
            raise BenchError("--hub-flag: only for a hub that is started for the benchmark, without --url")
        if self.hub_pid and not self.urls:
            raise BenchError("--hub-pid: only with --url; a hub that is started for the benchmark is known")
        unix = schemes == [Scheme.UNIX] if schemes else self.transport == "unix"
        if self.shared and not unix:
            raise BenchError("--shared: memory can only be shared over a Unix socket")

    def outstanding_in(self, mode: Mode) -> int:
        """Return how many requests may be unanswered: pairs, or in mode `batched` batches."""
        return {"one": 1, "many": self.outstanding, "batched": self.batches}[mode]

    @property
    def ring_bytes(self) -> int:
        """How large the rings of shared memory are to be: enough for all batches, if all want the same operation."""
        return ring_bytes_for(self.batches * self.batch * _REQUEST_BYTES)
