"""The options of `format("hub")`, from texts to values, and the errors of the connector.

An unknown option is an error, for a slip of the keyboard would otherwise read everything. The token is in no
representation and in no error. Spark shows the text of an error, so it has a remedy.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar

from hub.errors import HubError, InvalidTopicError, UsageError
from hub.topics import check_prefix, check_topic
from peers.client.token_source import read_token
from peers.journal.tier.place import check_address
from peers.transport.endpoints import Endpoint, InvalidEndpointError

P = ParamSpec("P")
R = TypeVar("R")


class OptionError(UsageError):
    """An option does not exist, or its value makes no sense."""


class ColumnError(UsageError):
    """A column cannot be read or written."""


class DataLostError(HubError):
    """Records that should be read are no longer in the journal."""


class JournalReplacedError(HubError):
    """The hub has another journal than the one of the known offsets."""


class WriteRefusedError(HubError):
    """Rows make no messages, or the hub does not take them: as they are they can never be written."""


def shortened(method: Callable[P, R]) -> Callable[P, R]:
    """Have a method raise our errors without cause and traceback, which Spark would show before the text."""

    @wraps(method)
    def shorter(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except HubError as error:
            raise error.with_traceback(None) from None

    return shorter


# A first run over a long journal so is many batches of a second or less.
MAX_OFFSETS_PER_TRIGGER = 500_000

NUM_RETRIES = 3
# Before the first retry; doubled for each further one: a hub has 3.5 s to come back.
RETRY_INTERVAL_MS = 500

# For one answer of the hub.
TIMEOUT_MS = 30_000

# Default of `minPartitions`: the number of cores within these.
_PARTITIONS = (2, 4)

Decode = Literal["raw", "json", "schema"]
Encode = Literal["raw", "json", "text"]


@dataclass(frozen=True)
class Access:
    """How to reach the hub."""

    url: str
    token: str = field(default="", repr=False)
    num_retries: int = NUM_RETRIES
    retry_interval_s: float = RETRY_INTERVAL_MS / 1000
    timeout_s: float = TIMEOUT_MS / 1000
    ca: str = ""
    certificate: str = ""
    key: str = ""
    token_file: str = ""
    """File with the token on each machine that runs a task, in place of the token; read for each connection."""
    hub: str = ""
    """Whose journal is read: name or id of a hub of the mesh; empty for the journal of the hub at `url`."""

    def client_options(self) -> dict[str, Any]:
        """Return the options of a client that does not reconnect."""
        token = partial(read_token, self.token_file) if self.token_file else self.token
        files = {name: getattr(self, name) for name in ("ca", "certificate", "key")}
        return {"token": token, "reconnect": False, **files}


class Position(NamedTuple):
    """A place in a journal."""

    kind: Literal["earliest", "latest", "offset", "time"]
    number: int = 0
    """An offset, or ms since 1970 UTC."""


EARLIEST = Position("earliest")
LATEST = Position("latest")


@dataclass(frozen=True)
class SourceOptions:
    """How a journal is read."""

    access: Access
    topics: tuple[str, ...]
    starting: Position | None
    """None for the default: earliest of a batch, latest of a stream."""
    ending: Position
    max_offsets: int
    partitions: int
    fail_on_data_loss: bool
    decode: Decode
    tier: str = ""


@dataclass(frozen=True)
class SinkOptions:
    """How messages are written."""

    access: Access
    topic: str | None
    """Of all messages; None for the column."""
    encode: Encode | None
    """None for the one of the type of the column `value`."""
    application: str
    """Its batches are recognised by `version`; empty for none."""
    version: int


class _Option(NamedTuple):
    convert: Callable[[str], Any] = str
    """Returns the value of a text; raises `ValueError`, or an error with a text that says more."""
    expected: str = ""


def _at_least(least: int) -> _Option:
    def convert(text: str) -> int:
        number = int(text)
        if not least <= number < 2**63:
            raise ValueError
        return number

    return _Option(convert, f"not a whole number from {least} on")


def _choice(*choices: str) -> _Option:
    values = {choice: choice for choice in choices}
    return _Option(lambda text: _one_of(values, text), f"none of {', '.join(choices)}")


def _one_of(values: Mapping[str, Any], text: str) -> Any:
    if text.lower() not in values:
        raise ValueError
    return values[text.lower()]


def _position(*words: str) -> _Option:
    def convert(text: str) -> Position:
        if text.lower() in words:
            return LATEST if text.lower() == "latest" else EARLIEST
        if text.startswith("{"):  # as checkpoints and progress have it: {"offset": 3}
            offset = json.loads(text).get("offset")
            if type(offset) is not int:
                raise ValueError
            text = str(offset)
        return Position("offset", _at_least(0).convert(text))

    return _Option(convert, f"not {', '.join(words)} or an offset")


def _checked_url(text: str) -> str:
    Endpoint.parse_remote(text)
    return text


def _tier(text: str) -> str:
    try:
        check_address(text)
    except UsageError as error:
        raise OptionError(f"option tier: {error}") from None
    return text


def _name(text: str) -> str:
    if not 0 < len(text.encode()) <= 255:
        raise ValueError
    return text


_ACCESS = {
    "url": _Option(_checked_url, "not the URL of a hub"),
    "token": _Option(),
    "tokenFile": _Option(),
    "ca": _Option(),
    "certificate": _Option(),
    "key": _Option(),
    "numRetries": _at_least(0),
    "retryIntervalMs": _at_least(0),
    "timeoutMs": _at_least(1),
}
_SOURCE = _ACCESS | {
    "hub": _Option(),
    "topics": _Option(
        lambda text: tuple(check_prefix(prefix.strip()) for prefix in text.split(",")),
        "not a comma list of topic prefixes such as /zeek/,/app/",
    ),
    "startingOffsets": _position("earliest", "latest"),
    "endingOffsets": _position("latest"),
    "startingTimestamp": _at_least(0),
    "endingTimestamp": _at_least(0),
    "maxOffsetsPerTrigger": _at_least(1),
    "minPartitions": _at_least(1),
    "failOnDataLoss": _Option(lambda text: _one_of({"true": True, "false": False}, text), "not true or false"),
    "decode": _choice("raw", "json", "schema"),
    "tier": _Option(_tier),
}
_SINK = _ACCESS | {
    "topic": _Option(check_topic, "not a topic"),
    "encode": _choice("raw", "json", "text"),
    "txnAppId": _Option(_name, "not a name of 1 to 255 bytes"),
    "txnVersion": _at_least(0),
}
# Spark hands these on although they are its own.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def _read(options: Mapping[str, str], known: Mapping[str, _Option]) -> dict[str, Any]:
    names = {name.lower(): name for name in known}
    given: dict[str, Any] = {}
    for key, text in options.items():
        if key.lower() in _OF_SPARK:
            continue
        if key.lower() not in names:
            raise OptionError(_unknown(key.lower(), known))
        name = names[key.lower()]
        convert, expected = known[name]
        try:
            given[name] = text if convert is str else convert(text.strip())
        except (ValueError, InvalidTopicError, InvalidEndpointError) as error:
            reason = "" if type(error) is ValueError else f" ({error})"
            raise OptionError(f"option {name}: {text!r} is {expected}{reason}") from None
    if "url" not in given:
        raise OptionError('option url is missing, such as .option("url", "tcp://127.0.0.1:7400")')
    pairs = ("startingOffsets", "startingTimestamp"), ("endingOffsets", "endingTimestamp"), ("token", "tokenFile")
    for one, other in pairs:
        if one in given and other in given:
            raise OptionError(f"{one} and {other} exclude each other")
    return given


def _access(given: Mapping[str, Any]) -> Access:
    return Access(
        given["url"],
        given.get("token", ""),
        given.get("numRetries", NUM_RETRIES),
        given.get("retryIntervalMs", RETRY_INTERVAL_MS) / 1000,
        given.get("timeoutMs", TIMEOUT_MS) / 1000,
        given.get("ca", ""),
        given.get("certificate", ""),
        given.get("key", ""),
        given.get("tokenFile", ""),
        given.get("hub", ""),
    )


def _place(given: Mapping[str, Any], way: str) -> Position | None:
    timestamp = given.get(f"{way}Timestamp")
    return given.get(f"{way}Offsets") if timestamp is None else Position("time", timestamp)


def read_source_options(options: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    given = _read(options, _SOURCE)
    if streaming and ("endingOffsets" in given or "endingTimestamp" in given):
        raise OptionError("a stream has no end: endingOffsets and endingTimestamp are for batch queries")
    least, most = _PARTITIONS
    return SourceOptions(
        access=_access(given),
        topics=given.get("topics", ("",)),
        starting=_place(given, "starting"),
        ending=_place(given, "ending") or LATEST,
        max_offsets=given.get("maxOffsetsPerTrigger", MAX_OFFSETS_PER_TRIGGER),
        partitions=given.get("minPartitions", max(least, min(most, os.cpu_count() or 1))),
        fail_on_data_loss=given.get("failOnDataLoss", True),
        decode=given.get("decode", "raw"),
        tier=given.get("tier", ""),
    )


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    given = _read(options, _SINK)
    if ("txnAppId" in given) != ("txnVersion" in given):
        raise OptionError("txnAppId and txnVersion go together: the writer, and the number of its batch")
    return SinkOptions(
        access=_access(given),
        topic=given.get("topic"),
        encode=given.get("encode"),
        application=given.get("txnAppId", ""),
        version=given.get("txnVersion", 0),
    )


def _unknown(key: str, known: Iterable[str]) -> str:
    if key == "path":
        return "option path: the hub is named by option url, and load(), save() and start() take no path"
    for names, place in ((_SOURCE, "reading"), (_SINK, "writing")):
        for name in names:
            if key == name.lower():
                return f"option {name} is for {place}, it has no meaning here"
    names_of = {name.lower(): name for name in known}
    near = difflib.get_close_matches(key, names_of, n=1)
    hint = f"did you mean {names_of[near[0]]}?" if near else f"there are {', '.join(known)}"
    return f"there is no option {key}: {hint}"
