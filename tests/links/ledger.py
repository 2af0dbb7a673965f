"""`Ledger`: what has become of each message of a mesh for each hub that wants it, told by somebody who sees all hubs.

```
entered at O ─▶ offered to a link, for these hubs ─┬─ arrived and taken ─▶ offered to a link, for those of them ...
             └▶ offered to none that leads to W    └─ lost on the link, or arrived and refused
                = unreached at O for W
```

A hub takes a message once at most, and has one neighbour at most that leads to another hub. So there is one walk from
where a message has entered to each hub that wants it, and one end of it: it was taken there, or it has one fate
somewhere. What hubs count of losses must be what their walks say.

It looks over the shoulder of hubs in the test's own loop: nothing of what they do is changed. Messages are numbers
under `/from/NUMBER`, as of the hub where they enter, and every hub wants all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from hub.batch import Batch, decode_values
from hub.frame import iterate_frames
from hub.handler import Handler, Outlet
from hub.limits import LINK_COST
from hub.routes import Route
from hub.stretch import Stretch
from tests.hubs.hub import Hub

__all__ = ["Fate", "Ledger"]

Published = tuple[int, int]
"""Number of the hub where it has entered, number of the message."""


class Fate(NamedTuple):
    reason: str
    """`on a link`, `overtaken`, `repeated`, or `unreached` where nothing led there."""
    at: int
    """The number of the hub that must count it."""


class _Copy(NamedTuple):
    to: int
    """The number of the hub at its far side."""
    wanting: frozenset[int]
    """The hubs that it was to reach by that link."""


class _TracedLink(Handler):
    __slots__ = ()

    def offer(self, batch: Batch) -> None:
        _BOOKS[self].offered(self, batch)
        super().offer(batch)


class _Counted:
    """The outlet of what counts messages without a way, that says which they are."""

    def __init__(self, outlet: Outlet, counted: set[Published]) -> None:
        self._outlet, self._counted = outlet, counted

    def send(self, batches: list[Batch]) -> None:
        self._counted.update(message for batch in batches for message in _messages(batch))
        self._outlet.send(batches)


_BOOKS: dict[object, _Book] = {}
"""Link → the book of its hub; a handler has no room for it."""


class Ledger:
    def __init__(self, hubs: Sequence[Hub]) -> None:
        self._hubs = hubs
        self._books = [_Book(self, number, hub) for number, hub in enumerate(hubs)]
        # The messages that have entered, and which hubs have taken each.
        self.entered: list[Published] = []

    def number_of(self, hub: bytes) -> int:
        return next(number for number, one in enumerate(self._hubs) if one.node.id == hub)

    def onward(self, number: int, link: Handler, origin: bytes) -> frozenset[int]:
        traffic = self._hubs[number].node.core.mesh.traffic
        hubs = enumerate(self._hubs)
        return frozenset(other for other, hub in hubs if link in traffic.onward(origin, (hub.node.id,)))

    def fates(self) -> dict[tuple[int, int], Counter[Fate]]:
        """For each pair of hubs: what has become of messages that entered at the first and did not come to the second.

        It is the truth once nothing is under way any more.
        """
        found: dict[tuple[int, int], Counter[Fate]] = {}
        for message, wanting in self.lost():
            found.setdefault((message[0], wanting), Counter())[self._fate(message, wanting)] += 1
        return found

    def lost(self) -> Iterator[tuple[Published, int]]:
        for message in self.entered:
            for wanting, book in enumerate(self._books):
                if message not in book.taken:
                    yield message, wanting

    def _fate(self, message: Published, wanting: int) -> Fate:
        at = message[0]
        while True:
            copies = [copy for copy in self._books[at].copies.get(message, ()) if wanting in copy.wanting]
            if not copies:
                return Fate("unreached", at)
            (copy,) = copies
            refused = self._books[copy.to].refused.get((message, at))
            if refused is not None:
                return Fate(refused, copy.to)
            if (message, at) not in self._books[copy.to].arrived:
                return Fate("on a link", at)
            at = copy.to

    def lost_on_links(self, number: int) -> int:
        book = self._books[number]
        return sum(
            (message, number) not in self._books[copy.to].arrived
            for message, copies in book.copies.items()
            for copy in copies
        )

    def refused(self, number: int, reason: str) -> int:
        return sum(why == reason for why in self._books[number].refused.values())

    def check_counters(self) -> None:
        for number, hub in enumerate(self._hubs):
            mesh, accounts = hub.node.core.mesh, hub.node.accounts
            assert accounts.possibly_lost_messages == accounts.messages_in_doubt == 0
            assert accounts.lost_messages == self.lost_on_links(number), (
                number,
                accounts.lost_messages,
                self.lost_on_links(number),
            )
            assert mesh.traffic.overtaken_messages == self.refused(number, "overtaken")
            assert mesh.traffic.repeated_messages == self.refused(number, "repeated")
            book = self._books[number]
            assert mesh.traffic.unreached_messages == len(book.unreached)

    def uncounted(self) -> list[tuple[Published, int, Fate]]:
        found = []
        for message, wanting in self.lost():
            fate = self._fate(message, wanting)
            if fate == ("unreached", message[0]) and message not in self._books[fate.at].unreached:
                found.append((message, wanting, fate))
        return found


class _Book:
    def __init__(self, ledger: Ledger, number: int, hub: Hub) -> None:
        self.ledger, self._number, self._core = ledger, number, hub.node.core
        # Message → where it was sent from here.
        self.copies: dict[Published, list[_Copy]] = {}
        # Message and the hub from which it came: all that has arrived; and why it was refused, of those that were.
        self.arrived: set[tuple[Published, int]] = set()
        self.refused: dict[tuple[Published, int], str] = {}
        # The messages that have entered here, or were taken from a link.
        self.taken: set[Published] = set()
        # The messages that were counted here as without a way on.
        self.unreached: set[Published] = set()
        core: Any = self._core
        counter = core.routes._unreached
        counter.outlet = _Counted(counter.outlet, self.unreached)
        self._publish, self._publish_stretch, self._link = core.publish, core.publish_stretch, core.link
        core.publish, core.publish_stretch, core.link = self.publish, self.publish_stretch, self.link
        # Link → the number of the hub at its far side; also of those that are gone, as what they brought may come late.
        self._far: dict[Handler, int] = {}
        for far in self._core.mesh.graph.links[self._core.mesh.hub]:
            (_, link) = cast("tuple[int, Handler]", self._core.mesh.traffic.way_to(far))
            self._trace(link, far)

    def _trace(self, link: Handler, hub: bytes) -> None:
        _BOOKS[link] = self
        self._far[link] = self.ledger.number_of(hub)
        link.__class__ = _TracedLink

    def link(self, handler: Handler, hub: bytes, on_mesh: Callable[[], object], *, cost: int = LINK_COST) -> None:
        self._trace(handler, hub)
        self._link(handler, hub, on_mesh, cost=cost)

    def publish(self, source: Handler, route: Route, batch: Batch) -> None:
        with_it = list(_messages(batch))
        before = self._counted()
        self._come(source, with_it)
        self._publish(source, route, batch)
        self._judge(source, with_it, before)

    def publish_stretch(self, source: Handler, stretch: Stretch[Route]) -> None:
        with_them = [message for run in stretch for message in _messages(run)]
        before = self._counted()
        self._come(source, with_them)
        self._publish_stretch(source, stretch)
        self._judge(source, with_them, before)

    def offered(self, link: Handler, batch: Batch) -> None:
        assert batch.origin is not None
        copy = _Copy(self._far[link], self.ledger.onward(self._number, link, batch.origin.hub))
        for message in _messages(batch):
            self.copies.setdefault(message, []).append(copy)

    def _counted(self) -> tuple[int, int]:
        return self._core.mesh.traffic.overtaken_messages, self._core.mesh.traffic.repeated_messages

    def _come(self, source: Handler, messages: list[Published]) -> None:
        if source.is_link:
            far = self._far[source]
            self.arrived.update((message, far) for message in messages)
        else:
            self.ledger.entered += messages

    def _judge(self, source: Handler, messages: list[Published], before: tuple[int, int]) -> None:
        overtaken, repeated = (now - then for now, then in zip(self._counted(), before, strict=True))
        if overtaken or repeated:
            assert overtaken + repeated == len(messages)
            reason = "overtaken" if overtaken else "repeated"
            far = self._far[source]
            self.refused.update(((message, far), reason) for message in messages)
        else:
            twice = self.taken.intersection(messages)
            assert not twice, f"hub {self._number} takes messages twice: {sorted(twice)[:5]}"
            self.taken.update(messages)


def _messages(batch: Batch) -> Iterator[Published]:
    for frame in iterate_frames(batch.frames):
        topic = frame.topic.decode()
        if topic.startswith("/from/"):
            for number, _ in decode_values(frame):
                yield int(topic.removeprefix("/from/")), number
