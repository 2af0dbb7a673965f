"""Settings: what can be set, in which unit and range, and how several layers of plain values become one `Settings`.

Purpose: one place that knows every key. `Settings` is the typed result, `KEYS` the same as a table (for the
documentation, the environment and the command line), `merge` lays layers of plain nested dictionaries over the
defaults and remembers which layer each value came from.

Owner of the state: nobody, these are frozen values. Where the layers come from (file, environment, flags) is the
business of `peers.daemon.sources`; this module reads nothing.

Invariants: a `Settings` made by `merge` is within every range and agrees with itself (no default queue is larger
than the largest one that a client may wish for). No key uses 0 for "none" or "no limit". The constructors do not
check: who builds a `Settings` by hand vouches for the values.

Cost: paid at start and at a reload, never per message.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, assert_never, get_args

import msgspec
from msgspec import Meta, inspect

from hub.errors import InvalidTopicError, UsageError
from hub.overflow import QueueLimits
from hub.topics import check_prefix

__all__ = [
    "DEFAULT",
    "KEYS",
    "ConfigError",
    "JournalSettings",
    "Key",
    "Kind",
    "Limits",
    "LogSettings",
    "QueueMaximum",
    "Settings",
    "WebSocketSettings",
    "ZeekSettings",
    "closest",
    "merge",
    "parse_size",
    "value_at",
]

DEFAULT = "default"
"""Origin of a value that no layer sets."""

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB
_TIB = 1024 * _GIB

_NAME_BYTES = 64
"""The wire's HELLO takes names of up to 64 bytes."""

_SMALLEST_FRAME_BYTES = 4 * _KIB
"""A subscription to one prefix of the greatest length (1024 bytes) and a browser's HTTP request both fit."""

_SMALLEST_QUEUE_BYTES = _KIB
"""Below this a queue holds no message of ordinary size, which would be "drop all" under another name."""

_PATH_BYTES = 4096
"""PATH_MAX of Linux."""

_SHOWN_CHARACTERS = 64
"""How much of an unknown key or a bad value an error repeats: enough to find it, too little to flood a terminal."""

_SIZE = re.compile(r"([0-9][0-9_]{0,17}) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?", re.IGNORECASE | re.ASCII)

_UNITS_BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": _KIB,
    "mib": _MIB,
    "gib": _GIB,
    "tib": _TIB,
}

_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"

_ORIGIN = r"^(null|[a-z][a-z0-9+.-]*://[^/?#@\s\x00-\x1f\x7fA-Z]+)$"
"""An origin as browsers send it: scheme, host, perhaps a port. Capitals or a slash at its end would never match."""


class ConfigError(UsageError):
    """A setting, or a place where settings are read from, that cannot be used.

    Attributes:
        source: Where it stands: a file's path, "environment HUB_...", "flag --...".
        key: Dotted path such as "queue.messages"; empty if the trouble is not with one key.
        reason: The cause, for people.
    """

    def __init__(self, source: str, key: str, reason: str) -> None:
        super().__init__(": ".join(part for part in (source, key, reason) if part))
        self.source = source
        self.key = key
        self.reason = reason


def _between(unit: str, least: float, most: float, description: str) -> Meta:
    """Describe a number of `unit` within a closed range."""
    return Meta(ge=least, le=most, description=description, extra={"unit": unit})


# A billion messages or a tebibyte is no bound that anybody means: above it is a slip of the keyboard.
_QueueMessages = Annotated[int, _between("messages", 1, 10**9, "Most messages that a queue holds.")]
_QueueBytes = Annotated[
    int, _between("bytes", _SMALLEST_QUEUE_BYTES, _TIB, "Most memory that the messages in a queue take.")
]


