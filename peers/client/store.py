"""`Store`: a store, wherever in the mesh its master is. Made by `Client.store`.

Each call is a request. Those of one turn of the loop leave as one frame, and are carried out as one batch: so
`asyncio.gather` of many puts is nearly as fast as `put_many`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hub.errors import HubError, NoResponderError
from peers.client.requests import TIMEOUT_S, Requests
from peers.client.stream import MessageStream
from peers.client.values import encode_value, value_of
from peers.stores.wire import changes_topic, read_topic, write_topic

if TYPE_CHECKING:
    from peers.client.replica import StoreReplica, StoreWatch

_SECOND_NS = 1_000_000_000

_MISSING: Any = object()
"""Default of an argument for which None is a value."""


class StoreEntry(NamedTuple):
    """One entry."""

    key: Any
    value: Any
    version: int
    """The number of its last change: for `put(..., if_version=version)`."""
    expires_s: float | None
    """In how many seconds it expires; None: never."""


class StoreState(NamedTuple):
    """The state of a store."""

    epoch: int
    """A store that has lost its entries begins another one, with a higher number."""
    number: int
    """Of its last change."""
    entries: int
    bytes: int
    """Of all entries in memory, about."""


def expiry_ns(expires_s: float | None) -> int | None:
    return None if expires_s is None else round(expires_s * _SECOND_NS)


class Store:
    """One store.

    All calls raise `RequestError` if the store does not exist (`NoResponderError`), may not be asked
    (`NotAllowedError`) or refuses (`RequestFailedError`: the text says why, and nothing was changed); after
    `ConnectionLostError`, `ResponderGoneError` or `RequestTimeoutError` it is unknown whether a command was carried
    out: a store that cannot write its file answers with the last one.
    """

    def __init__(
        self,
        name: str,
        requests: Requests,
        subscribe: Callable[[str], MessageStream],
        publish: Callable[[str, bytes], object],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.name = name
        self._requests = requests
        self._subscribe = subscribe
        self._publish = publish
        self._timeout_s = timeout_s
        self._read_topic, self._write_topic = read_topic(name), write_topic(name)
        self._changes_topic = changes_topic(name)
        self.written = 0
        """The highest number of a change that this object has made, for `StoreReplica.at_least`."""

    async def put(
        self, key: Any, value: Any, *, expires_s: float | None = None, if_version: int | None = None
    ) -> int | None:
        """Set the value of a key.

        Args:
            key: Any value.
            value: Any value.
            expires_s: How long the entry lives; None: until it is erased.
            if_version: The version that the entry must have; 0: there must be none.

        Returns:
            The new version; None if there was another version than `if_version`.
        """
        command = ["put", encode_value(key), encode_value(value), expiry_ns(expires_s), if_version]
        return self._noted(await self._write(command))

    def put_nowait(self, key: Any, value: Any, *, expires_s: float | None = None) -> None:
        """Set the value of a key, without an answer.

        Raises:
            BusyError, ClosedError, PeerError: As `Client.publish_nowait`.
        """
        command = ["put", encode_value(key), encode_value(value), expiry_ns(expires_s)]
        self._publish(self._write_topic, encode_value(command))

    async def put_many(
        self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *, expires_s: float | None = None
    ) -> list[int]:
        """Set the values of many keys, in frames of up to 1 MiB; return their versions, in order.

        The first error is raised; the others may have been carried out.
        """
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        expiry = expiry_ns(expires_s)
        commands = [["put", encode_value(key), encode_value(value), expiry] for key, value in pairs]
        answers = await self._requests.ask_many(self._write_topic, commands, self._timeout_s)
        for answer in answers:
            if isinstance(answer, NoResponderError):
                raise self._absent(answer) from answer
            if isinstance(answer, HubError):
                raise answer
        self.written = max(self.written, max(answers, default=0))
        return answers

    async def put_unique(self, key: Any, value: Any, *, expires_s: float | None = None) -> bool:
        """Set the value of a key that has no entry; return whether that was so."""
        command = ["put_unique", encode_value(key), encode_value(value), expiry_ns(expires_s)]
        return self._noted(await self._write(command)) is not None

    async def erase(self, key: Any, *, if_version: int | None = None) -> bool:
        """Erase an entry; return whether there was one (with this version, if one is given)."""
        command = ["erase", encode_value(key), None, None, if_version]
        return self._noted(await self._write(command)) is not None

    async def clear(self) -> None:
        """Erase all entries."""
        self._noted(await self._write(["clear"]))

    async def increment(self, key: Any, by: Any = 1, *, expires_s: float | None = None) -> Any:
        """Add to a number, or a timespan to a timestamp or timespan; a missing number is 0. Return the new value."""
        return await self._calculate("increment", key, by, expires_s)

    async def decrement(self, key: Any, by: Any = 1, *, expires_s: float | None = None) -> Any:
        """Subtract likewise; there must be an entry."""
        return await self._calculate("decrement", key, by, expires_s)

    async def append(self, key: Any, text: str, *, expires_s: float | None = None) -> Any:
        """Append text to a string; return the new value."""
        return await self._calculate("append", key, text, expires_s)

    async def insert(self, key: Any, member: Any, value: Any = _MISSING, *, expires_s: float | None = None) -> Any:
        """Insert a member into a set, or with a value an entry into a table; return the new set or table."""
        if value is _MISSING:
            return await self._calculate("insert", key, member, expires_s)
        return await self._calculate("insert_entry", key, [member, value], expires_s)

    async def remove(self, key: Any, member: Any, *, expires_s: float | None = None) -> Any:
        """Remove a member of a set, or the entry of a key of a table; return the new set or table."""
        return await self._calculate("remove", key, member, expires_s)

    async def push(self, key: Any, element: Any, *, expires_s: float | None = None) -> Any:
        """Append an element to a vector; return the new vector."""
        return await self._calculate("push", key, element, expires_s)

    async def pop(self, key: Any, *, expires_s: float | None = None) -> Any:
        """Remove the last element of a vector; return the new vector."""
        return await self._calculate("pop", key, None, expires_s)

    async def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, `default` if there is none."""
        found = await self._read(["get", encode_value(key)])
        return default if found is None else value_of(found[0])

    async def entry(self, key: Any) -> StoreEntry | None:
        """Return the entry of a key, with its version; None if there is none."""
        found = await self._read(["get", encode_value(key)])
        return None if found is None else _entry(key, *found)

    async def exists(self, key: Any) -> bool:
        """Return whether a key has an entry."""
        return bool(await self._read(["exists", encode_value(key)]))

    async def index(self, key: Any, index: Any, default: Any = None) -> Any:
        """Return a part of a value, `default` if there is no such part.

        It is an element of a vector by its place, the value of a table's key, and of a set whether it has a member.
        """
        found = await self._read(["index", encode_value(key), encode_value(index)])
        return default if found is None else value_of(found)

    async def keys(self, prefix: str = "") -> list[Any]:
        """Return all keys, or those that are strings and begin with a prefix."""
        return [value_of(key) async for key in self._rows(prefix, values=False)]

    async def entries(self, prefix: str = "") -> AsyncIterator[StoreEntry]:
        """Yield all entries, or those of keys that are strings and begin with a prefix, as they are by then."""
        async for key, value, version, left_ns in self._rows(prefix, values=True):
            yield _entry(value_of(key), value, version, left_ns)

    async def state(self) -> StoreState:
        """Return the state of the store."""
        return StoreState(*await self._read(["state"]))

    def watch(self, prefix: str = "") -> StoreWatch:
        """Watch all entries, or those of keys that are strings and begin with a prefix: what is there, then changes."""
        from peers.client.replica import StoreWatch  # noqa: PLC0415 -- loaded late

        return StoreWatch(self._read, self._subscribe(self._changes_topic), prefix)

    def replica(self) -> StoreReplica:
        """Copy the store into this process, to read it without asking."""
        from peers.client.replica import StoreReplica  # noqa: PLC0415 -- loaded late

        return StoreReplica(self._read, self._subscribe(self._changes_topic))

    async def _write(self, command: list[Any]) -> Any:
        return await self._ask(self._write_topic, command)

    async def _read(self, read: list[Any]) -> Any:
        return await self._ask(self._read_topic, read)

    async def _ask(self, topic: str, question: list[Any]) -> Any:
        try:
            return await self._requests.ask(topic, encode_value(question), self._timeout_s)
        except NoResponderError as error:
            raise self._absent(error) from error

    def _absent(self, error: NoResponderError) -> NoResponderError:
        text = f"no hub of the mesh has a store {self.name!r}; `hub run --store {self.name}=:memory:` has one"
        return NoResponderError(error.status, text)

    async def _calculate(self, kind: str, key: Any, operand: Any, expires_s: float | None) -> Any:
        number, value = await self._write([kind, encode_value(key), encode_value(operand), expiry_ns(expires_s)])
        self._noted(number)
        return value_of(value)

    async def _rows(self, prefix: str, *, values: bool) -> AsyncIterator[Any]:
        _, reading, _, _, rows = await self._read(["rows", prefix, values])
        for row in rows:
            yield row
        while reading:
            _, reading, _, _, rows = await self._read(["more", reading])
            for row in rows:
                yield row

    def _noted(self, number: int | None) -> int | None:
        if number is not None and number > self.written:
            self.written = number
        return number


def _entry(key: Any, value: bytes, version: int, left_ns: int | None) -> StoreEntry:
    return StoreEntry(key, value_of(value), version, None if left_ns is None else left_ns / _SECOND_NS)
