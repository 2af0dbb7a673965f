"""`Settings`: every setting of a hub, with its unit, range and default. A file has one table for each section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hub.limits import Overflow, QueueLimits, RequestLimits

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB
FOREVER_S = 100 * 366 * 86_400.0
_NAME_BYTES = 64  # the wire's HELLO takes names of up to 64 bytes
_SMALLEST_QUEUE_BYTES = KIB  # a smaller queue would hold no ordinary message
_PATH_BYTES = 4096  # PATH_MAX of Linux
_URL_BYTES = 2048
# A subscription to one prefix of the greatest length (1024 bytes) and a browser's HTTP request both fit.
_SMALLEST_FRAME_BYTES = 4 * KIB
_CLAIM_BYTES = 1024  # issuers are URLs, which have a few dozen characters
_TOPIC_CHARACTERS = 1024
_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"
_ROLE = r"^([A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63})?$"

# An origin as browsers send it: scheme, host, perhaps a port. Capitals or a slash at its end would never match.
_ORIGIN = r"^(null|[a-z][a-z0-9+.-]*://[^/?#@\s\x00-\x1f\x7fA-Z]+)$"

# A host name as browsers send it, without a port; or `*`.
_HOST_NAME = r"^(\*|[^\s/?#@:\[\]\\\x00-\x1f\x7fA-Z]{1,253})$"

# A reload changes the key, for new connections and for timeouts set from then on. Other keys need a restart.
LIVE = Meta(extra={"live": True})


def _between(unit: str, least: float, most: float, description: str) -> Meta:
    """Describe a number of `unit` within a closed range."""
    return Meta(ge=least, le=most, description=description, extra={"unit": unit})


def _size(least: float, most: float, description: str) -> Meta:
    return _between("bytes", least, most, description)


def _seconds(least: float, most: float, description: str) -> Meta:
    return _between("seconds", least, most, description)


def _text(most_bytes: int, description: str, pattern: str = _PRINTABLE, **extra: object) -> Meta:
    return Meta(pattern=pattern, description=description, extra={"most_bytes": most_bytes, **extra})


def _file(description: str) -> Meta:
    """Describe the path of a file, empty for none."""
    return _text(_PATH_BYTES, description)


def _texts(unit: str, description: str, least: int = 0) -> Meta:
    """Describe a list of at least so many texts."""
    return Meta(min_length=least, description=description, extra={"unit": unit})


_Url = Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=_URL_BYTES)]
_Prefix = Annotated[str, Meta(max_length=_TOPIC_CHARACTERS)]
_StoreName = Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=_TOPIC_CHARACTERS)]
_StorePath = Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=_PATH_BYTES)]


class Limits(msgspec.Struct, frozen=True):
    """Limits and timeouts for clients."""

    connections: Annotated[
        int, _between("connections", 1, 1_000_000, "Connections open at one time; one more is closed with 1013."), LIVE
    ] = 10_000
    connections_per_address: Annotated[
        int,
        _between("connections", 1, 1_000_000, "Of these, from one address that is not this machine's; one more: 1013."),
        LIVE,
    ] = 5_000
    newcomers: Annotated[
        int, _between("connections", 1, 1_000_000, "Connections in their handshake; one more closes the oldest."), LIVE
    ] = 1_024
    prefixes_per_client: Annotated[
        int,
        _between("prefixes", 1, 10_000_000, "Prefixes that a client may subscribe to; one more is rejected with 1008."),
    ] = 1_000
    rules_per_client: Annotated[
        int, _between("rules", 1, 10_000_000, "Rules that a client may subscribe by; one more is rejected with 1008.")
    ] = 1_000
    services_per_client: Annotated[
        int, _between("prefixes", 1, 10_000_000, "Prefixes that a client may serve; one more is rejected with 1008.")
    ] = 1_000
    prefixes_per_peer: Annotated[
        int,
        _between("prefixes", 1, 10_000_000, "Prefixes that a peer may subscribe to; one more is rejected with 1008."),
    ] = 100_000
    frame_bytes: Annotated[
        int, _size(_SMALLEST_FRAME_BYTES, GIB, "Largest body of a frame or WebSocket message; above it 1009.")
    ] = 16 * MIB
    handshake_bytes: Annotated[
        int, _size(_SMALLEST_FRAME_BYTES, 16 * MIB, "Most bytes read before the handshake ends."), LIVE
    ] = 64 * KIB
    handshake_s: Annotated[float, _seconds(0.1, 3600.0, "Time for the handshake, then closed."), LIVE] = 5.0
    tls_handshakes: Annotated[
        int, _between("handshakes", 1, 100_000, "TLS handshakes at one time; one more ends the oldest."), LIVE
    ] = 256
    tls_handshake_s: Annotated[float, _seconds(0.1, 3600.0, "Time for a TLS handshake, then closed."), LIVE] = 5.0
    ping_after_s: Annotated[float, _seconds(0.1, 86_400.0, "Silence after which a ping is sent."), LIVE] = 20.0
    ping_timeout_s: Annotated[
        float, _seconds(0.1, 3600.0, "Time for the answer to a ping, then closed with 1002."), LIVE
    ] = 10.0
    frame_s: Annotated[
        float, _seconds(1.0, 86_400.0, "Time for a frame, unless it grows fast enough; then 1002."), LIVE
    ] = 60.0
    frame_bytes_per_s: Annotated[int, _size(1, GIB, "Least growth per second of a frame that takes longer."), LIVE] = (
        KIB
    )
    linger_unread_s: Annotated[
        float, _seconds(0.1, 3600.0, "Time to read some of the remaining data after the hub closes."), LIVE
    ] = 10.0
    linger_s: Annotated[float, _seconds(0.1, 86_400.0, "Time to read all of it; then the rest is lost."), LIVE] = 60.0
    routes: Annotated[
        int, _between("routing keys", 1, 10_000_000, "Routing keys whose handlers are cached between messages.")
    ] = 65_536
    routes_bytes: Annotated[
        int, _size(64 * KIB, 64 * GIB, "Most memory of these routing keys; those with labels are long.")
    ] = 64 * MIB
    memory_bytes: Annotated[
        int,
        _size(
            0,
            16 * TIB,
            "Memory of the hub; above it queues drop, new work is rejected (1013); 0 is 60 % of the memory.",
        ),
    ] = 0
    drain_s: Annotated[
        float, _seconds(0.0, 3600.0, "Time to flush queues when the hub stops; 0 closes at once."), LIVE
    ] = 5.0


class DrainSettings(msgspec.Struct, frozen=True):
    """How clients are moved off a hub that is taken out of service (`hub drain`)."""

    clients_per_s: Annotated[
        int, _between("clients", 1, 10_000, "Clients per second that `hub drain` moves away."), LIVE
    ] = 100
    retry_after_s: Annotated[
        float, _seconds(0.1, 3600.0, "Each is given a delay between 0 and this to reconnect."), LIVE
    ] = 5.0
    time_s: Annotated[float, _seconds(0.1, 86_400.0, "Time for all clients; then the hub stops anyway."), LIVE] = 300.0


class UnixSettings(msgspec.Struct, frozen=True):
    """Access to Unix sockets."""

    mode: Annotated[
        str,
        _text(
            4,
            "Mode of Unix sockets; connecting needs write permission; '0660': owner and group.",
            r"^0?[0-7]{3}$",
            unit="three octal digits such as '0660'",
        ),
    ] = "0600"


class WebSocketSettings(msgspec.Struct, frozen=True):
    """Access from browsers."""

    origins: Annotated[
        tuple[Annotated[str, Meta(pattern=_ORIGIN)], ...],
        _texts(
            "origins such as 'https://example.org'",
            "Origins of web pages that may connect, besides the hub's own page.",
        ),
        LIVE,
    ] = ()
    hosts: Annotated[
        tuple[Annotated[str, Meta(pattern=_HOST_NAME)], ...],
        _texts(
            "host names such as 'hub.example.org'",
            "Host names for browsers, besides addresses and private names; `*` is any.",
        ),
        LIVE,
    ] = ()


class HttpSettings(msgspec.Struct, frozen=True):
    """Limits of plain HTTP."""

    body_bytes: Annotated[
        int, _size(1, TIB, "Largest body of a POST; above it 413. Only one value or line is held at a time."), LIVE
    ] = GIB


class TlsSettings(msgspec.Struct, frozen=True):
    """Certificates of the hub at `tls://` and `wss://`, and to peer hubs that it dials there."""

    certificate: Annotated[str, _file("PEM file of the hub's certificate and its chain."), LIVE] = ""
    key: Annotated[
        str, _file("PEM file of the key of that certificate; empty if the certificate's file has it."), LIVE
    ] = ""
    ca: Annotated[
        str, _file("PEM file of the authorities for clients and peer hubs; empty: for peer hubs the system's."), LIVE
    ] = ""
    crl: Annotated[
        str,
        _file("PEM file of the revocation lists, one for each authority; empty: nothing is revoked."),
        LIVE,
    ] = ""
    clients: Annotated[
        Literal["any", "asked", "required"],
        Meta(description="Client certificates, signed by `tls.ca`: not requested, optional, required."),
    ] = "any"
    minimum: Annotated[Literal["1.2", "1.3"], Meta(description="Oldest version of TLS that listeners speak.")] = "1.2"


class AccessSettings(msgspec.Struct, frozen=True):
    """Authentication and permissions of users. Nothing set: every client on this machine may do everything."""

    policy: Annotated[
        str, _file("TOML file of roles, users and permissions; empty: only the built-in roles."), LIVE
    ] = ""
    tokens: Annotated[str, _file("File of hashed tokens, which `hub token` writes."), LIVE] = ""
    admin_token: Annotated[
        str, _file("File of the admin's token, created if missing; empty: only if other machines could connect."), LIVE
    ] = ""
    anonymous: Annotated[
        str, _text(_NAME_BYTES, "Role of clients without credentials; empty: refused.", _ROLE), LIVE
    ] = ""
    reload_closes: Annotated[
        int,
        _between("%", 0, 100, "Share of connections that a new policy may close without `--force`, if over ten."),
        LIVE,
    ] = 50
    peer_token: Annotated[str, _file("File of the token that this hub sends to the hubs that it dials."), LIVE] = ""
    jwt_keys: Annotated[str, _file("JWKS or PEM file of the keys that sign JWTs."), LIVE] = ""
    jwt_issuer: Annotated[str, _text(_CLAIM_BYTES, "Issuer (`iss`) that a JWT must have."), LIVE] = ""
    jwt_audience: Annotated[str, _text(_CLAIM_BYTES, "Audience (`aud`) that a JWT must be for."), LIVE] = ""
    jwt_user: Annotated[str, _text(_CLAIM_BYTES, "JWT claim that holds the user's name."), LIVE] = "sub"
    jwt_roles: Annotated[
        str, _text(_CLAIM_BYTES, "JWT claim that holds roles, added to those of the policy."), LIVE
    ] = "roles"


class NamesSettings(msgspec.Struct, frozen=True):
    """How many service names there may be."""

    per_client: Annotated[
        int, _between("names", 1, 100_000, "Names that a client may own or wait for; one more is rejected with 1008.")
    ] = 64
    queue: Annotated[
        int, _between("clients", 1, 100_000, "Clients that may wait for one name; one more is rejected with 1013.")
    ] = 64
    total: Annotated[
        int, _between("names", 1, 10_000_000, "All names, also of peer hubs; one more is rejected with 1013.")
    ] = 100_000
    per_peer: Annotated[
        int, _between("names", 1, 10_000_000, "Names that a peer hub may announce; one more is rejected with 1008.")
    ] = 100_000


class MeshSettings(msgspec.Struct, frozen=True):
    """How much a hub keeps of the other hubs of its mesh."""

    hubs: Annotated[int, _between("hubs", 2, 100_000, "Known hubs of the mesh; one more is rejected (1013).")] = 4_096
    links: Annotated[
        int, _between("links", 1, 100_000, "Links another hub may announce; one with more is rejected (1007).")
    ] = 1_024
    prefixes: Annotated[
        int,
        _between(
            "prefixes",
            1,
            100_000_000,
            "Stored of all hubs, at most one per 8 KiB of memory; a hub with more is sent all.",
        ),
    ] = 1_000_000


class ZeekSettings(msgspec.Struct, frozen=True):
    """Settings for all Zeeks that this hub peers with."""

    certificate: Annotated[
        str, _file("PEM file of the hub's certificate and its chain; with it TLS is mutual, without it anonymous.")
    ] = ""
    key: Annotated[str, _file("PEM file of the key of that certificate.")] = ""
    ca: Annotated[str, _file("PEM file of the authorities of Zeeks' certificates.")] = ""
    curve_key: Annotated[
        str, _file("File of the secret CURVE key of `zeek+zmq://` and `zeek+log://` listeners; empty: no CURVE.")
    ] = ""
    curve_clients: Annotated[
        str, _file("File of the public CURVE keys of nodes that may connect there, one a line."), LIVE
    ] = ""
    curve_broker: Annotated[
        str, _file("File of the public CURVE key of `zeek+zmq://` brokers that are dialled; empty: no CURVE.")
    ] = ""
    curve_node_key: Annotated[str, _file("File of this hub's own secret CURVE key as a node there.")] = ""
    topics: Annotated[
        tuple[_Prefix, ...],
        _texts("prefixes such as '/zeek/'", "Prefixes requested from Zeeks even without subscribers here."),
    ] = ()
    role: Annotated[
        str, _text(_NAME_BYTES, "Role of all Zeeks; empty: they are users by their certificates.", _ROLE), LIVE
    ] = ""
    stores: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=1024)], ...],
        _texts(
            "beginnings of names such as 'zeek/known/'",
            "Name prefixes of Zeeks' data stores; prefixes that cover one are not requested.",
        ),
    ] = ("zeek/known/", "___sync_store_")
    masters: Annotated[
        tuple[_StoreName, ...],
        _texts("texts STORE or NAME=STORE", "Stores of this hub that Zeeks may clone, optionally under other names."),
    ] = ()
    clones: Annotated[
        tuple[_StoreName, ...],
        _texts(
            "texts STORE or NAME=STORE", "Stores of this hub that follow stores of Zeeks, optionally of other names."
        ),
    ] = ()
    forwarding: Annotated[
        Literal["on", "off"],
        Meta(description="Whether messages of one Zeek go to other Zeeks; off if these are peered with each other."),
    ] = "on"


class JournalSettings(msgspec.Struct, frozen=True):
    """Recording of messages."""

    path: Annotated[str, _file("Folder of the journal, created if missing; empty records nothing.")] = ""
    of: Annotated[
        str,
        _text(
            _NAME_BYTES, "Name or id of the mesh's hub whose journal this hub's clients use; not together with a path."
        ),
    ] = ""
    topics: Annotated[tuple[_Prefix, ...], _texts("prefixes such as '/zeek/'", "Prefixes of recorded topics.", 1)] = (
        "/",
    )
    sync: Annotated[
        Literal["normal", "full"],
        Meta(description="Failures a confirmed message survives: normal, a killed hub; full, power loss too."),
    ] = "normal"
    compression: Annotated[
        Literal["zstd", "none"],
        Meta(description="Compression of blocks, except those that arrive too fast or would not shrink."),
    ] = "zstd"
    commit_s: Annotated[
        float, _seconds(0.001, 10.0, "Time to collect messages before they are committed together.")
    ] = 0.01
    buffer_bytes: Annotated[
        int, _size(64 * KIB, 64 * GIB, "Data not committed yet; above it publishers are not read from.")
    ] = 32 * MIB
    keep_bytes: Annotated[int, _size(64 * KIB, 1024 * TIB, "Journal size above which oldest files are deleted.")] = (
        64 * GIB
    )
    keep_s: Annotated[float, _seconds(1.0, FOREVER_S, "Age above which records are deleted, a file at a time.")] = (
        366 * 86_400.0
    )
    readers: Annotated[int, _between("processes", 1, 64, "Reader processes for clients, each started when needed.")] = 2
    fetch_s: Annotated[float, _seconds(0.1, 3600.0, "Time without a byte from a reader; then it is ended (1013).")] = (
        30.0
    )
    staged_bytes: Annotated[
        int, _size(64 * KIB, 64 * GIB, "Staged data that waits for COMMIT; above it STAGE is rejected.")
    ] = 512 * MIB
    staged_s: Annotated[
        float, _seconds(1.0, 86_400.0, "Time that staged data waits for COMMIT before it is dropped.")
    ] = 600.0
    consumers: Annotated[
        int, _between("consumers", 1, 100_000, "Named consumers that the hub keeps; one more is rejected.")
    ] = 1_000
    user_consumers: Annotated[
        int, _between("consumers", 1, 100_000, "Named consumers of one user; one more is rejected.")
    ] = 250
    consumer_messages: Annotated[
        int,
        _between(
            "messages",
            1,
            1_000_000,
            "Messages read ahead of a consumer's oldest unacknowledged one; then reading waits for it.",
        ),
    ] = 10_000
    consumer_bytes: Annotated[
        int, _size(64 * KIB, TIB, "Unacknowledged data held for a consumer; above it no more is read.")
    ] = 8 * MIB
    tier: Annotated[
        str, _file("Folder or s3://bucket/prefix that sealed segments are copied to and read from; empty for none.")
    ] = ""
    tier_keep_bytes: Annotated[int, _size(64 * KIB, 1024 * TIB, "Size above which its oldest files are deleted.")] = (
        1024 * TIB
    )
    tier_keep_s: Annotated[float, _seconds(1.0, FOREVER_S, "Age above which they are deleted.")] = FOREVER_S
    tier_behind_bytes: Annotated[
        int, _size(64 * KIB, 1024 * TIB, "Journal size up to which uncopied records are not deleted.")
    ] = 256 * GIB


class StoresSettings(msgspec.Struct, frozen=True):
    """Stores that this hub is the master of, and the limits of each."""

    open: Annotated[tuple[_StorePath, ...], _texts("texts NAME=FILE or NAME=:memory:", "Stores of this hub.")] = ()
    feeds: Annotated[
        tuple[_StorePath, ...], _texts("texts NAME=PREFIX", "Stores that keep the last message of each topic.")
    ] = ()
    feed_expires_s: Annotated[
        float, _seconds(0.1, FOREVER_S, "Lifetime of such a message; the maximum is for ever.")
    ] = FOREVER_S
    sync: Annotated[
        Literal["normal", "full"],
        Meta(description="Failures a confirmed change survives: normal, a killed hub; full, power loss too."),
    ] = "normal"
    entries: Annotated[int, _between("entries", 1, 100_000_000, "Entries of one store.")] = 1_000_000
    bytes: Annotated[int, _size(64 * KIB, TIB, "Memory of these, 200 bytes added for each entry.")] = 512 * MIB
    user_entries: Annotated[
        int, _between("entries", 1, 100_000_000, "Entries of one store that one user wrote last.")
    ] = 1_000_000
    user_bytes: Annotated[int, _size(KIB, TIB, "Memory of these.")] = 512 * MIB
    entry_bytes: Annotated[
        int, _size(64, 16 * MIB, "Longest key and value of an entry together; a frame must hold them.")
    ] = 512 * KIB
    changes: Annotated[
        int, _between("changes", 1, 100_000_000, "Last changes that a store keeps for readers that missed any.")
    ] = 65_536
    changes_bytes: Annotated[int, _size(64 * KIB, TIB, "Memory of these.")] = 16 * MIB


class LogSettings(msgspec.Struct, frozen=True):
    """Level and form of the log."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Lowest level that is written."), LIVE
    ] = "info"
    format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="Form of a line; auto is text on a terminal and JSON otherwise."),
        LIVE,
    ] = "auto"
    queue_bytes: Annotated[int, _size(4 * KIB, GIB, "Lines that are not read yet; further ones are dropped."), LIVE] = (
        MIB
    )


