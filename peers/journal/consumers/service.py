"""`Consumers`: the named consumers of a hub, and the services under `$hub/consumers/`.

`join`, `take`, `acknowledge`, `nak`, `in_progress`, `leave`, `remove` and `commit` take the structs below;
docs/consumers.md lists their answers. With users, each has consumers of its own, as `alice/orders`, and needs the
permission `journal`, also while a client waits. Positions are saved after the acknowledgement: a message may be
redelivered, and is never skipped.
"""

from __future__ import annotations

import heapq
import re
import secrets
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec
import structlog

from hub.consumers.consumer import NAME_PATTERN, Consumer, ConsumerCounters, ConsumerLimits, Member, Progress, Terms
from hub.core import Core
from hub.errors import HubError, NotAllowedError, RejectedError, UsageError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import QueueLimits
from hub.messages.batch import Batch
from hub.messages.frame import KIND_MESSAGES, encode_frame
from hub.messages.request_frame import Status
from hub.requests.hub_services import Later
from hub.settings.settings import JournalSettings
from hub.statistics.events import Event
from hub.topics import RESERVED, check_prefix, check_topic, store_that_tells
from peers.journal.consumers.positions import Kept, Positions
from peers.journal.consumers.remote_consumers import CONSUMERS_TOPIC, ForHubs, RemoteClient
from peers.journal.consumers.served import LocalClient, Participant, Served, records_of
from peers.journal.recorder import Answer
from peers.wire.records import Fetch

if TYPE_CHECKING:
    from peers.journal.journal import Journal

_WAIT_LIMIT_MS = 60_000
_Name = Annotated[str, msgspec.Meta(max_length=256)]
_Offset = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Offsets = Annotated[tuple[_Offset, ...], msgspec.Meta(max_length=100_000)]
_Number = Annotated[int, msgspec.Meta(ge=1)]
_Asked = TypeVar("_Asked", bound=msgspec.Struct)


class Join(msgspec.Struct, forbid_unknown_fields=True):
    """Share a consumer."""

    name: _Name
    terms: dict[str, Any] | None = None
    """Some of `Terms`, with the prefixes; the others keep their values, or get the defaults for a new consumer.
    Prefixes and key of an existing consumer must be the same. None takes it as it is."""
    start: _Offset | None = None  # offset where a new consumer begins; None: at the end
    time_us: _Offset | None = None  # instead of `start`, µs since 1970: the first record that is not older
    messages: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 256
    bytes: Annotated[int, msgspec.Meta(ge=1, le=1 << 40)] = 4 * 1024 * 1024  # a single message is never too much
    instead: int = 0  # a membership of this connection that ends with this one; none of its messages has failed


class Take(msgspec.Struct, forbid_unknown_fields=True):
    """Ask for messages."""

    member: _Number
    bytes: Annotated[int, msgspec.Meta(ge=1)] = 256 * 1024
    wait_ms: Annotated[int, msgspec.Meta(ge=0, le=_WAIT_LIMIT_MS)] = 0
    values: bool = False  # whether messages carry values in place of encoding and body, for clients that only read JSON
    got: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Messages received since joining. If the last answer was lost in a full queue, it is repeated: otherwise later
    messages would come first. None: unknown."""


class Offsets(msgspec.Struct, forbid_unknown_fields=True):
    """Acknowledge messages, or ask for more time for them."""

    member: _Number
    offsets: _Offsets


class Nak(msgspec.Struct, forbid_unknown_fields=True):
    """Reject messages for now."""

    member: _Number
    offsets: _Offsets
    delay_s: Annotated[float, msgspec.Meta(ge=0.0, le=86_400.0)] = 0.0  # their keys are not delivered for so long, s


class Leave(msgspec.Struct, forbid_unknown_fields=True):
    """Leave a consumer."""

    member: _Number
    seen: _Offsets = ()  # messages that were looked at and not acknowledged; no other has failed


class Commit(msgspec.Struct, forbid_unknown_fields=True):
    """Position of a query that reads the journal by itself."""

    name: _Name
    prefixes: tuple[str, ...]
    position: _Offset  # everything before this offset is processed


class Remove(msgspec.Struct, forbid_unknown_fields=True):
    """Remove a consumer."""

    name: _Name


def read(value: Any, kind: type[_Asked]) -> _Asked:
    """Convert the map of a client to a struct; raises `UsageError`."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"expected a map like {', '.join(kind.__struct_fields__)}: {error}") from error


