"""`Plan`: what the scenario is asked to do: a frozen value. `check` says in one line what cannot be done."""

from __future__ import annotations

from typing import Literal

from peers.bench.errors import BenchError
from peers.bench.running_hub import HubPlan
from peers.transport.endpoints import Endpoint, Scheme

__all__ = ["MODES", "Mode", "Plan", "Transport"]

Mode = Literal["one", "many"]
"""Whether each pair is asked when the one before is answered, or many at a time."""

Transport = Literal["unix", "tcp"]
MODES: tuple[Mode, ...] = ("one", "many")

_OUTSTANDING_LIMIT = 65_536
"""What a hub lets a client have pending, unless told otherwise."""


class Plan(HubPlan, frozen=True, kw_only=True):
    """One benchmark."""

    modes: tuple[Mode, ...] = MODES
    transport: Transport = "unix"
    """How all are connected to a hub that is started."""
    outstanding: int = 1_024
    """Pairs that are asked and not yet answered, in mode `many`."""
    seconds: float = 3.0
    """How long each run is."""
    pairs: int = 0
    """How many pairs each run has, instead of a time."""
    repeat: int = 3
    """Runs of each mode; the median counts."""
    pin: bool = True
    """Whether all processes share one CPU in mode `one`, where only one of them has something to do at a time: an idle
    CPU takes longer to wake up than the work takes. This does not hold for a hub that runs already."""

    def check(self) -> Plan:
        """Return the plan, if it can be carried out.

        Raises:
            BenchError: It cannot; the text names the option.
        """
        self.check_hub(
            [
                ("outstanding", self.outstanding, 1, _OUTSTANDING_LIMIT),
                ("seconds", self.seconds, 0.001, 3_600),
                ("pairs", self.pairs, 0, 10**12),
                ("repeat", self.repeat, 1, 1_000),
            ]
        )
        if not self.modes or len(set(self.modes)) != len(self.modes):
            raise BenchError(f"--mode: each once, of {', '.join(MODES)}")
        if len(self.urls) > 1 or not {Endpoint.parse(url).scheme for url in self.urls} <= {Scheme.TCP, Scheme.UNIX}:
            raise BenchError("--url: one tcp:// or unix:// url expected")
        return self
