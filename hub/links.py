"""`RemoteHubs`: the links to other hubs of the mesh, the announcements to them, and their interests.

```
mesh: on_interest ─▶ changes in their order, a share each turn ─▶ multimap, rules, services, names, leaves
authority: judge  ─▶ names and leaves that a link with other rights has brought ─▶ taken away, or taken
this hub: filter, rules, services, names and leaves, from the first link on ─▶ Mesh.change
```

When nothing is left to do, the multimap has the interests of each hub as the mesh knows them. A prefix costs one step,
so that a hub that wants 100,000 prefixes delays no other work.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from hub.errors import RejectedError
from hub.handlers.delivery import RemoteHub
from hub.handlers.handler import Handler
from hub.labels.rules import Rule
from hub.labels.subscriptions import RuleSubscriptions
from hub.mesh.announcement import Interest, Interests, Leaf, Served
from hub.mesh.mesh import Mesh
from hub.messages.frame import Origin
from hub.names.claim import LATEST_US, Announced
from hub.names.names import Names
from hub.policy.policy import Action, Rights
from hub.prefixes import Change
from hub.requests.services import Services
from hub.routing.subscriptions import PrefixSubscriptions
from hub.scheduling.memory import Account
from hub.scheduling.scheduler import Scheduler

OnGateway = Callable[[bytes], object]  # Called with the id of the hub that is the gateway of a leaf from now on


def _untold(_: Interests) -> None: ...


class _Own:
    """A leaf of this hub."""

    __slots__ = ("gateway", "handler", "on_gateway", "published_before")

    def __init__(self, gateway: bytes, on_gateway: OnGateway) -> None:
        # The hub in the last call of `on_gateway`.
        self.gateway = gateway
        self.on_gateway = on_gateway
        # None until it is part of the hub.
        self.handler: Handler | None = None
        # How much it had published when it was left to another hub, or last before that.
        self.published_before = 0


class Leaves:
    """Which hub is the gateway of a leaf, where several hubs of the mesh are peered with the same Zeek.

    Such a Zeek publishes to all of them, and would get the same from all. So one hub is its gateway; the others bring
    nothing of it into the mesh, and send it nothing, until it is their turn. The hub that has had the leaf first is the
    gateway, and of two at once the one with the lower id: claims of all hubs are announced to the mesh, and the least
    (time, hub) wins. A claim is later than all that its hub knows of, so that a newcomer takes nothing away; hubs that
    know of the same claims, and can reach the same hubs, agree.
    """

    def __init__(self, hub: bytes) -> None:
        self._hub = hub
        # Endpoint → hub → since when it has it: of this hub, and of others that can be reached.
        self._claims: dict[bytes, dict[bytes, int]] = {}
        # Endpoint → the leaf of this hub, from `claim` to `release`.
        self._own: dict[bytes, _Own] = {}
        self._on_own: Callable[[Interests], object] = _untold
        # How many messages were not taken of leaves that were left to others, or not sent to them, but for those that
        # leaves have brought which are left to others now.
        self._skipped_messages = 0

    # This hub.

    def tell(self, on_own: Callable[[Interests], object]) -> None:
        """Announce the leaves of this hub to the mesh, now and with each change."""
        self._on_own = on_own
        on_own(Interests(tuple(Leaf(endpoint, self.since_us(endpoint)) for endpoint in self._own)))

    def claim(self, endpoint: bytes, now_us: int, on_gateway: OnGateway) -> bytes:
        """Claim a leaf, which this hub has or will have soon, and none of that endpoint yet.

        Returns:
            The hub that is its gateway now.
        """
        claims = self._claims.setdefault(endpoint, {})
        since_us = min(LATEST_US, max([now_us, *(1 + other_us for other_us in claims.values())]))
        claims[self._hub] = since_us
        gateway = self._gateway(claims)
        self._own[endpoint] = _Own(gateway, on_gateway)
        self._on_own(Interests((Leaf(endpoint, since_us),)))
        return gateway

    def join(self, endpoint: bytes, handler: Handler) -> None:
        """Note that a claimed leaf is a part of this hub now."""
        own = self._own[endpoint]
        own.handler = handler
        self._leave_out(own)

    def release(self, endpoint: bytes) -> None:
        """Give up the claim to a leaf."""
        own = self._own.pop(endpoint)
        self._take_in(own)
        leaf = Leaf(endpoint, self.since_us(endpoint))
        self._drop(self._hub, endpoint)
        self._on_own(Interests(removed=(leaf,)))

    def skip(self, messages: int) -> None:
        """Count messages that were not sent to a leaf, as its gateway sends them."""
        self._skipped_messages += messages

    # Other hubs.

    def hear(self, hub: bytes, held: Iterable[tuple[bytes, int]], released: Iterable[bytes]) -> None:
        """Take the leaves that another hub, which can be reached, has or no longer has."""
        for endpoint in released:
            self._drop(hub, endpoint)
        for endpoint, since_us in held:
            self._claims.setdefault(endpoint, {})[hub] = since_us
            self._look(endpoint)

    def _drop(self, hub: bytes, endpoint: bytes) -> None:
        claims = self._claims.get(endpoint, {})
        if claims.pop(hub, None) is None:
            return
        if claims:
            self._look(endpoint)
        else:
            del self._claims[endpoint]

    # Gateways.

    def gateway_of(self, endpoint: bytes) -> bytes:
        """Return the id of the hub that is the gateway of a leaf; empty if there is none."""
        claims = self._claims.get(endpoint)
        return self._gateway(claims) if claims else b""

    def since_us(self, endpoint: bytes) -> int:
        """Return since when this hub has a leaf, as it has announced it."""
        return self._claims[endpoint][self._hub]

    @staticmethod
    def _gateway(claims: Mapping[bytes, int]) -> bytes:
        return min(claims, key=lambda hub: (claims[hub], hub))

    def _look(self, endpoint: bytes) -> None:
        own = self._own.get(endpoint)
        if own is None:
            return
        gateway = self._gateway(self._claims[endpoint])
        if gateway == own.gateway:
            return
        self._take_in(own)
        own.gateway = gateway
        self._leave_out(own)
        own.on_gateway(gateway)

    def _leave_out(self, own: _Own) -> None:
        if own.handler is not None and own.gateway != self._hub:
            own.published_before = own.handler.published_messages
            own.handler.leave_out(left=True)

    def _take_in(self, own: _Own) -> None:
        self._skipped_messages += self._not_taken(own)
        if own.handler is not None:
            own.handler.leave_out(left=False)

    def _not_taken(self, own: _Own) -> int:
        if own.handler is None or own.gateway == self._hub:
            return 0
        return own.handler.published_messages - own.published_before

    # Looking at it.

    @property
    def left(self) -> int:
        """How many leaves of this hub are left to other hubs now."""
        return sum(own.gateway != self._hub for own in self._own.values())

    @property
    def skipped_messages(self) -> int:
        """How many messages of leaves, or for them, this hub did not take or send since the start, as gateways do."""
        return self._skipped_messages + sum(map(self._not_taken, self._own.values()))

    @property
    def own(self) -> Iterable[bytes]:
        return self._own.keys()


_INTEREST_BYTES = 500  # About, of a prefix, a rule or a service of another hub: in its index, and in that hub's record

_NAMES_PER_STEP = 8  # 20 µs each

T = TypeVar("T")


def _batched(items: Iterable[T]) -> list[list[T]]:
    some = list(items)
    return [some[start : start + _NAMES_PER_STEP] for start in range(0, len(some), _NAMES_PER_STEP)]


def _of_kind(kind: type[T], interests: Iterable[Interest]) -> list[T]:
    return [one for one in interests if isinstance(one, kind)]


def _served(interests: Iterable[Interest]) -> list[str]:
    return [one.prefix for one in _of_kind(Served, interests)]


def _may_be_gateway(rights: Rights | None) -> bool:
    """Return whether a hub beyond a link may be the gateway of a leaf that this hub has, too.

    Only where the link may bring and take everything: else messages from or for the leaf would be refused.
    """
    return rights is None or (rights.may_all(Action.BRING, "") and rights.may_all(Action.TAKE, ""))


class RemoteHubs:
    """The other hubs, and the links to them."""

    def __init__(  # noqa: PLR0913, PLR0917 -- all that hubs announce to each other
        self,
        mesh: Mesh[Handler],
        prefixes: PrefixSubscriptions,
        rules: RuleSubscriptions,
        services: Services,
        names: Names,
        leaves: Leaves,
        scheduler: Scheduler,
        account: Account,
    ) -> None:
        self._mesh, self._prefixes, self._rules, self._services = mesh, prefixes, rules, services
        self._names, self._leaves, self._scheduler, self._account = names, leaves, scheduler, account
        # How much they hold together.
        self._held = 0
        # Id → hub, while it holds anything.
        self._hubs: dict[bytes, RemoteHub] = {}
        # Name → how it was announced last, while a client of this hub holds it; None before the first link.
        self._announced: dict[str, Announced] | None = None
        # Link → the function to call when it is to be sent something.
        self._on_mesh: dict[Handler, Callable[[], object]] = {}

    # Links of this hub.

    def link(self, handler: Handler, hub: bytes, on_mesh: Callable[[], object], cost: int) -> None:
        """Make an attached link part of the mesh; see `Core.link`."""
        if self._announced is None:
            self._announced = {}
            self._prefixes.asked_of_links.tell(self, self._mesh.change)
            self._rules.tell(self._change_rule)
            self._services.tell(self._change_served)
            self._names.tell(partial(self._change_name, self._announced))
            self._leaves.tell(self._mesh.change)
        self._on_mesh[handler] = on_mesh
        handler.bring_from(Origin(hub, 0))
        handler.wanted_there = partial(self.wanted_by, hub)
        self.write()
        self._mesh.link_up(handler, hub, cost=cost)

    def unlink(self, handler: Handler) -> None:
        """A handler leaves; this does no harm if it is no link."""
        if self._on_mesh.pop(handler, None) is not None:
            self.write()
            self._mesh.link_down(handler)

    def write(self) -> None:
        """Write messages routed by the present ways: news of other ways must not go before it."""
        for link in self._mesh.links:
            link.write_pending()

    def notify(self, link: Handler) -> None:
        """There is something to send on a link; it may have left."""
        on_mesh = self._on_mesh.get(link)
        if on_mesh is not None:
            on_mesh()

    def _change_rule(self, rule: Rule, added: bool) -> None:  # noqa: FBT001
        self._mesh.change(Interests((rule,)) if added else Interests(removed=(rule,)))

    def _change_served(self, change: Change) -> None:
        self._mesh.change(Interests(tuple(map(Served, change.added)), tuple(map(Served, change.removed))))

    def _change_name(self, told: dict[str, Announced], name: str, announced: Announced | None) -> None:
        before = told.pop(name, None)
        if announced is not None:
            told[name] = announced
        added = () if announced is None else (announced,)
        self._mesh.change(Interests(added, () if before is None else (before,)))

    # Interests of other hubs.

    def __iter__(self) -> Iterator[RemoteHub]:
        return iter(self._hubs.values())

    def wanted_by(self, hub: bytes) -> Collection[str]:
        """Return the prefixes of a hub in the multimap."""
        far = self._hubs.get(hub)
        return far.prefixes.keys() if far is not None else ()

    def served_by(self, hub: bytes) -> Collection[str]:
        """Return the prefixes under which clients of a hub answer requests."""
        far = self._hubs.get(hub)
        return far.served.keys() if far is not None else ()

    def leaves_of(self, hub: bytes) -> Collection[bytes]:
        """Return the endpoints of the leaves of a hub, as far as it may be their gateway."""
        far = self._hubs.get(hub)
        return far.leaves.keys() if far is not None and _may_be_gateway(far.rights) else ()

    def change(self, hub: bytes, change: Interests, link: Handler | None) -> None:
        """Take a change of the interests of a hub; the rights of the link that brought it decide about names."""
        self._add(self._changing(hub, change, link))

    def judge(self, link: Handler) -> None:
        """Check again the names and leaves that a link has brought, as it has other rights."""
        self._add(self._judging(link))

    def reach(self, hub: bytes, is_reached: bool) -> None:  # noqa: FBT001 -- as the mesh tells it
        """Take note that a hub can be reached again, or no longer: then its clients own no names."""
        self._add(self._reaching(hub, is_reached))

    def _add(self, steps: Iterator[None]) -> None:
        self._scheduler.add(RemoteHubs, steps, at_once=False)

    def _changing(self, hub: bytes, change: Interests, link: Handler | None) -> Iterator[None]:
        far = self._hubs.get(hub)
        if far is None:
            far = self._hubs[hub] = RemoteHub(hub)
        if link is not None:
            far.link = link
        before = far.held
        has_more = not all(isinstance(one, str) for one in (*change.added, *change.removed))  # than prefixes
        # New interests come first: one prefix may replace many prefixes or rules, and no message may fall between.
        yield from self._prefixes.changing(far, _of_kind(str, change.added), ())
        if has_more:
            yield from self._rules.changing(far, _of_kind(Rule, change.added), _of_kind(Rule, change.removed))
        yield from self._prefixes.changing(far, (), _of_kind(str, change.removed))
        if has_more:
            yield from self._services.changing(far, _served(change.added), _served(change.removed))
            yield from self._change_names(far, _of_kind(Announced, change.added), _of_kind(Announced, change.removed))
            self._change_leaves(far, _of_kind(Leaf, change.added), _of_kind(Leaf, change.removed))
        self._held += far.held - before
        self._account.update(self._held * _INTEREST_BYTES)
        if not far.held:
            self._hubs.pop(hub, None)
            yield from self._names.forgetting(far)

    def _change_names(self, far: RemoteHub, added: list[Announced], removed: list[Announced]) -> Iterator[None]:
        gone = [one.name for one in removed if far.names.get(one.name) == one]
        for name in gone:
            del far.names[name]
        for one in added:
            far.names[one.name] = one
        if not far.is_lost:
            yield from self._hear(far, added, [name for name in gone if name not in far.names])

    def _change_leaves(self, far: RemoteHub, added: list[Leaf], removed: list[Leaf]) -> None:
        gone = [endpoint for endpoint, since_us in removed if far.leaves.get(endpoint) == since_us]
        for endpoint in gone:
            del far.leaves[endpoint]
        far.leaves.update(added)
        if not far.is_lost:
            self._leaves.hear(far.hub, added if _may_be_gateway(far.rights) else (), gone)

    def _judge_leaves(self, far: RemoteHub) -> None:
        if _may_be_gateway(far.rights):
            self._leaves.hear(far.hub, far.leaves.items(), ())
        else:
            self._leaves.hear(far.hub, (), far.leaves)

    def _hear(self, far: RemoteHub, held: Iterable[Announced], released: Iterable[str]) -> Iterator[None]:
        """Pass names on in steps. `Names` counts the refused ones; the far hub does not learn of them."""
        for some in _batched(held):
            with suppress(RejectedError):
                self._names.hear(far, some, ())
            yield
        for others in _batched(released):
            self._names.hear(far, (), others)
            yield

    def _judging(self, link: Handler) -> Iterator[None]:
        for far in list(self._hubs.values()):
            if not ((far.names or far.leaves) and self._speaks_for(link, far)):
                continue
            far.link = link
            if far.is_lost:
                continue
            self._judge_leaves(far)
            for some in _batched(far.names.values()):
                rights = link.rights
                granted = {one.name for one in some if rights is None or rights.may(Action.CLAIM, one.name)}
                known = self._names.of(far)
                taken = [one for one in some if one.name in granted and one.name not in known]
                yield from self._hear(far, taken, [one.name for one in some if one.name not in granted])
                yield

    def _speaks_for(self, link: Handler, far: RemoteHub) -> bool:
        """Return whether a link brought the interests of a hub, or leads there in place of one that is gone."""
        if far.link is None or not far.link.closed:
            return far.link is link
        way = self._mesh.way_to(far.hub)
        return way is not None and way[1] is link

    def _reaching(self, hub: bytes, is_reached: bool) -> Iterator[None]:  # noqa: FBT001
        far = self._hubs.get(hub)
        if far is None or far.is_lost is not is_reached:
            return
        far.is_lost = not is_reached
        if is_reached:
            self._judge_leaves(far)
            yield from self._hear(far, far.names.values(), ())
        else:
            self._leaves.hear(hub, (), far.leaves)
            yield from self._names.forgetting(far)