MEMBERS_LIMIT = 1_000  # of one consumer
_TAKEN_BYTES = 1024 * 1024  # most bytes of one answer to `take`; a single message is never too much
_CUT_SHOWN = 16  # consumers named in the log when positions were cut back
ConsumerClient: TypeAlias = LocalClient | RemoteClient

Function = Callable[[ConsumerClient, Any], Any]


_CLIENTS_SHOWN = 16  # clients shown of one consumer, those with most messages first: it may have a thousand


class Sharing(NamedTuple):
    """A client of a consumer."""

    id: int  # the connection's id for `$hub/kick` of its hub
    hub: str  # id of another hub; empty for this one
    out: int  # messages that it has not acknowledged


class ConsumerStatistics(NamedTuple):
    """One consumer at one moment; a query only has the first fields and the last."""

    name: str
    prefixes: tuple[str, ...]
    position: int  # everything wanted before this offset is processed
    lag: int  # committed records, wanted or not, behind its position
    members: int = 0
    held: int = 0  # messages read and not acknowledged
    out: int = 0  # those of them that members have
    held_bytes: int = 0
    counters: ConsumerCounters = ConsumerCounters()
    error: str = ""  # why nothing can be read; empty if it can
    clients: tuple[Sharing, ...] = ()
    committed_s: float | None = None  # since a query has committed its position; None for a consumer with members


class ConsumersStatistics(NamedTuple):
    """All consumers at one moment."""

    each: list[ConsumerStatistics]
    limit: int
    save_failures_total: int
    forgotten_total: int
    for_hubs: ForHubs


FORGOTTEN_S: Final = 30 * 86_400  # else unused names of queries would count for `journal.consumers`


