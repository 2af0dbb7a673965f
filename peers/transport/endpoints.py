"""URLs of hubs and Zeeks: to listen on, and to connect to.

```
tcp://host:port                hub to hub, client to hub
tls://host:port                the same over TLS
unix:///run/hub.sock           the same over a Unix socket; the path is absolute
ws://host:port[/path]          WebSocket and HTTP
wss://host:port[/path]         WebSocket and HTTP over TLS
zeek://host:port               Broker's protocol, over TLS as by Broker's default; zeek+tcp:// without TLS
zeek+ws://host:port            a Zeek's WebSocket server; ?publish=/a/,/b says what it is sent
zeek+zmq://host:port?xsub=PORT the central ZeroMQ broker of a Zeek cluster, or a node of it (?name=NODE)
zeek+log://host:port           a logger of such a cluster, to listen
```

A listener's URL may set the default queue of its clients (`?messages=1000&bytes=1MiB&overflow=disconnect`), and the URL
of a link its cost (`?cost=5`). `Endpoint.parse` and `str` are inverses.
"""

from __future__ import annotations

import enum
import ipaddress
import re
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, unquote

from hub.errors import InvalidTopicError, UsageError
from hub.limits import LINK_COST, LINK_COST_LIMIT, Overflow, QueueLimits
from hub.topics import check_prefix, printable

_UNIX_PATH_BYTES = 107  # `sun_path` of Linux holds 108 bytes, the last of them NUL
_CLIENT_SCHEMES = "tcp://, tls://, unix://, ws:// or wss://"
_URL_CHARACTERS = 2048
_SHOWN_CHARACTERS = 200
_HOST = re.compile(r"[^\s/?#@%:\[\]\x00-\x20\x7f]{1,253}")
_QUERY_KEYS = ("messages", "bytes", "overflow")
_PUBLISH = "publish"
_COST = "cost"
_XSUB = "xsub"
_NAME = "name"
_SERIALIZER = "serializer"
_SERIALIZERS = re.compile("broker-bin-v1|broker-json-v1")  # Event formats of a Zeek cluster that the hub can read

# Names of nodes of a Zeek cluster appear in topics, ids, and labels of 128 bytes.
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_NODE_EXPECTED = "a node of the cluster's layout, 1 to 63 of letters, digits, '-', '_' and '.'"
_COST_MEANS = "belongs to a URL of --peer or --listen: it is the cost of a link between hubs"


def reachable_host(host: str) -> str:
    """Return where this machine reaches a listener: one on all interfaces over the loopback interface."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def url_host(host: str) -> str:
    """Return a host as in a URL: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


class InvalidEndpointError(UsageError):
    """An invalid URL; `reason` is the cause, for people."""

    def __init__(self, url: str, reason: str) -> None:
        shown = url if url.isprintable() else ascii(url)[1:-1]
        if len(shown) > _SHOWN_CHARACTERS:
            shown = shown[:_SHOWN_CHARACTERS] + "..."
        super().__init__(f"'{shown}': {reason}")
        self.url = url
        self.reason = reason


class Scheme(enum.StrEnum):
    """Of a URL."""

    TCP = "tcp"
    TLS = "tls"
    UNIX = "unix"
    WS = "ws"
    WSS = "wss"
    ZEEK = "zeek"
    ZEEK_TCP = "zeek+tcp"
    ZEEK_WS = "zeek+ws"
    ZEEK_ZMQ = "zeek+zmq"
    ZEEK_LOG = "zeek+log"

    @property
    def is_websocket(self) -> bool:
        return self in {Scheme.WS, Scheme.WSS}

    @property
    def is_for_clients(self) -> bool:
        """Whether clients connect over a network: several workers may share the port."""
        return self in {Scheme.TCP, Scheme.TLS, Scheme.WS, Scheme.WSS}

    @property
    def is_secure(self) -> bool:
        """Whether it is TLS with the hub's own certificate; TLS of Zeeks is configured apart."""
        return self in {Scheme.TLS, Scheme.WSS}

    @property
    def is_zeek(self) -> bool:
        return self in {Scheme.ZEEK, Scheme.ZEEK_TCP, Scheme.ZEEK_WS, Scheme.ZEEK_ZMQ, Scheme.ZEEK_LOG}


_SCHEMES = frozenset(scheme.value for scheme in Scheme)