class SharedMemorySettings(msgspec.Struct, frozen=True):
    """Memory that clients on the same machine hand over instead of bytes."""

    over_bytes: Annotated[
        int, _size(0, GIB, "Values larger than this travel as shared memory over Unix sockets; 0 for none.")
    ] = 64 * KIB
    descriptors: Annotated[
        int, _between("descriptors", 1, 1_000_000, "Open at one time; beyond that, messages are copied.")
    ] = 1024
    client_descriptors: Annotated[
        int, _between("descriptors", 1, 1_000_000, "The same for one client, as sender and as receiver.")
    ] = 64
    client_bytes: Annotated[
        int, _size(64 * KIB, TIB, "Bytes sent to a client and not taken yet; then its queue fills.")
    ] = 64 * MIB
    segments: Annotated[int, _between("segments", 0, 1000, "Segments of blocks of one client.")] = 4
    segment_bytes: Annotated[int, _size(64 * KIB, TIB, "Largest segment.")] = 256 * MIB


class QuotaSettings(msgspec.Struct, frozen=True):
    """Totals of resources that users share, where there is no other key; see docs/quotas.md."""

    queued_bytes: Annotated[
        int, _size(0, 16 * TIB, "Queued for slow clients of all users; 0 is half of the hub's memory.")
    ] = 0
    prefixes: Annotated[
        int, _between("prefixes", 0, 10**9, "Prefixes of all users together; 0 is one for each 8 KiB of the memory.")
    ] = 0
    rules: Annotated[
        int, _between("rules", 0, 10**9, "Rules of all users together; 0 is one for each 16 KiB of the memory.")
    ] = 0
    services: Annotated[
        int, _between("prefixes", 0, 10**9, "Prefixes that users serve; 0 is one for each 16 KiB of the memory.")
    ] = 0