class Consumers:
    """All named consumers of one hub."""

    def __init__(
        self, core: Core, journal: Journal, settings: JournalSettings, positions: Positions, frame_limit_bytes: int
    ) -> None:
        self.core = core
        self.journal = journal
        self._limit = settings.consumers
        self._user_limit = settings.user_consumers
        self._limits = ConsumerLimits(settings.consumer_messages, settings.consumer_bytes)
        self._positions = positions
        self.frame_limit_bytes = frame_limit_bytes
        self._account = core.memory.account("consumers")
        # Numbers of members begin anywhere, so that one of before a restart is of no member.
        self._numbers = count(1 + secrets.randbelow(1 << 40))
        # Client → number of a membership → the member. An entry goes when the last one of a client does.
        self._memberships: dict[ConsumerClient, dict[int, Participant]] = {}
        # Publishes dead letters; attached with the first of them, so that a hub without any has no such handler.
        self._publisher = Handler(self, role=Role.LOCAL, limits=QueueLimits(), name="consumers", address="local")
        self._served: dict[str, Served] = {}
        # Consumers that read the journal by themselves, as Spark's queries do, and only commit positions.
        self._queries: dict[str, Kept] = {}
        self._forgotten = 0
        self.cuts_total = 0  # consumers that were ahead of the journal at the start, and cut back
        self._restore()
        services = core.requests.hub_services
        services.when_gone(lambda handler: self._gone(LocalClient(handler)))
        services.add(CONSUMERS_TOPIC, lambda _handler, _value: self._listed())
        functions = self._functions()
        for what, function in functions.items():

            def answer(handler: Handler, value: Any, function: Function = function) -> Any:
                return function(LocalClient(handler), value)

            services.add(f"{CONSUMERS_TOPIC}/{what}", answer, judges_itself=True)
        self.for_hubs = ForHubs(core, functions | {"": lambda _client, _value: self._listed()}, self._gone)

    def _restore(self) -> None:
        """Restore the saved consumers, cut back to the end of the journal: a power loss may have taken records."""
        cut: list[str] = []
        head = self.journal.recorder.committed
        for name, kept in self._positions.kept.items():
            end = self.journal.end_of(kept.epoch)
            progress = kept.progress.before(head if end is None else min(head, end))
            if kept.heard_s is not None:
                self._queries[name] = msgspec.structs.replace(kept, progress=progress)
            else:
                self._served[name] = Served(name, Consumer(kept.terms, progress, self._limits), self)
            if progress != kept.progress:
                cut.append(name)
                self._positions.put(name, partial(msgspec.structs.replace, kept, progress=progress))
        self.cuts_total = len(cut)
        if cut:
            structlog.get_logger("peers").warning(
                "consumers were ahead of the journal, whose end is lost: they continue at its end",
                end=head,
                consumers=cut[:_CUT_SHOWN],
                count=len(cut),
            )

    # As the outlet of the handler that publishes: it subscribes to nothing.
    def send(self, batches: list[Batch]) -> None: ...
    def send_gap(self, lost_messages: int) -> None: ...
    def close(self, code: int, text: str) -> None: ...

    def _functions(self) -> dict[str, Function]:
        def answering(kind: type[_Asked], answer: Callable[[ConsumerClient, _Asked], Any]) -> Function:
            return lambda client, value: answer(client, read(value, kind))

        def of_member(kind: type[_Asked], act: Callable[[Participant, Any], Any], gone: Any = None) -> Function:
            def answer(client: ConsumerClient, order: Any) -> Any:
                one = self._found(client, order.member)
                return gone if one is None else act(one, order)

            return answering(kind, answer)

        return {
            "join": answering(Join, self._join),
            "take": of_member(Take, _take),
            "acknowledge": of_member(Offsets, lambda one, order: one.served.acknowledge(one, order.offsets)),
            "nak": of_member(Nak, lambda one, order: one.served.nak(one, order.offsets, order.delay_s), gone=[]),
            "in_progress": of_member(Offsets, lambda one, order: one.served.in_progress(one, order.offsets)),
            "leave": answering(Leave, lambda client, order: self._leave(client, order.member, order.seen)),
            "remove": answering(Remove, self._remove),
            "commit": answering(Commit, self._commit),
        }

    def _join(self, client: ConsumerClient, join: Join) -> Any:
        name = _full_name(client, join.name)
        served = self._joined(name, join)
        terms = _agreed(None if served is None else served.consumer.terms, join.terms or {})
        _check(client, terms)
        if served is None and join.time_us is not None:
            return self._join_from(client, join)
        later = None
        if served is None:
            served, later = self._new(name, terms, join.start), Later()  # answered once it is on the disk
        elif terms != served.consumer.terms:
            self._agree(served, join.name, terms)
        if join.instead:
            self._leave(client, join.instead, ())
        if len(served.participants) >= MEMBERS_LIMIT:
            raise UsageError(f"consumer {join.name!r} has {MEMBERS_LIMIT} members, which is the limit")
        participant = Participant(next(self._numbers), client, Member(join.messages, join.bytes), served)
        served.join(participant)
        self._memberships.setdefault(client, {})[participant.number] = participant
        joined = {"member": participant.number, "position": served.consumer.position}
        if later is None:
            return joined

        def saved(error: RejectedError | None) -> None:
            if error is not None:
                later.fail(error)
            else:
                later.give(joined)

        self._positions.put(name, partial(_kept, served), saved)
        return later

    def _joined(self, name: str, join: Join) -> Served | None:
        if name in self._queries:
            raise UsageError(
                f"consumer {join.name!r} is a query, which cannot be shared; choose another name, or remove it"
            )
        served = self._served.get(name)
        if served is None and join.terms is None:
            raise UsageError(f"there is no consumer {join.name!r}; say which prefixes it is to have")
        return served

    def _agree(self, served: Served, name: str, terms: Terms) -> None:
        before = served.consumer.terms
        if (terms.prefixes, terms.key) != (before.prefixes, before.key):
            has = f"with the prefixes {list(before.prefixes)} and the key {before.key!r}"
            raise UsageError(f"consumer {name!r} is there, {has}; remove it first, or take another name")
        served.consumer.agree(terms)
        self.changed(served)

    def _join_from(self, client: ConsumerClient, join: Join) -> Later:
        later = Later()

        def found(outcome: bytes | bytearray | RejectedError) -> None:
            try:
                start = records_of(outcome).start
                if client.is_gone:
                    raise UsageError("the client is gone")
                joined = self._join(client, msgspec.structs.replace(join, start=start, time_us=None))
            except (HubError, ValueError) as error:
                later.fail(error if isinstance(error, HubError) else UsageError(str(error)))
                return
            if isinstance(joined, Later):
                joined.then(lambda: later.fail(joined.error) if joined.error else later.give(joined.value))
            else:
                later.give(joined)

        self.journal.fetch(Fetch(1, time=join.time_us, bytes=0), found)
        return later

    def _new(self, name: str, terms: Terms, start: int | None) -> Served:
        self._check_room(name)
        if start is None:
            start = self.journal.recorder.position()
            if start is None:
                raise UsageError("nothing is recorded now, so a new consumer has no place to begin; try again")
        served = self._served[name] = Served(name, Consumer(terms, Progress(start), self._limits), self)
        served.kept_changes = served.consumer.changes
        self.announce(name, {"state": "made", "prefixes": list(terms.prefixes), "position": start})
        return served

    def _check_room(self, name: str) -> None:
        there = len(self._served) + len(self._queries)
        if there >= self._limit:
            raise UsageError(f"there are {there} consumers, the limit is {self._limit} (journal.consumers)")
        owner, _, _ = name.rpartition("/")
        if not owner or there < self._user_limit:  # there are no users, or none can have so many
            return
        of_user = sum(other.startswith(f"{owner}/") for other in (*self._served, *self._queries))
        if of_user >= self._user_limit:
            limit = f"the limit is {self._user_limit} (journal.user_consumers)"
            raise UsageError(f"there are {of_user} consumers of user {owner!r}, {limit}")

    def _leave(self, client: ConsumerClient, member: int, seen: tuple[int, ...]) -> None:
        if (one := self._found(client, member)) is not None:
            one.served.leave(one, seen)
            self._found(client, member)

    def _found(self, client: ConsumerClient, number: int) -> Participant | None:
        """Return a member by its number; forget one that has left."""
        of_client = self._memberships.get(client, {})
        one = of_client.get(number)
        if one is not None and one.number not in one.served.participants:
            del of_client[number]
            if not of_client:
                del self._memberships[client]
            return None
        return one

    def _gone(self, client: ConsumerClient) -> None:
        for one in self._memberships.pop(client, {}).values():
            one.served.leave(one)

    def _remove(self, client: ConsumerClient, remove: Remove) -> bool:
        known = remove.name in self._served or remove.name in self._queries
        name = remove.name if client.is_admin and known else _full_name(client, remove.name)
        if name in self._queries:
            self._forget_query(name, "removed")
            return True
        served = self._served.pop(name, None)
        if served is None:
            return False
        served.stop(UsageError(f"consumer {name} was removed"))
        self._positions.put(name, None)
        self._charge(served, 0)
        self.announce(name, {"state": "removed", "position": served.consumer.position})
        return True

    def _forget_query(self, name: str, state: str) -> None:
        query = self._queries.pop(name)
        self._positions.put(name, None)
        self.announce(name, {"state": state, "position": query.progress.position})

    def _commit(self, client: ConsumerClient, commit: Commit) -> None:
        name = _full_name(client, commit.name)
        terms = _agreed(None, {"prefixes": commit.prefixes})
        _check(client, terms)
        if name in self._served:
            raise UsageError(f"consumer {commit.name!r} is shared by clients; a query needs another name")
        end = max(self.journal.recorder.committed, self.journal.recorder.position() or 0)
        if commit.position > end:
            raise UsageError(f"position {commit.position} is behind the end of the journal, which is {end}")
        if name not in self._queries:
            self._check_room(name)
        before = self._queries.get(name)
        now = self._queries[name] = Kept(terms, Progress(commit.position), time.time())
        if before is None:
            self.announce(name, {"state": "made", "prefixes": list(terms.prefixes), "position": commit.position})
        elif (before.terms, before.progress) == (now.terms, now.progress):
            return
        elif commit.position < before.progress.position:  # it has restarted from an older checkpoint
            self.announce(name, {"state": "back", "from": before.progress.position, "to": commit.position})
        self._positions.put(name, partial(self._queries.__getitem__, name))

    def publish(self, topic: str, value: bytes, answer: Answer) -> None:
        core = self.core
        if not self._publisher.id:
            core.attach(self._publisher)
        route = core.routes.find(topic)
        core.write_is_due = True
        try:
            batch = Batch(encode_frame(KIND_MESSAGES, value, key=topic.encode()), 1)
            self.journal.confirm(route, batch, partial(core.publish, self._publisher, route), answer)
        finally:
            core.end_read()

    def announce(self, name: str, fields: dict[str, Any]) -> None:
        self.core.system_events.announce(Event(CONSUMERS_TOPIC, {"consumer": name, **fields}))

    def changed(self, served: Served) -> None:
        self._charge(served, served.consumer.size_bytes)
        if served.kept_changes != served.consumer.changes and self._served.get(served.name) is served:
            self._positions.put(served.name, partial(_kept, served))
            served.kept_changes = served.consumer.changes

    def _charge(self, served: Served, size_bytes: int) -> None:
        self._account.charge(size_bytes - served.charged_bytes)
        served.charged_bytes = size_bytes

    def tick(self) -> None:
        self._positions.retry()
        self.for_hubs.tick()
        for served in self._served.values():
            served.tick()
        oldest_s = time.time() - FORGOTTEN_S
        for name in [name for name, query in self._queries.items() if (query.heard_s or 0.0) < oldest_s]:
            self._forget_query(name, "forgotten")
            self._forgotten += 1

    def statistics(self) -> ConsumersStatistics:
        each = [self._described(name, served) for name, served in self._served.items()]
        now_s = time.time()
        for name, query in self._queries.items():
            position, idle_s = query.progress.position, round(max(0.0, now_s - (query.heard_s or 0.0)), 3)
            lag = max(0, self.journal.recorder.committed - position)
            each.append(ConsumerStatistics(name, query.terms.prefixes, position, lag, committed_s=idle_s))
        each.sort(key=lambda one: one.name)
        failures = self._positions.failures_total
        return ConsumersStatistics(each, self._limit, failures, self._forgotten, self.for_hubs)

    def _described(self, name: str, served: Served) -> ConsumerStatistics:
        consumer = served.consumer
        most = heapq.nlargest(_CLIENTS_SHOWN, served.participants.values(), key=lambda one: len(one.member.out))
        return ConsumerStatistics(
            name,
            consumer.terms.prefixes,
            consumer.position,
            max(0, self.journal.recorder.committed - consumer.position),
            len(served.participants),
            consumer.held_messages,
            consumer.out_messages,
            consumer.size_bytes,
            consumer.counters(),
            served.error,
            tuple(Sharing(one.client.id, one.client.hub, len(one.member.out)) for one in most),
        )

    def _listed(self) -> list[dict[str, Any]]:
        rows = []
        for one in self.statistics().each:
            row = one._asdict()
            clients = [client._asdict() for client in one.clients]
            rows.append({**row, "prefixes": list(one.prefixes), "counters": one.counters._asdict(), "clients": clients})
        return rows

    async def stop(self) -> None:
        for served in self._served.values():
            served.stop()
            self.changed(served)
        for name in self._queries:  # with the time of its last commit, which nothing else saves for an idle one
            self._positions.put(name, partial(self._queries.__getitem__, name))
        await self._positions.stop()


