"""A network of ticks between ends of channels: it loses, doubles and delays what it carries, as chance has it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Faults:
    lost: float = 0.0
    doubled: float = 0.0
    delayed: float = 0.0
    """By up to three ticks, so that others overtake it."""


CALM = Faults()


@dataclass
class Network:
    """Carries bytes from one end to another at the next tick, or later, or never.

    Attributes:
        faults: What happens to what is sent from now on.
        cut: Names of ends that nothing reaches, and from whom nothing comes.
    """

    seed: int
    faults: Faults = CALM
    cut: set[str] = field(default_factory=set)
    carried: int = 0
    spoiled: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)  # noqa: S311 -- to be repeatable
        self._ends: dict[str, Callable[[str, bytes], object]] = {}
        self._due: dict[int, list[tuple[str, str, bytes]]] = {}
        self._tick = 0

    def join(self, name: str, hear: Callable[[str, bytes], object]) -> None:
        self._ends[name] = hear

    def send(self, source: str, target: str, data: bytes) -> None:
        if source in self.cut or target in self.cut:
            self.spoiled += 1
            return
        chance, faults = self._chance.random, self.faults
        if chance() < faults.lost:
            self.spoiled += 1
            return
        for _ in range(2 if chance() < faults.doubled else 1):
            delay = self._chance.randint(1, 3) if chance() < faults.delayed else 0
            self.spoiled += bool(delay)
            self._due.setdefault(self._tick + delay, []).append((source, target, data))

    def deliver(self) -> None:
        due = self._due.get(self._tick, [])
        while due:
            source, target, data = due.pop(0)
            if source not in self.cut and target not in self.cut and target in self._ends:
                self.carried += 1
                self._ends[target](source, data)
        self._due.pop(self._tick, None)
        self._tick += 1