@dataclass(frozen=True, slots=True)
class QueueOverride:
    """Queue options of a URL; None leaves the default of the settings."""

    messages: int | None = None
    bytes: int | None = None
    overflow: Overflow | None = None

    def applied_to(self, default: QueueLimits) -> QueueLimits:
        return QueueLimits(
            messages=default.messages if self.messages is None else self.messages,
            bytes=default.bytes if self.bytes is None else self.bytes,
            overflow=default.overflow if self.overflow is None else self.overflow,
        )


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address to listen on or to connect to."""

    scheme: Scheme
    host: str = ""  # A name or an address, without brackets; empty for Unix sockets
    port: int = 0  # For a listener, 0 lets the system choose; 0 for Unix sockets
    path: str = ""  # Of a Unix socket, or of a WebSocket URL
    queue: QueueOverride = QueueOverride()
    publish: tuple[str, ...] = ()  # Prefixes of topics that are sent to a Zeek's WebSocket server
    cost: int | None = None  # Of links
    xsub: int = 0  # The second port of a central ZeroMQ broker
    name: str = ""  # Of the hub as a node of a cluster; empty if it is not one
    serializer: str = ""  # The event format of a cluster; empty to detect it

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Parse a URL, or raise an `InvalidEndpointError`."""
        if len(url) > _URL_CHARACTERS:
            raise InvalidEndpointError(url, f"longer than {_URL_CHARACTERS} characters")
        if any(character.isspace() or not character.isprintable() for character in url):
            raise InvalidEndpointError(url, "spaces and control characters are written as %20 and so on")
        name, separator, rest = url.partition("://")
        if not separator:
            raise InvalidEndpointError(url, "a URL starts with tcp://, tls://, unix://, ws://, wss:// or zeek://")
        if "#" in rest:
            raise InvalidEndpointError(url, "'#' has no meaning here; within a path it is written as %23")
        place, question_mark, query = rest.partition("?")
        scheme = _scheme(url, name)
        found = _pairs(url, query, scheme) if question_mark else {}
        queue = _queue(url, found)
        match scheme:
            case Scheme.UNIX:
                return cls(Scheme.UNIX, path=_unix_path(url, place), queue=queue, cost=_cost(url, found))
            case Scheme.WS | Scheme.WSS:
                authority, slash, path = place.partition("/")
                host, port = _host_and_port(url, authority)
                return cls(scheme, host, port, slash + _decoded(url, path), queue)
            case _:
                authority, _, path = place.partition("/")
                if path:
                    raise InvalidEndpointError(url, f"a {scheme} URL ends with the port, '/{path}' has no meaning")
                host, port = _host_and_port(url, authority)
                xsub = _xsub(url, found, port) if scheme is Scheme.ZEEK_ZMQ else 0
                publish, cost = _publish(url, found), _cost(url, found)
                name = _checked(url, found, _NAME, _NODE_NAME, _NODE_EXPECTED)
                serializer = _checked(url, found, _SERIALIZER, _SERIALIZERS, _SERIALIZERS.pattern.replace("|", " or "))
                return cls(scheme, host, port, "", queue, publish, cost, xsub, name, serializer)

    @classmethod
    def parse_remote(cls, url: str) -> Endpoint:
        """Parse a URL for a client: like `parse_peer`, but without Zeeks and costs."""
        scheme, separator, rest = url.partition("://")
        if separator and scheme.lower() not in _SCHEMES:
            is_http = scheme.lower() in {"http", "https"} and url.isprintable()
            meant = f"; did you mean ws{scheme[4:]}://{rest}?" if is_http else ""
            raise InvalidEndpointError(url, f"clients connect to {_CLIENT_SCHEMES}, not {printable(scheme)}{meant}")
        endpoint = cls.parse_peer(url)
        if endpoint.scheme.is_zeek:
            raise InvalidEndpointError(
                url, f"clients connect to {_CLIENT_SCHEMES}; a Zeek is reached by a hub: hub run --peer"
            )
        if endpoint.cost is not None:
            raise InvalidEndpointError(url, f"{_COST} {_COST_MEANS}")
        return endpoint

    @classmethod
    def parse_peer(cls, url: str) -> Endpoint:
        """Parse a URL for a hub to connect to: like `parse`, but without port 0 and queue options.

        The URL of a Zeek may set the queue, since a Zeek does not ask for one.
        """
        endpoint = cls.parse(url)
        if endpoint.scheme is Scheme.ZEEK_LOG:
            raise InvalidEndpointError(url, "a hub cannot dial loggers, it is one: hub run --listen")
        if endpoint.scheme is not Scheme.UNIX and endpoint.port == 0:
            raise InvalidEndpointError(url, "port 0 is for listening; connecting needs the port of the hub")
        if endpoint.scheme is Scheme.ZEEK_ZMQ and endpoint.xsub == 0:
            raise InvalidEndpointError(url, f"{_XSUB}=0 is for listening; connecting needs the second port, too")
        if endpoint.queue != QueueOverride() and not endpoint.scheme.is_zeek:
            raise InvalidEndpointError(url, "messages, bytes and overflow belong to the URL of a listener")
        return endpoint

    @property
    def location(self) -> str:
        """The URL without the query, such as 'ws://[::1]:7401/v1/hub'."""
        path = quote(self.path, safe="/:@!$&'()*+,;=~")
        if self.scheme is Scheme.UNIX:
            return f"unix://{path}"
        return f"{self.scheme.value}://{url_host(self.host)}:{self.port}{path}"

    def with_port(self, port: int) -> Endpoint:
        return replace(self, port=port)

    def __str__(self) -> str:
        pairs = [
            f"{key}={value.value if isinstance(value, Overflow) else value}"
            for key in _QUERY_KEYS
            if (value := getattr(self.queue, key)) is not None
        ]
        if self.publish:
            pairs.append(f"{_PUBLISH}={','.join(quote(prefix, safe='/') for prefix in self.publish)}")
        if self.cost is not None:
            pairs.append(f"{_COST}={self.cost}")
        if self.scheme is Scheme.ZEEK_ZMQ:
            pairs.append(f"{_XSUB}={self.xsub}")
        if self.name:
            pairs.append(f"{_NAME}={self.name}")
        if self.serializer:
            pairs.append(f"{_SERIALIZER}={self.serializer}")
        return f"{self.location}?{'&'.join(pairs)}" if pairs else self.location