def _take(one: Participant, take: Take) -> Later:
    # Half of a frame leaves room for the fields beside the bodies.
    most = min(take.bytes, _TAKEN_BYTES, one.client.frame_limit_bytes // 2)
    one.takes_values = take.values
    if take.got is not None:
        one.served.repeat(one, take.got)
    return one.served.take(one, most, take.wait_ms / 1000)


def _kept(served: Served) -> Kept:
    return Kept(served.consumer.terms, served.consumer.progress())


def _agreed(before: Terms | None, wished: dict[str, Any]) -> Terms:
    try:
        return msgspec.convert(({} if before is None else msgspec.to_builtins(before)) | wished, Terms)
    except (msgspec.ValidationError, ValueError) as error:
        raise UsageError(f"terms: expected a map like {', '.join(Terms.__struct_fields__)}: {error}") from error


def _full_name(client: ConsumerClient, name: str) -> str:
    """Return the full name of a client's consumer, as `alice/orders`: user names have no slash."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise UsageError("a consumer's name has 1 to 128 letters, digits, and of _ . : - all but the first")
    return f"{client.owner}/{name}" if client.owner else name


def _check(client: ConsumerClient, terms: Terms) -> None:
    for prefix in terms.prefixes:
        check_prefix(prefix)
    letters = terms.dead_letters
    if letters and (check_topic(letters).startswith(RESERVED) or store_that_tells(letters) is not None):
        raise UsageError(f"dead letters: topics under {RESERVED}, and the changes of stores, are the hub's own")
    if any(terms.dead_letters.startswith(prefix) for prefix in terms.prefixes if terms.dead_letters):
        raise UsageError("dead letters: the consumer would receive them; choose a topic outside its prefixes")
    try:
        client.check_reads(terms.prefixes)
        if terms.dead_letters:
            client.check_publishes(terms.dead_letters)
    except RejectedError as error:
        raise NotAllowedError(Status.NOT_ALLOWED, error.text) from error
