"""What rules cost: 100,000 of them, messages of eight labels that three of them match; and what they cost alone.

    python tests/benchmarks/rules.py [--rules 100000] [--labels 20000] [--repeat 5]

CPU time, in one thread; of several rounds the median. `searched` is a lookup without the cache: the key is read and
checked, topics and rules are searched, and there is a route. `uncached` is that and remembering it, which is what the
route cache does for a key that it does not know. `cached` is the dictionary hit; `plain` are the same for topics
without labels. Each round looks up 10,000 different keys, so that nothing is in the processor's cache by chance.

Two sets of rules: `spread` (two to four labels of 20,000, some with a prefix) and `hot` (all have one label more in
common, which every message bears).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from hub.delivery import Role
from hub.frame import KIND_MESSAGES, Frame
from hub.handler import Handler
from hub.multimap import PrefixMultimap
from hub.overflow import QueueLimits
from hub.routes import Route, Routes
from hub.tags.envelope import Envelope, tagged
from hub.tags.rule import Rule, check_rule
from hub.tags.rules import RuleIndex

MESSAGES = 10_000
LABELS = 8
MATCHES = 3
HANDLERS = 100


class Nowhere:
    """An outlet that nothing is written to."""

    def send(self, batches: list[object]) -> None:
        """Do nothing; nobody calls this."""

    def send_gap(self, lost_messages: int) -> None:
        """Do nothing; nobody calls this."""

    def close(self, code: int, text: str) -> None:
        """Do nothing; nobody calls this."""


def handlers() -> list[Handler]:
    """Make handlers with the ids that a core would give them."""
    made = [Handler(Nowhere(), role=Role.CLIENT, limits=QueueLimits()) for _ in range(HANDLERS)]  # type: ignore[arg-type]
    for number, handler in enumerate(made, 1):
        handler.attach(number, lambda _: None, lambda _: None)
    return made


def spread(rules: int, labels: int, chance: random.Random) -> Iterator[Rule]:
    """Make rules of two to four labels, one in ten with a prefix that no message has."""
    for _ in range(rules):
        some = {f"label-{number}" for number in chance.sample(range(labels), chance.randint(2, 4))}
        yield check_rule(some, "/elsewhere/" if chance.random() < 0.1 else "")


def hot(rules: int, labels: int, chance: random.Random) -> Iterator[Rule]:
    """Make rules of three to five labels, one of which is the same in all."""
    for _ in range(rules):
        some = {f"label-{number}" for number in chance.sample(range(labels), chance.randint(2, 4))}
        yield check_rule(some | {"hot"})


class Scene:
    """A route cache with rules, and keys that three of them match."""

    def __init__(self, kind: Callable[[int, int, random.Random], Iterator[Rule]], rules: int, labels: int) -> None:
        chance = random.Random(7)  # noqa: S311 -- the same rules each time
        some = handlers()
        self.index: RuleIndex[Handler] = RuleIndex()
        tracemalloc.start()
        wanted = list(kind(rules, labels, chance))
        before = tracemalloc.get_traced_memory()[0]
        for number, rule in enumerate(wanted):
            self.index.add(rule, some[number % HANDLERS])
        self.bytes_a_rule = (tracemalloc.get_traced_memory()[0] - before) / rules
        tracemalloc.stop()
        begin = time.thread_time()
        again: RuleIndex[Handler] = RuleIndex()
        for number, rule in enumerate(wanted):
            again.add(rule, some[number % HANDLERS])
        self.add_us = (time.thread_time() - begin) / rules * 1e6
        multimap: PrefixMultimap[Handler] = PrefixMultimap()
        for handler in some:
            multimap.add("/other", handler)
        self.routes = Routes(multimap, 10**9, limit_bytes=10**12, rules=self.index)
        common = {"hot"} if kind is hot else set()
        self.keys = [self._key(number, common, chance, some, labels) for number in range(MESSAGES)]
        self.plain = [
            Frame(KIND_MESSAGES, 0, f"/plain/{number}".encode(), b"").routing_key for number in range(MESSAGES)
        ]

    def _key(self, number: int, common: set[str], chance: random.Random, some: list[Handler], labels: int) -> bytes:
        """Make a key of eight labels; three rules are added that it matches, each of another handler."""
        of_message = set(common)
        while len(of_message) < LABELS:
            of_message.add(f"label-{chance.randrange(labels)}")
        ordered = sorted(of_message)
        due = set(self.index.find("/t", of_message))
        for handler in some:
            if len(due) >= MATCHES:
                break
            if handler not in due:
                self.index.add(check_rule({*chance.sample(ordered, 3), *common}), handler)
                due.add(handler)
        return tagged(f"/t/{number}", of_message).routing_key


def per_call_us(act: Callable[[bytes], object], keys: list[bytes]) -> float:
    """Return the CPU time of one call, µs."""
    begin = time.thread_time()
    for key in keys:
        act(key)
    return (time.thread_time() - begin) / len(keys) * 1e6


def measured(scene: Scene, repeat: int) -> dict[str, float]:
    """Return medians over the rounds, µs a key; and how many handlers a key comes to."""
    routes = scene.routes
    names = ("searched", "uncached", "cached", "plain uncached", "plain cached")
    figures: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(repeat):
        routes.clear()
        figures["searched"].append(per_call_us(lambda key: routes.find_tagged(Envelope.decode(key[4:])), scene.keys))
        figures["uncached"].append(per_call_us(routes.miss, scene.keys))
        figures["cached"].append(per_call_us(routes.table.get, list(islice(cycle(scene.keys), 10 * MESSAGES))))
        routes.clear()
        figures["plain uncached"].append(per_call_us(routes.miss, scene.plain))
        figures["plain cached"].append(per_call_us(routes.table.get, list(islice(cycle(scene.plain), 10 * MESSAGES))))
    found = {name: median(times) for name, times in figures.items()}
    routes.clear()
    found["handlers a key"] = sum(len(_route(routes, key).handlers) for key in scene.keys) / len(scene.keys)
    return found


def _route(routes: Routes, key: bytes) -> Route:
    return routes.miss(key)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What label rules cost.")
    parser.add_argument("--rules", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=20_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    for kind in (spread, hot):
        for rules in (100, given.rules):
            scene = Scene(kind, rules, given.labels)
            found = ", ".join(f"{name} {figure:.2f}" for name, figure in measured(scene, given.repeat).items())
            print(f"{kind.__name__}, {rules} rules (then {len(scene.index)}): {found}; µs")  # noqa: T201
            print(f"    {scene.bytes_a_rule:.0f} bytes a rule, {scene.add_us:.2f} µs to add one")  # noqa: T201


if __name__ == "__main__":
    main()