def _scheme(url: str, name: str) -> Scheme:
    try:
        return Scheme(name.lower())
    except ValueError:
        known = [scheme.value for scheme in Scheme]
        from hub.settings.keys import closest  # noqa: PLC0415 -- only where something is wrong

        hint = closest(name, known)
        text = f"unknown scheme {name!r}, expected {', '.join(known)}{hint}"
        raise InvalidEndpointError(url, text) from None


def _unix_path(url: str, place: str) -> str:
    if not place.startswith("/"):
        raise InvalidEndpointError(
            url, "the path of a Unix socket is absolute: three slashes, as in unix:///run/hub.sock"
        )
    path = _decoded(url, place)
    if path.endswith("/"):
        raise InvalidEndpointError(url, "the path names a directory, not a socket")
    if len(path.encode()) > _UNIX_PATH_BYTES:
        raise InvalidEndpointError(url, f"the path of a Unix socket has at most {_UNIX_PATH_BYTES} bytes")
    return path


def _decoded(url: str, text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise InvalidEndpointError(url, "the text in %XX is not UTF-8") from None
    if "\0" in decoded:
        raise InvalidEndpointError(url, "a path contains no NUL")
    return decoded


def _host_and_port(url: str, authority: str) -> tuple[str, int]:
    if "@" in authority:
        raise InvalidEndpointError(url, "a URL carries no user name and no password")
    if authority.startswith("["):
        host, bracket, rest = authority[1:].partition("]")
        try:
            ipaddress.IPv6Address(host if bracket else "")
        except ValueError:
            raise InvalidEndpointError(url, "the host in brackets is not an IPv6 address") from None
    else:
        host, colon, digits = authority.partition(":")
        rest = colon + digits
        if ":" in digits:
            raise InvalidEndpointError(url, "an IPv6 address must be in brackets, as in tcp://[::1]:7400")
        if not host:
            raise InvalidEndpointError(
                url, "host missing; 127.0.0.1 is this machine, 0.0.0.0 and [::] are all addresses"
            )
        if _HOST.fullmatch(host) is None:
            raise InvalidEndpointError(url, f"{host!r} is neither a host name nor an address")
    return host, _port(url, rest)


def _port(url: str, rest: str) -> int:
    if rest in {"", ":"}:
        raise InvalidEndpointError(url, "port missing; hubs listen on 7400 (tcp) and 7401 (ws) by default")
    digits = rest.removeprefix(":")
    if re.fullmatch("[0-9]{1,5}", digits) is None or int(digits) > 65535 or digits == rest:
        raise InvalidEndpointError(url, f"bad port {digits!r}, expected 0 to 65535")
    return int(digits)


def _pairs(url: str, query: str, scheme: Scheme) -> dict[str, str]:
    known: tuple[str, ...] = _QUERY_KEYS
    if scheme is Scheme.ZEEK_WS:
        known = (*known, _PUBLISH)
    elif scheme in {Scheme.TCP, Scheme.TLS, Scheme.UNIX}:
        known = (*known, _COST)
    elif scheme is Scheme.ZEEK_ZMQ:
        known = (*known, _XSUB, _NAME, _SERIALIZER)
    found: dict[str, str] = {}
    for pair in query.split("&"):
        name, _, text = pair.partition("=")
        if name not in known:
            from hub.settings.keys import closest  # noqa: PLC0415 -- as above

            hint = closest(name, known)
            raise InvalidEndpointError(url, f"unknown query key {name!r}, expected {', '.join(known)}{hint}")
        if name in found:
            raise InvalidEndpointError(url, f"{name} is given twice")
        found[name] = text if name == _PUBLISH else _decoded(url, text)
    return found


def _queue(url: str, found: dict[str, str]) -> QueueOverride:
    try:
        messages, size, overflow = (_setting(found, name) for name in _QUERY_KEYS)
    except ValueError as error:
        raise InvalidEndpointError(url, str(error)) from error
    return QueueOverride(messages, size, overflow)


def _cost(url: str, found: dict[str, str]) -> int | None:
    text = found.get(_COST)
    if text is None:
        return None
    expected = f"a whole number from {LINK_COST} to {LINK_COST_LIMIT}"
    cost = int(_checked(url, found, _COST, re.compile("[0-9]{1,5}"), expected))
    if not LINK_COST <= cost <= LINK_COST_LIMIT:
        raise InvalidEndpointError(url, f"{_COST}={text}: expected {expected}")
    return cost


def _checked(url: str, found: dict[str, str], key: str, pattern: re.Pattern[str], expected: str) -> str:
    text = found.get(key, "")
    if key in found and pattern.fullmatch(text) is None:
        raise InvalidEndpointError(url, f"{key}={_shown(text)}: expected {expected}")
    return text


def _shown(text: str) -> str:
    """Return a decoded text, which may be full of control characters, for an error."""
    return text if text.isprintable() else ascii(text)


def _xsub(url: str, found: dict[str, str], port: int) -> int:
    text = found.get(_XSUB)
    xsub = (port + 1 if port else 0) if text is None else _port(url, f":{text}")
    if xsub > 65535 or (port and xsub == port):
        raise InvalidEndpointError(url, f"{_XSUB}={xsub}: expected another port than the first, up to 65535")
    return xsub


def _publish(url: str, found: dict[str, str]) -> tuple[str, ...]:
    """Parse `publish=/a/,/b`; a comma within a prefix is %2C."""
    if _PUBLISH not in found:
        return ()
    try:
        return tuple(check_prefix(_decoded(url, part)) for part in found[_PUBLISH].split(","))
    except InvalidTopicError as error:
        raise InvalidEndpointError(url, f"{_PUBLISH}: {error}") from error


def _setting(found: dict[str, str], name: str) -> Any:
    """Convert a value of the query like the key of the same name under [queue]."""
    if name not in found:
        return None
    from hub.settings.keys import KEYS  # noqa: PLC0415 -- all settings of a hub, which few URLs need

    key = KEYS[f"queue.{name}"]
    try:
        return key.convert(key.from_text(found[name]))
    except ValueError as error:
        raise ValueError(f"{name}={_shown(found[name])}: {error}") from error


def host_of(address: str) -> str:
    """Return the IPv4 address or /64 network that a connection counts for; empty for this machine, as of a proxy."""
    host = address.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        found = ipaddress.ip_address(host)
    except ValueError:  # a Unix socket
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return "" if found.is_loopback else str(ipaddress.IPv6Address(int(found) >> 64 << 64))
        found = found.ipv4_mapped
    return "" if found.is_loopback else str(found)