class QueueMaximum(msgspec.Struct, frozen=True):
    """The largest queue that a client may wish for; a larger wish is granted this much."""

    messages: Annotated[
        int, _between("messages", 1, 10**9, "Most messages that a client or a listener's URL may ask for."), LIVE
    ] = 1_000_000
    bytes: Annotated[
        int, _size(_SMALLEST_QUEUE_BYTES, TIB, "Most memory that a client or a listener's URL may ask for."), LIVE
    ] = 256 * MIB


# A billion messages or a tebibyte is no useful bound: above it is a slip of the keyboard.
_QueueMessages = Annotated[int, _between("messages", 1, 10**9, "Most messages that a queue holds."), LIVE]
_QueueBytes = Annotated[int, _size(_SMALLEST_QUEUE_BYTES, TIB, "Most memory of the messages in a queue."), LIVE]

_QueueOverflow = Annotated[
    Overflow,
    Meta(
        description="Dropped when the queue is full: everything and the connection, the oldest, or the newest message."
    ),
    LIVE,
]

_LONGEST_TIMEOUT_S = 86_400.0

# The annotations of keys by their paths, for sections whose classes the core itself needs.
RANGED: Mapping[str, Any] = {
    "queue.messages": _QueueMessages,
    "queue.bytes": _QueueBytes,
    "queue.overflow": _QueueOverflow,
    "requests.pending": Annotated[
        int, _between("requests", 1, 10**9, "Unanswered requests of one client; one more overflows.")
    ],
    "requests.pending_total": Annotated[
        int, _between("requests", 1, 10**9, "Unanswered requests in total; one more overflows.")
    ],
    "requests.timeout_s": Annotated[
        float, _seconds(0.01, _LONGEST_TIMEOUT_S, "Time for an answer if a request sets none.")
    ],
    "requests.timeout_max_s": Annotated[
        float, _seconds(0.01, _LONGEST_TIMEOUT_S, "Longest time that a request may ask for; more is cut to it.")
    ],
}