class QueueMaximum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest queue that a client may wish for; a larger wish is granted this much."""

    messages: Annotated[
        int, _between("messages", 1, 10**9, "Most messages that a client or a listener's URL may ask for.")
    ] = 1_000_000
    bytes: Annotated[
        int,
        _between("bytes", _SMALLEST_QUEUE_BYTES, _TIB, "Most memory that a client or a listener's URL may ask for."),
    ] = 256 * _MIB


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one hub takes from its clients, and how long it waits for them."""

    connections: Annotated[
        int, _between("connections", 1, 1_000_000, "Connections open at one time; one more is closed with 1013.")
    ] = 10_000
    prefixes_per_client: Annotated[
        int,
        _between("prefixes", 1, 10_000_000, "Prefixes that a client may subscribe to; one more is refused with 1008."),
    ] = 1_000
    frame_bytes: Annotated[
        int,
        _between("bytes", _SMALLEST_FRAME_BYTES, _GIB, "Largest body of a frame or WebSocket message; above it 1009."),
    ] = 16 * _MIB
    handshake_bytes: Annotated[
        int, _between("bytes", _SMALLEST_FRAME_BYTES, 16 * _MIB, "Most that is read before the handshake is over.")
    ] = 64 * _KIB
    handshake_s: Annotated[float, _between("seconds", 0.1, 3600.0, "Time for the handshake, then closed.")] = 5.0
    ping_after_s: Annotated[float, _between("seconds", 0.1, 86_400.0, "Silence after which a ping is sent.")] = 20.0
    ping_timeout_s: Annotated[
        float, _between("seconds", 0.1, 3600.0, "Time for the answer to a ping, then closed with 1002.")
    ] = 10.0
    routes: Annotated[
        int, _between("routing keys", 1, 10_000_000, "Routing keys whose handlers are remembered between messages.")
    ] = 65_536
    drain_s: Annotated[
        float, _between("seconds", 0.0, 3600.0, "Time to flush queues when the hub stops; 0 closes at once.")
    ] = 5.0


class WebSocketSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may connect from a browser."""

    origins: Annotated[
        tuple[Annotated[str, Meta(pattern=_ORIGIN)], ...],
        Meta(
            description="Web pages (by origin) that may connect, beside the hub's own page.",
            extra={"unit": "origins such as 'https://example.org'"},
        ),
    ] = ()


def _path(description: str) -> Meta:
    """Describe the path of a file, empty for none."""
    return Meta(pattern=_PRINTABLE, description=description, extra={"most_bytes": _PATH_BYTES})


class ZeekSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is common to all Zeeks that this hub peers with."""

    certificate: Annotated[
        str, _path("PEM file of the hub's certificate and its chain; with it TLS is mutual, without it anonymous.")
    ] = ""
    key: Annotated[str, _path("PEM file of the key of that certificate.")] = ""
    ca: Annotated[str, _path("PEM file of the authorities that vouch for Zeeks' certificates.")] = ""
    topics: Annotated[
        tuple[Annotated[str, Meta(max_length=1024)], ...],
        Meta(
            description="Prefixes that Zeeks are asked for even while nobody here subscribes to them.",
            extra={"unit": "prefixes such as '/zeek/'"},
        ),
    ] = ()
    forwarding: Annotated[
        Literal["on", "off"],
        Meta(description="Whether what one Zeek publishes goes to other Zeeks; off where they are peered themselves."),
    ] = "on"


class JournalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether and how what the hub carries is recorded."""

    path: Annotated[str, _path("File of the journal, made where it is absent; empty records nothing.")] = ""
    topics: Annotated[
        tuple[Annotated[str, Meta(max_length=1024)], ...],
        Meta(min_length=1, description="Prefixes of what is recorded.", extra={"unit": "prefixes such as '/zeek/'"}),
    ] = ("/",)
    sync: Annotated[
        Literal["normal", "full"],
        Meta(description="What a confirmed message survives: normal, that the hub is killed; full, power loss too."),
    ] = "normal"
    commit_s: Annotated[
        float, _between("seconds", 0.001, 10.0, "How long messages are collected before they are committed together.")
    ] = 0.01
    buffer_bytes: Annotated[
        int,
        _between(
            "bytes", 64 * _KIB, 64 * _GIB, "What may wait to be committed; above it publishers are not read from."
        ),
    ] = 32 * _MIB
    keep_bytes: Annotated[
        int, _between("bytes", 64 * _KIB, 1024 * _TIB, "Size above which the oldest records are deleted.")
    ] = 64 * _GIB
    keep_s: Annotated[float, _between("seconds", 1.0, 100 * 366 * 86_400.0, "Age above which records are deleted.")] = (
        366 * 86_400.0
    )
    readers: Annotated[
        int, _between("processes", 1, 64, "Processes that read for clients, each once it is needed.")
    ] = 2
    staged_bytes: Annotated[
        int,
        _between(
            "bytes", 64 * _KIB, 64 * _GIB, "What may wait for the COMMIT of its writer; above it STAGE is refused."
        ),
    ] = 512 * _MIB
    staged_s: Annotated[
        float, _between("seconds", 1.0, 86_400.0, "How long what was staged waits for its COMMIT before it is dropped.")
    ] = 600.0


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, and in which form."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe lines that are written.")
    ] = "info"
    format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="Form of a line; auto is text on a terminal and JSON otherwise."),
    ] = "auto"


_Urls = Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=2048)]


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that can be set on a hub."""

    name: Annotated[
        str,
        Meta(
            pattern=_PRINTABLE,
            description="Name shown to clients and peers; empty is the host's name.",
            extra={"most_bytes": _NAME_BYTES},
        ),
    ] = ""
    listen: Annotated[
        tuple[_Urls, ...],
        Meta(min_length=1, description="Where the hub listens.", extra={"unit": "URLs such as 'tcp://127.0.0.1:7400'"}),
    ] = ("tcp://127.0.0.1:7400", "ws://127.0.0.1:7401")
    peers: Annotated[
        tuple[_Urls, ...],
        Meta(
            description="Hubs that this one connects to, and again whenever the link is lost.",
            extra={"unit": "URLs such as 'tcp://hub.example.org:7400'"},
        ),
    ] = ()
    queue: QueueLimits = QueueLimits()
    queue_max: QueueMaximum = QueueMaximum()
    limits: Limits = Limits()
    websocket: WebSocketSettings = WebSocketSettings()
    zeek: ZeekSettings = ZeekSettings()
    journal: JournalSettings = JournalSettings()
    log: LogSettings = LogSettings()


class Kind(enum.Enum):
    """What a key takes."""

    COUNT = "whole number"
    SIZE = "size"
    SECONDS = "seconds"
    TEXT = "text"
    CHOICE = "choice"
    TEXTS = "list of texts"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the settings.

    Attributes:
        path: Dotted, such as "queue.messages".
        kind: What it takes.
        unit: What a number counts, or what a list holds; empty for texts and choices.
        least: Smallest number, or fewest texts in a list.
        most: Largest number, or most bytes of a text.
        choices: The texts that a choice takes.
        default: The value without any layer.
        description: One sentence.
    """

    path: str
    kind: Kind
    unit: str
    least: float
    most: float
    choices: tuple[str, ...]
    default: object
    description: str
    _type: Any

    @property
    def expected(self) -> str:
        """What the key takes, for people."""
        match self.kind:
            case Kind.COUNT:
                return f"a whole number from {self.least} to {self.most} ({self.unit})"
            case Kind.SIZE:
                return f"a size from {self.least} to {self.most} bytes, such as 1048576 or '1MiB'"
            case Kind.SECONDS:
                return f"a number from {self.least:g} to {self.most:g} (seconds)"
            case Kind.TEXT:
                return f"a text of at most {self.most} bytes without control characters"
            case Kind.CHOICE:
                return f"one of {', '.join(self.choices)}"
            case Kind.TEXTS:
                return f"a list of {'one or more ' if self.least else ''}{self.unit}"
            case _:
                assert_never(self.kind)

    def from_text(self, text: str) -> object:
        """Read the value from a text, as in an environment variable: lists are separated by commas.

        Returns:
            A plain value for `convert`; the text itself where it cannot be read as what the key takes, so that
            `convert` is the one that complains.
        """
        match self.kind:
            case Kind.COUNT:
                return int(text) if re.fullmatch(r"\s*[+-]?[0-9][0-9_]{0,17}\s*", text, re.ASCII) else text
            case Kind.SECONDS:
                return _float_or_text(text)
            case Kind.TEXTS:
                return tuple(part.strip() for part in text.split(",") if part.strip())
            case Kind.SIZE | Kind.TEXT | Kind.CHOICE:
                return text
            case _:
                assert_never(self.kind)

    def convert(self, value: object) -> Any:
        """Check a plain value and give it the type that `Settings` has for it.

        Raises:
            ValueError: It is not what the key takes; the text says what was expected.
        """
        try:
            plain = parse_size(value) if self.kind is Kind.SIZE and isinstance(value, str) else value
            converted = msgspec.convert(plain, self._type)
            fits = self.kind is not Kind.TEXT or len(converted.encode()) <= self.most
        except ValueError as error:  # msgspec.ValidationError and UnicodeEncodeError are among them
            raise ValueError(f"expected {self.expected}") from error
        if not fits:
            raise ValueError(f"expected {self.expected}")
        return converted


def _float_or_text(text: str) -> float | str:
    """Read a number of seconds, or leave the text as it is."""
    try:
        return float(text)
    except ValueError:
        return text


def parse_size(text: str) -> int:
    """Read a size: "65536", "64KiB", "16 MiB" (powers of 1024), "1GB" (powers of 1000). Case does not matter.

    Returns:
        Bytes, 0 or more.

    Raises:
        ValueError: It is none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError("expected a size such as 1048576, '64KiB' or '1MB'")
    return int(found[1]) * _UNITS_BYTES[(found[2] or "B").lower()]


