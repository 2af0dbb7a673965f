"""`Routes`: the handlers for the messages of a routing key, found by one dictionary hit.

```
routing key (bytes 4 .. 8+K of a frame) ──▶ table ──hit──▶ Route ──▶ handlers
                                              │miss
                                              ▼
     check the key; find() in the multimap, for tagged keys in the rules or among the names, too; leave out handlers
     that may not see the topic; intern, remember
```

A `Route` never changes; keys with the same handlers (and sender, and grants for publishing) share one, so that `is`
compares the ways of two frames. A change of a subscription, rule or name forgets only its own keys. A full
table is emptied: a table too small for its traffic is as slow as none, whichever key goes first. Its memory is freed in
steps. A miss takes about 10 µs, with eight labels 20.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple, cast
from weakref import WeakValueDictionary

from sortedcontainers import SortedList

from hub.errors import CloseCode, InvalidTopicError, RejectedError
from hub.handlers.delivery import RemoteHub, without_links
from hub.handlers.handler import Handler
from hub.labels.envelope import Envelope
from hub.labels.remembered import TaggedKeys, charge
from hub.labels.rules import Rule, RuleIndex
from hub.limits import RouteLimits
from hub.mesh.mesh import Mesh
from hub.messages.frame import FLAG_TAGGED, KIND_MESSAGES
from hub.names.claim import Owner
from hub.policy.grants import Domain, User
from hub.policy.policy import Action, Domains, Policy, not_granted
from hub.prefixes import PrefixMultimap
from hub.scheduling.memory import Account, Memory
from hub.scheduling.scheduler import Scheduler
from hub.topics import RESERVED, STORES, decode_topic, printable, store_that_tells

_KEY_HEADER_BYTES = 4
_KNOWN_FLAGS = 0b11 | FLAG_TAGGED  # BATCH and the low bit of the encoding: msgpack or Broker
_by_id = attrgetter("id")
_AFTER_UTF8 = b"\xff"  # no UTF-8 text has this byte, so it sorts behind every continuation of a prefix

# More tagged keys than these are not forgotten one by one, 5 µs each: all of them go, 0.2 µs each
_FORGOTTEN_SINGLY = 4_096

_LET_GO_PER_STEP = 16  # Forgotten routes that are freed in one step: 1.3 µs each

_LET_GO_PER_MISS = 2  # The same with each miss, which takes ten times as long

_LET_GO_AT_ONCE = 1_000  # So many are not worth a later turn: up to 3 ms

# Memory of a key without labels beside its text, which is there twice: two objects, places in a dict and a list
_PLAIN_CHARGE_BYTES = 250

_WAYS_LIMIT = 256  # For how many origins a route remembers its handlers

_POLICY_CHARGE_BYTES = 350  # Beside it with a policy: each may have a route of its own, and another domain


def no_owner(_: str) -> Owner | None:
    """Return the owner of a name where there are no names: None."""
    return None


class Ways(NamedTuple):
    """Where messages lead beyond this hub."""

    mesh: Mesh[Handler]
    far: tuple[bytes, ...]  # The other hubs that want them, ascending
    barred: frozenset[Handler]  # Links that may not have them
    unreached: Handler  # Counts messages without a way to a hub that wants them

    def links(self, origin: bytes) -> tuple[Handler, ...]:
        """Return the links for messages of an origin, and the handler that counts them if they miss a hub."""
        mesh, barred = self.mesh, self.barred
        links = mesh.onward(origin, self.far)
        if barred:
            links = tuple(link for link in links if link not in barred)
        return (*links, self.unreached) if mesh.misses(origin, self.far) else links


class Route:
    """The handlers that get the messages of some routing keys."""

    __slots__ = (
        "__weakref__",
        "_ways",
        "by_way",
        "domains",
        "handlers",
        "is_owned",
        "leads_on",
        "near",
        "sender",
        "source",
    )

    # Of messages that enter the mesh here: all handlers that want them, and the links that lead to hubs that do
    handlers: tuple[Handler, ...]

    near: tuple[Handler, ...]  # Those of them that are no links

    leads_on: bool  # Whether there is a link among them

    sender: str  # The name that the messages bear, mostly empty

    # Whether only `source` may publish them here: they bear its name, or are changes of a store
    is_owned: bool

    # The handler that owns the sender's name, or publishes the changes of the store; None if it is not here
    source: Owner | None

    domains: Domains | None  # The rules of publishing these messages; None without a policy

    # Handlers of messages that came over a link; `of_way` finds the others
    by_way: dict[bytes, tuple[Handler, ...]]

    def __init__(  # noqa: PLR0913 -- what it is
        self,
        handlers: tuple[Handler, ...],
        sender: str = "",
        source: Owner | None = None,
        domains: Domains | None = None,
        ways: Ways | None = None,
        *,
        is_owned: bool = False,
    ) -> None:
        self.handlers = handlers
        self.near = without_links(handlers)
        self.leads_on = self.near is not handlers
        # Where the messages lead beyond this hub; None: nowhere.
        self._ways = ways
        self.by_way = {}
        self.sender = sender
        self.is_owned = is_owned
        self.source = source
        self.domains = domains

    @property
    def far(self) -> tuple[bytes, ...]:
        """The other hubs of the mesh that want the messages, ascending."""
        return () if self._ways is None else self._ways.far

    @property
    def barred(self) -> frozenset[Handler]:
        """The links that may not have them, although they may lead to a hub that wants them."""
        return frozenset() if self._ways is None else self._ways.barred

    def of_way(self, origin: bytes) -> tuple[Handler, ...]:
        """Return the handlers of messages that came over a link, and entered the mesh at the hub `origin`."""
        ways = self._ways
        if ways is None:
            return self.near
        found = self.by_way.get(origin)
        if found is None:
            if len(self.by_way) >= _WAYS_LIMIT:
                self.by_way.clear()
            found = self.near + ways.links(origin)
            if not (found or ways.barred):  # the hub that sent it knows another way than this one
                found = (ways.unreached,)
            self.by_way[origin] = found
        return found

    def may_bring(self, source: Handler) -> bool:
        """Return whether `source` may publish on this route, as far as its messages have an owner.

        A peer hub may: it has asked its own clients. With rights, only under names that it may claim; and it does not
        publish changes of a store of this hub.
        """
        if not self.is_owned or source is self.source:
            return True
        if not self.sender:
            return source.is_link and self.source is None
        rights = source.rights
        return source.is_link and (rights is None or rights.may(Action.CLAIM, self.sender))


class _Verdicts:
    __slots__ = ("domain", "known", "names")

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        # Users with their own name in the topic, in the place of a grant: each has a verdict.
        self.names = frozenset(name for level in domain for _, name in level if name is not None)
        # Verdicts: for such users, and for all others with the same roles.
        self.known: dict[User | frozenset[str], bool] = {}


class _Audience:
    __slots__ = ("_clients", "_peers", "_topic")

    def __init__(self, topic: str) -> None:
        self._topic = topic
        # For clients, and for peers, by policy: while one takes the place of another, there are two.
        self._clients: dict[Policy, _Verdicts] = {}
        self._peers: dict[Policy, _Verdicts] = {}

    def admits(self, handler: Handler) -> bool:
        rights = handler.rights
        if rights is None:
            return True
        policy, user = rights.policy, rights.user
        of_kind = self._peers if handler.is_peer else self._clients
        verdicts = of_kind.get(policy)
        if verdicts is None:
            verdicts = of_kind[policy] = _Verdicts(policy.domain(handler.acts.seeing, self._topic))
        who = user if user.name in verdicts.names else user.roles
        verdict = verdicts.known.get(who)
        if verdict is None:
            verdict = verdicts.known[who] = rights.may_by(handler.acts.seeing, verdicts.domain)
        return verdict


class Routes:
    """The route cache in front of a multimap of handlers."""

    def __init__(  # noqa: PLR0913 -- all that it asks
        self,
        multimap: PrefixMultimap[Handler | RemoteHub],
        limits: RouteLimits = RouteLimits(),  # noqa: B008 -- frozen
        *,
        rules: RuleIndex[Handler | RemoteHub] | None = None,
        owner_of: Callable[[str], Owner | None] = no_owner,
        account: Account | None = None,
        mesh: Mesh[Handler] | None = None,
        unreached: Handler | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        # Routing key → route. A key is there from its first miss until its handlers change, or all is
        # cleared.
        self.table: dict[bytes, Route] = {}
        self.limit, self.limit_bytes = limits
        # How much memory the remembered keys take, bytes; 0 after `clear`.
        self.size_bytes = 0
        # How often a key was not in the table; nothing takes away from it.
        self.misses = 0
        # How often the table was emptied; nothing takes away from it.
        self.clears = 0
        # True once a remembered route may be used by one source alone; False again after `clear`.
        self.has_owned = False
        # True once some handler may not see everything: from then on handlers are asked, at each miss.
        self.is_guarded = False
        # The policy that routes remember; None: everything is allowed.
        self._policy: Policy | None = None
        # The charge of a key without labels beside its text; it changes with the policy, when nothing is remembered.
        self._charge_bytes = _PLAIN_CHARGE_BYTES
        self._multimap = multimap
        self._mesh = mesh
        self._unreached = unreached
        self._scheduler = scheduler
        self._rules: RuleIndex[Handler | RemoteHub] = RuleIndex() if rules is None else rules
        self._owner_of = owner_of
        self._account = Memory().account("routes") if account is None else account
        # Handlers, beside them domains, sender and source if there are any → the one route of these, as long as
        # it is referenced: `is` compares routes.
        self._interned: WeakValueDictionary[tuple[object, ...], Route] = WeakValueDictionary()
        # Name of a store of this hub → its handler, which alone publishes its changes.
        self._tellers: dict[str, Handler] = {}
        # Tables that were forgotten as a whole, each with its routes: the scheduler empties them, and each miss does.
        self._abandoned: list[tuple[dict[bytes, Route], WeakValueDictionary[tuple[object, ...], Route]]] = []
        # The remembered keys without labels, as topic + key header, so that the topics under a prefix are one range.
        self._by_topic: SortedList = SortedList()
        # The remembered keys with labels or names, by the reasons to forget them.
        self._tagged = TaggedKeys()

    @property
    def tagged_keys(self) -> int:
        """How many of the remembered keys have labels or names."""
        return len(self._tagged)

    def of(self, key: bytes) -> Route:
        """Return the route of a key, remembered. The scanner, which asks once a frame, looks into `table` itself.

        Raises:
            RejectedError: No client may send messages under this key; the text says why.
        """
        return self.table.get(key) or self.miss(key)

    def adopt(self, policy: Policy | None) -> None:
        self.guard()
        self._put_away()
        self._policy = policy
        self._charge_bytes = _PLAIN_CHARGE_BYTES + (0 if policy is None else _POLICY_CHARGE_BYTES)

    def guard(self) -> None:
        """Leave out handlers that may not see a topic from now on, as a handler has rights."""
        if not self.is_guarded:
            self.is_guarded = True
            self.forget_all()

    def let_tell(self, store: str, teller: Handler | None) -> None:
        """Let only one handler publish the changes of a store that is here; None: the store is gone."""
        if teller is None:
            self._tellers.pop(store, None)
        else:
            self._tellers[store] = teller
        self.forget(f"{STORES}{store}/")

    def find(self, topic: str) -> Route:
        """Return the route of a topic, without remembering it."""
        return self._wanted_route(topic, self._multimap.find(topic))

    def find_tagged(self, envelope: Envelope) -> Route:
        """Return the route of a topic with labels and names, without remembering it.

        Raises:
            RejectedError: The name that it is for has no owner, or it would go to a peer hub that may not take it.
        """
        topic, labels, sender, destination = envelope
        if destination:
            return self._addressed(topic, self._addressee(destination), sender)
        found = self._multimap.find(topic)
        if self._rules:
            found |= self._rules.find(topic, labels, sender)
        return self._wanted_route(topic, found, sender)

    def _addressed(self, topic: str, owner: Owner, sender: str) -> Route:
        if isinstance(owner, Handler):
            return self._route(topic, (owner,), sender)
        ways = self._ways([owner.hub], _Audience(topic) if self.is_guarded else None)
        links = () if ways is None else ways.mesh.onward(ways.mesh.hub, ways.far)
        if ways is None or not links:
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, "the hub that has this name cannot be reached")
        for link in links:
            if link in ways.barred and link.rights is not None:
                raise not_granted(link.rights, link.acts.seeing, topic)
        return self._route(topic, (), sender, ways)

    def _addressee(self, name: str) -> Owner:
        owner = self._owner_of(name)
        if owner is None:
            raise RejectedError(CloseCode.TRY_AGAIN_LATER, f"no client owns the name {printable(name)}")
        return owner

    def _wanted_route(self, topic: str, found: Iterable[Handler | RemoteHub], sender: str = "") -> Route:
        """Return the route to all handlers that want a topic, as far as they may see it.

        Handlers are sorted, so that the same ones are the same tuple, in any order of their prefixes.
        """
        here: list[Handler] = []
        far: list[bytes] = []
        if topic.startswith(STORES):
            found = [one for one in found if _asks_for_store(one, topic)]
        for one in found:
            if type(one) is RemoteHub:
                far.append(one.hub)
            else:
                here.append(cast("Handler", one))
        audience = _Audience(topic) if self.is_guarded else None
        admitted = here if audience is None else filter(audience.admits, here)
        return self._route(topic, tuple(sorted(admitted, key=_by_id)), sender, self._ways(far, audience))

    def _ways(self, far: list[bytes], audience: _Audience | None) -> Ways | None:
        if not far or self._mesh is None or self._unreached is None:
            return None
        barred: frozenset[Handler] = frozenset()
        if audience is not None:
            barred = frozenset(link for link in self._mesh.links if not audience.admits(link))
        return Ways(self._mesh, tuple(sorted(far)), barred, self._unreached)

    def _route(self, topic: str, handlers: tuple[Handler, ...], sender: str = "", ways: Ways | None = None) -> Route:
        source = self._owner_of(sender) if sender else None
        store = store_that_tells(topic)
        if store is not None:
            source = self._tellers.get(store)
        domains = None if self._policy is None else self._policy.domains(topic)
        if ways is not None:
            handlers += tuple(link for link in ways.links(ways.mesh.hub) if link not in handlers)
        is_owned = store is not None or bool(sender)
        is_simple = domains is None and not is_owned and ways is None
        identity = handlers if is_simple else (domains, sender, source, handlers, ways, is_owned)
        route = self._interned.get(identity)
        if route is None:
            route = self._interned[identity] = Route(handlers, sender, source, domains, ways, is_owned=is_owned)
        return route

    def miss(self, key: bytes) -> Route:
        """Find and remember the route of a key that `table` does not hold.

        Raises:
            RejectedError: No client may send messages under this key; the text says why.
        """
        self.misses += 1
        if key[1] & FLAG_TAGGED:
            return self._miss_tagged(key)
        topic = _checked_topic(key)
        self._make_room(2 * len(key) + self._charge_bytes)
        route = self.table[key] = self.find(topic)
        if route.is_owned:
            self.has_owned = True
        self._by_topic.add(key[_KEY_HEADER_BYTES:] + key[:_KEY_HEADER_BYTES])
        return route

    def _miss_tagged(self, key: bytes) -> Route:
        _check_flags(key)
        envelope = Envelope.decode(key[_KEY_HEADER_BYTES:])
        _check_unreserved(envelope.topic)
        if store_that_tells(envelope.topic) is not None:  # they bear no labels
            raise changes_refused(envelope.topic)
        route = self.find_tagged(envelope)
        size_bytes = charge(key, envelope)
        self._make_room(size_bytes)
        self.table[key] = route
        self._tagged.add(key, envelope, size_bytes)
        if envelope.sender:
            self.has_owned = True
        return route

    def _make_room(self, size_bytes: int) -> None:
        if len(self.table) >= self.limit or self.size_bytes + size_bytes > self.limit_bytes:
            self.forget_all()
        elif self._abandoned:  # twice as quickly as new ones come, so that never more than one full table is let go of
            self._let_go(_LET_GO_PER_MISS)
        self.size_bytes += size_bytes
        self._account.update(self.size_bytes)

    def forget(self, prefix: str) -> None:
        """Forget the routes of all topics under `prefix`, after a change of its subscriptions."""
        if self._tagged.size_bytes:
            self._forget_tagged(self._tagged.under(prefix))
        by_topic = self._by_topic
        raw = prefix.encode()
        first, last = by_topic.bisect_left(raw), by_topic.bisect_left(raw + _AFTER_UTF8)
        if first == last:
            return
        if last - first > len(by_topic) // 4:
            self.forget_all()
            return
        entries = by_topic[first:last]
        for entry in entries:
            del self.table[entry[-_KEY_HEADER_BYTES:] + entry[:-_KEY_HEADER_BYTES]]
        del by_topic[first:last]
        self.size_bytes -= 2 * sum(map(len, entries)) + self._charge_bytes * len(entries)

    def forget_rule(self, rule: Rule) -> None:
        if self._tagged.size_bytes:
            self._forget_tagged(self._tagged.matched(rule))

    def forget_name(self, name: str) -> None:
        """Forget the routes of all keys with `name`, after a change of its owner."""
        if self._tagged.size_bytes:
            self._forget_tagged(self._tagged.of_name(name))

    def _forget_tagged(self, keys: list[bytes]) -> None:
        tagged, table = self._tagged, self.table
        if len(keys) > _FORGOTTEN_SINGLY:
            for key in tagged:
                del table[key]
            self.size_bytes -= tagged.size_bytes
            tagged.clear()
            self.clears += 1
            return
        before = tagged.size_bytes
        for key in keys:
            del table[key]
            tagged.discard(key)
        self.size_bytes -= before - tagged.size_bytes

    def _put_away(self) -> None:
        """Forget all routes at once, and free them later: 65,536 routes take 70 ms."""
        if self.table:
            self._abandoned.append((self.table, self._interned))
            self.table, self._interned = {}, WeakValueDictionary()
            self.clears += 1
            if self._scheduler is not None:
                self._scheduler.add(Routes, self._letting_go(), at_once=False)
        self._forget_keys()

    def _letting_go(self) -> Iterator[None]:
        """Free routes that were forgotten together, in steps."""
        while self._abandoned:
            self._let_go(_LET_GO_PER_STEP)
            yield

    def _let_go(self, most: int) -> None:
        table, _ = self._abandoned[-1]
        for _ in range(min(len(table), most)):
            table.popitem()
        if not table:
            self._abandoned.pop()

    def _forget_keys(self) -> None:
        self._by_topic.clear()
        self._tagged.clear()
        self.size_bytes = 0
        self._account.update(0)
        self.has_owned = False

    def forget_all(self) -> None:
        """Forget all routes at once, however many; where they are many, memory is freed later."""
        if len(self.table) > _LET_GO_AT_ONCE:
            self._put_away()
        else:
            self._clear_table()

    def forget_ways(self) -> None:
        """Forget all routes and their ways in the mesh, so that the same handlers get another route."""
        self.forget_all()
        self._interned = WeakValueDictionary()

    def clear(self) -> None:
        """Forget all routes, and free their memory at once."""
        self._clear_table()
        self._abandoned.clear()

    def _clear_table(self) -> None:
        if self.table:
            self.clears += 1
            self.table.clear()
            self._forget_keys()


def _asks_for_store(one: Handler | RemoteHub, topic: str) -> bool:
    prefixes = one.prefixes
    return any(topic[:end] in prefixes for end in range(len(STORES), len(topic) + 1))


def changes_refused(topic: str) -> RejectedError:
    """Return the error for a client that publishes changes of a store."""
    text = f"topic {printable(topic)}: only a store publishes its changes there"
    return RejectedError(CloseCode.NOT_ALLOWED, text)


def _check_flags(key: bytes) -> None:
    kind, flags = key[0], key[1]
    if kind != KIND_MESSAGES or flags & ~_KNOWN_FLAGS & 0xFF:
        raise RejectedError(
            CloseCode.BAD_DATA,
            f"flags 0b{flags:08b} of MESSAGES: this version accepts BATCH, TAGGED, encodings 0 and 1",
        )


def _check_unreserved(topic: str) -> None:
    if topic.startswith(RESERVED):
        raise RejectedError(CloseCode.NOT_ALLOWED, f"topic {printable(topic)}: {RESERVED} is the hub's own")


def _checked_topic(key: bytes) -> str:
    _check_flags(key)
    try:
        topic = decode_topic(key[_KEY_HEADER_BYTES:])
    except InvalidTopicError as error:
        raise RejectedError(CloseCode.BAD_DATA, str(error)) from error
    _check_unreserved(topic)
    return topic
