"""The options of `format("hub")`, from texts to values, and the errors of the connector.

An unknown option is an error, for a slip of the keyboard would otherwise read everything. The token is in no
representation and in no error. Spark shows the text of an error, so it says what to do.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Literal, NamedTuple, ParamSpec, TypeVar

from hub.consumers.consumer import NAME_PATTERN
from hub.errors import HubError, InvalidTopicError, UsageError
from hub.topics import check_prefix, check_topic
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
    """The hub has another journal than the one whose offsets are known."""


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

_DECODE: tuple[Decode, ...] = ("raw", "json", "schema")
_ENCODE: tuple[Encode, ...] = ("raw", "json", "text")

T = TypeVar("T")


@dataclass(frozen=True)
class Access:
    """How to reach the hub."""

    url: str
    token: str = field(default="", repr=False)
    num_retries: int = NUM_RETRIES
    retry_interval_s: float = RETRY_INTERVAL_MS / 1000
    timeout_s: float = TIMEOUT_MS / 1000
    ca: str = ""
    """PEM file of authorities on each machine that runs a task; the system's if it is empty."""
    certificate: str = ""
    """PEM file, for a hub that asks for one."""
    key: str = ""
    """PEM file of the key of that certificate."""
    token_file: str = ""
    """File with the token on each machine that runs a task, in place of the token; read for each connection."""
    hub: str = ""
    """Whose journal is read: name or id of a hub of the mesh; empty for the journal of the hub at `url`."""


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
    """Prefixes."""
    starting: Position | None
    """None for the default: earliest of a batch, latest of a stream."""
    ending: Position
    max_offsets: int
    partitions: int
    fail_on_data_loss: bool
    decode: Decode
    tier: str = ""
    """Where sealed records are read; empty for the hub alone."""
    consumer: str = ""
    """Name under which the progress of a stream is reported to the hub."""


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


_ACCESS = ("url", "token", "tokenFile", "ca", "certificate", "key", "numRetries", "retryIntervalMs", "timeoutMs")
_SOURCE = (
    *_ACCESS,
    "hub",
    "topics",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "decode",
    "tier",
    "consumer",
)
_SINK = (*_ACCESS, "topic", "encode", "txnAppId", "txnVersion")
# Spark hands these on although they are its own.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


class _Given:
    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {key.lower(): value for key, value in options.items()}
        names = {name.lower(): name for name in known}
        for key in self._values:
            if key not in names and key not in _OF_SPARK:
                raise OptionError(_unknown(key, known))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def value(self, name: str, convert: Callable[[str], T], default: T, expected: str) -> T:
        """Return the value of an option, or its default."""
        text = self._values.get(name.lower())
        if text is None:
            return default
        try:
            return convert(text.strip())
        except (ValueError, InvalidTopicError, InvalidEndpointError) as error:
            said = "" if type(error) is ValueError else f" ({error})"
            raise OptionError(f"option {name}: {text!r} is not {expected}{said}") from None

    def number(self, name: str, default: int, least: int) -> int:
        return self.value(name, _at_least(least), default, f"a whole number from {least} on")

    def truth(self, name: str, default: bool) -> bool:  # noqa: FBT001 -- it is the value
        return self.value(name, _truth, default, "true or false")

    def choice(self, name: str, choices: tuple[T, ...]) -> T | None:
        """Return one of some words in any case, None without the option."""
        if name not in self:
            return None
        text = self._values[name.lower()].strip().lower()
        for choice in choices:
            if choice == text:
                return choice
        raise OptionError(f"option {name}: {text!r} is none of {', '.join(map(str, choices))}")

    def access(self) -> Access:
        if "url" not in self:
            raise OptionError('option url is missing, such as .option("url", "tcp://127.0.0.1:7400")')
        if "token" in self and "tokenFile" in self:
            raise OptionError("token and tokenFile exclude each other")
        return Access(
            self.value("url", _checked_url, "", "the URL of a hub"),
            self._values.get("token", ""),
            self.number("numRetries", NUM_RETRIES, 0),
            self.number("retryIntervalMs", RETRY_INTERVAL_MS, 0) / 1000,
            self.number("timeoutMs", TIMEOUT_MS, 1) / 1000,
            self._values.get("ca", ""),
            self._values.get("certificate", ""),
            self._values.get("key", ""),
            self._values.get("tokenfile", ""),
            self._values.get("hub", ""),
        )