# `QueueLimits` is a value of the core and carries no ranges; these are the ones for what people set.
_RANGED: Mapping[str, Any] = {"queue.messages": _QueueMessages, "queue.bytes": _QueueBytes}

_QUEUE_OVERFLOW = "What goes when the queue is full: everything and the connection, the oldest, or the newest message."


def _keys(section: type[msgspec.Struct], prefix: str) -> Iterator[Key]:
    """Walk the fields of a section, and of the sections in it."""
    for field in msgspec.structs.fields(section):
        path = prefix + field.name
        if isinstance(field.default, msgspec.Struct):
            yield from _keys(type(field.default), path + ".")
        else:
            yield _key(path, _RANGED.get(path, field.type), field.default)


def _key(path: str, annotated: Any, default: object) -> Key:
    """Turn one annotated field into a row of the table."""
    described = inspect.type_info(annotated)
    extra: dict[str, Any] = {}
    description = _QUEUE_OVERFLOW
    if isinstance(described, inspect.Metadata):
        extra = described.extra or {}
        description = (described.extra_json_schema or {}).get("description", "")
        described = described.type
    unit = extra.get("unit", "")
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()
    match described:
        case inspect.IntType(ge=int(least), le=int(most)):
            kind = Kind.SIZE if unit == "bytes" else Kind.COUNT
        case inspect.FloatType(ge=float(least), le=float(most)):
            kind = Kind.SECONDS
        case inspect.StrType():
            kind, most = Kind.TEXT, extra["most_bytes"]
        case inspect.VarTupleType():
            kind, least = Kind.TEXTS, described.min_length or 0
        case inspect.LiteralType():
            # Out of the annotation: msgspec gives the texts in the order of the alphabet.
            kind, choices = Kind.CHOICE, get_args(get_args(annotated)[0])
        case inspect.EnumType():
            kind, choices = Kind.CHOICE, tuple(member.value for member in described.cls)
        case _:
            raise TypeError(f"{path}: a key needs a unit and a range: {annotated}")
    return Key(path, kind, unit, least, most, choices, default, description, annotated)


KEYS: Mapping[str, Key] = {key.path: key for key in _keys(Settings, "")}
"""Every key by its path, in the order of the documentation."""

_SECTIONS = frozenset(path.rpartition(".")[0] for path in KEYS) - {""}