class Settings(msgspec.Struct, frozen=True):
    """Everything that can be set on a hub."""

    name: Annotated[str, _text(_NAME_BYTES, "Name shown to clients and peers; empty is the host's name.")] = ""
    listen: Annotated[tuple[_Url, ...], _texts("URLs such as 'tcp://127.0.0.1:7400'", "URLs of the listeners.", 1)] = (
        "tcp://127.0.0.1:7400",
        "ws://127.0.0.1:7401",
    )
    peers: Annotated[
        tuple[_Url, ...],
        _texts(
            "URLs such as 'tcp://hub.example.org:7400'",
            "Hubs that this one dials, and dials again when a link is lost.",
        ),
    ] = ()
    workers: Annotated[
        int, _between("processes", 1, 64, "Processes that serve clients; more than one share the ports of one machine.")
    ] = 1
    queue: QueueLimits = QueueLimits()
    queue_max: QueueMaximum = QueueMaximum()
    limits: Limits = Limits()
    drain: DrainSettings = DrainSettings()
    requests: RequestLimits = RequestLimits()
    websocket: WebSocketSettings = WebSocketSettings()
    http: HttpSettings = HttpSettings()
    tls: TlsSettings = TlsSettings()
    access: AccessSettings = AccessSettings()
    zeek: ZeekSettings = ZeekSettings()
    names: NamesSettings = NamesSettings()
    mesh: MeshSettings = MeshSettings()
    quotas: QuotaSettings = QuotaSettings()
    journal: JournalSettings = JournalSettings()
    stores: StoresSettings = StoresSettings()
    shm: SharedMemorySettings = SharedMemorySettings()
    unix: UnixSettings = UnixSettings()
    log: LogSettings = LogSettings()