def read_source_options(options: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
    """Read the options of a source."""
    given = _Given(options, _SOURCE)
    if streaming and ("endingOffsets" in given or "endingTimestamp" in given):
        raise OptionError("a stream has no end: endingOffsets and endingTimestamp are for batch queries")
    if "consumer" in given and streaming is False:
        raise OptionError("option consumer is for streams (readStream): a batch query keeps no place")
    if "consumer" in given and "hub" in given:
        raise OptionError("consumer and hub exclude each other: url must be that of the hub whose journal is read")
    return SourceOptions(
        access=given.access(),
        topics=given.value("topics", _prefixes, ("",), "a comma list of topic prefixes such as /zeek/,/app/"),
        starting=_position(given, "starting", ("earliest", "latest")),
        ending=_position(given, "ending", ("latest",)) or LATEST,
        max_offsets=given.number("maxOffsetsPerTrigger", MAX_OFFSETS_PER_TRIGGER, 1),
        partitions=given.number("minPartitions", _default_partitions(), 1),
        fail_on_data_loss=given.truth("failOnDataLoss", default=True),
        decode=given.choice("decode", _DECODE) or "raw",
        tier=given.value("tier", _tier, "", "a folder or s3://bucket/prefix"),
        consumer=given.value("consumer", _consumer, "", "1 to 128 letters, digits, and of _ . : - all but the first"),
    )


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Read the options of a sink."""
    given = _Given(options, _SINK)
    if ("txnAppId" in given) != ("txnVersion" in given):
        raise OptionError("txnAppId and txnVersion go together: who writes, and which of its batches this is")
    return SinkOptions(
        access=given.access(),
        topic=given.value("topic", check_topic, None, "a topic"),
        encode=given.choice("encode", _ENCODE),
        application=given.value("txnAppId", _name, "", "a name of 1 to 255 bytes"),
        version=given.number("txnVersion", 0, 0),
    )


def _unknown(key: str, known: tuple[str, ...]) -> str:
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


def _position(given: _Given, which: str, words: tuple[str, ...]) -> Position | None:
    """Return where to start or to end, None without an option."""
    offsets, timestamp = f"{which}Offsets", f"{which}Timestamp"
    if offsets in given and timestamp in given:
        raise OptionError(f"{offsets} and {timestamp} exclude each other")
    if timestamp in given:
        return Position("time", given.number(timestamp, 0, 0))

    def convert(text: str) -> Position:
        if text.lower() in words:
            return LATEST if text.lower() == "latest" else EARLIEST
        return Position("offset", _at_least(0)(_offset_of(text) if text.startswith("{") else text))

    return given.value(offsets, convert, None, f"{', '.join(words)} or an offset")


def _offset_of(text: str) -> str:
    """Return the offset in JSON as checkpoints and progress have it: `{"offset": 3}`."""
    told = json.loads(text)
    if type(told.get("offset")) is not int:
        raise ValueError
    return str(told["offset"])


def _checked_url(text: str) -> str:
    Endpoint.parse_remote(text)
    return text


def _tier(text: str) -> str:
    try:
        check_address(text)
    except UsageError as error:
        raise OptionError(f"option tier: {error}") from None
    return text


def _consumer(text: str) -> str:
    if not re.fullmatch(NAME_PATTERN, text):
        raise ValueError
    return text


def _prefixes(text: str) -> tuple[str, ...]:
    return tuple(check_prefix(prefix.strip()) for prefix in text.split(","))


def _name(text: str) -> str:
    if not 0 < len(text.encode()) <= 255:
        raise ValueError
    return text


def _at_least(least: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        number = int(text)
        if not least <= number < 2**63:
            raise ValueError
        return number

    return convert


def _truth(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError
    return text.lower() == "true"


def _default_partitions() -> int:
    least, most = _PARTITIONS
    return max(least, min(most, os.cpu_count() or 1))