def closest(word: str, known: Iterable[str]) -> str:
    """Make the "did you mean" of an error.

    Returns:
        "; did you mean X?", or an empty text if nothing known is near.
    """
    near = difflib.get_close_matches(word[:_SHOWN_CHARACTERS], list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def merge(layers: Iterable[tuple[str, Mapping[str, object]]]) -> tuple[Settings, dict[str, str]]:
    """Lay layers of plain values over the defaults; a later layer wins, key by key. Lists are replaced, not joined.

    Args:
        layers: Pairs of the source's name and nested dictionaries as a TOML file gives them.

    Returns:
        The settings, and for each path of `KEYS` the source of its value (`DEFAULT` if no layer set it).

    Raises:
        ConfigError: An unknown key, a value of the wrong type or out of range, or two that contradict each other.
    """
    origins = dict.fromkeys(KEYS, DEFAULT)
    chosen: dict[str, dict[str, Any]] = {}
    for source, tree in layers:
        for path, value in _leaves(source, tree, ""):
            section, _, field = path.rpartition(".")
            chosen.setdefault(section, {})[field] = _converted(source, path, value)
            origins[path] = source
    settings = Settings()
    sections = {name: msgspec.structs.replace(getattr(settings, name), **chosen.get(name, {})) for name in _SECTIONS}
    settings = msgspec.structs.replace(settings, **chosen.get("", {}), **sections)
    _check_queue(settings, origins)
    _check_prefixes("zeek.topics", settings.zeek.topics, origins)
    _check_prefixes("journal.topics", settings.journal.topics, origins)
    return settings, origins


def value_at(settings: Settings, path: str) -> Any:
    """Look a value up by its dotted path, one of `KEYS`."""
    value: Any = settings
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _leaves(source: str, tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, object]]:
    """Walk the known keys of one layer, complaining about the first that is not known."""
    for name, value in tree.items():
        path = prefix + name
        if path in KEYS:
            yield path, value
        elif path not in _SECTIONS:
            place = f"in [{prefix[:-1]}]" if prefix else "at the top level"
            hint = closest(path, [*KEYS, *_SECTIONS])
            raise ConfigError(source, _shown_path(path), f"unknown key {place}{hint}")
        elif isinstance(value, Mapping):
            yield from _leaves(source, value, path + ".")
        else:
            raise ConfigError(source, path, f"{_shown(value)} given, expected a table [{path}]")


def _converted(source: str, path: str, value: object) -> Any:
    """Check one value of one layer."""
    try:
        return KEYS[path].convert(value)
    except ValueError as error:
        raise ConfigError(source, path, f"{_shown(value)} given, {error}") from error


def _shown(value: object) -> str:
    """Repeat what somebody wrote: on one line, without control characters, and not all of a long one."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # hexadecimal digits by the thousand, dotted keys by the thousand
        return f"a {type(value).__name__} too large to show"
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _shown_path(path: str) -> str:
    """Repeat an unknown key as it stands, unless it is too odd for that."""
    return path if path.isprintable() and len(path) <= _SHOWN_CHARACTERS else _shown(path)


def _check_queue(settings: Settings, origins: Mapping[str, str]) -> None:
    """See to it that the default queue is one that a client could have wished for."""
    for default, largest in (("queue.messages", "queue_max.messages"), ("queue.bytes", "queue_max.bytes")):
        if value_at(settings, default) > value_at(settings, largest):
            culprit = largest if origins[default] == DEFAULT else default
            raise ConfigError(
                origins[culprit],
                culprit,
                f"{default} = {value_at(settings, default)} ({origins[default]}) is more than"
                f" {largest} = {value_at(settings, largest)} ({origins[largest]}); lower the one or raise the other",
            )


def _check_prefixes(path: str, prefixes: tuple[str, ...], origins: Mapping[str, str]) -> None:
    """See to it that prefixes are prefixes."""
    for prefix in prefixes:
        try:
            check_prefix(prefix)
        except InvalidTopicError as error:
            raise ConfigError(origins[path], path, str(error)) from error
