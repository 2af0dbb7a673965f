"""`Settings`: what can be set on a hub, in which unit and range, and what it is without being set.

The annotations carry it all, so that documentation, environment and command line are made from them (`hub.keys`).

Owner of the state: nobody, these are frozen values. The constructors do not check: who builds a `Settings` by hand
vouches for the values. Few keys use 0 for "none" (`limits.counted_topics`, `limits.drain_s`, `mesh.degree`,
`shm.over_bytes`, `shm.segments`, `telemetry.every`); `limits.memory_bytes` and the keys of `quotas` use it for "as much
as there is allows".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from hub.limits import ADDRESSES_LIMIT, RequestLimits
from hub.overflow import Overflow, QueueLimits

__all__ = [
    "FOREVER_S",
    "RANGED",
    "AccessSettings",
    "DrainSettings",
    "HttpSettings",
    "JournalSettings",
    "Limits",
    "LogSettings",
    "NamesSettings",
    "QueueMaximum",
    "QuotaSettings",
    "Settings",
    "SharedMemorySettings",
    "StoresSettings",
    "TelemetrySettings",
    "TlsSettings",
    "UnixSettings",
    "WebSocketSettings",
    "ZeekSettings",
]

_KIB = 1024
_MIB = 1024 * _KIB
_GIB = 1024 * _MIB
_TIB = 1024 * _GIB

FOREVER_S = 100 * 366 * 86_400.0
"""A hundred years, seconds."""

_NAME_BYTES = 64
"""The wire's HELLO takes names of up to 64 bytes."""

_SMALLEST_FRAME_BYTES = 4 * _KIB
"""A subscription to one prefix of the greatest length (1024 bytes) and a browser's HTTP request both fit."""

_SMALLEST_QUEUE_BYTES = _KIB
"""Below this a queue holds no message of ordinary size, which would be "drop all" under another name."""

_PATH_BYTES = 4096
"""PATH_MAX of Linux."""

_URL_BYTES = 2048

_CLAIM_BYTES = 1024
"""Issuers are URLs, which have a few dozen characters."""

_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]*$"

_ORIGIN = r"^(null|[a-z][a-z0-9+.-]*://[^/?#@\s\x00-\x1f\x7fA-Z]+)$"
"""An origin as browsers send it: scheme, host, perhaps a port. Capitals or a slash at its end would never match."""

_HOST_NAME = r"^(\*|[^\s/?#@:\[\]\\\x00-\x1f\x7fA-Z]{1,253})$"
"""A host name as browsers send it, without a port; or `*`."""

_Urls = Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=2048)]

_LIVE = Meta(extra={"live": True})
"""A reload changes it, for those who come and for what is due from then on. Other keys need a restart: what was made of
them at the start stays as it was made."""


def _between(unit: str, least: float, most: float, description: str) -> Meta:
    """Describe a number of `unit` within a closed range."""
    return Meta(ge=least, le=most, description=description, extra={"unit": unit})


# A billion messages or a tebibyte is no bound that anybody means: above it is a slip of the keyboard.
_QueueMessages = Annotated[int, _between("messages", 1, 10**9, "Most messages that a queue holds."), _LIVE]
_QueueBytes = Annotated[
    int, _between("bytes", _SMALLEST_QUEUE_BYTES, _TIB, "Most memory that the messages in a queue take."), _LIVE
]
_QueueOverflow = Annotated[
    Overflow,
    Meta(
        description="What goes when the queue is full: "
        "everything and the connection, the oldest, or the newest message."
    ),
    _LIVE,
]

_LONGEST_TIMEOUT_S = 86_400.0

_REQUESTS_RANGED: Mapping[str, Any] = {
    "requests.pending": Annotated[
        int, _between("requests", 1, 10**9, "Requests of one client without an answer yet; one more overflows.")
    ],
    "requests.pending_total": Annotated[
        int, _between("requests", 1, 10**9, "Requests of all without an answer yet; one more overflows.")
    ],
    "requests.timeout_s": Annotated[
        float, _between("seconds", 0.01, _LONGEST_TIMEOUT_S, "Time for an answer where a request does not say it.")
    ],
    "requests.timeout_max_s": Annotated[
        float,
        _between("seconds", 0.01, _LONGEST_TIMEOUT_S, "Longest time that a request may ask for; more is cut to it."),
    ],
}


class QueueMaximum(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The largest queue that a client may wish for; a larger wish is granted this much."""

    messages: Annotated[
        int, _between("messages", 1, 10**9, "Most messages that a client or a listener's URL may ask for."), _LIVE
    ] = 1_000_000
    bytes: Annotated[
        int,
        _between("bytes", _SMALLEST_QUEUE_BYTES, _TIB, "Most memory that a client or a listener's URL may ask for."),
        _LIVE,
    ] = 256 * _MIB


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one hub takes from its clients, and how long it waits for them."""

    connections: Annotated[
        int, _between("connections", 1, 1_000_000, "Connections open at one time; one more is closed with 1013."), _LIVE
    ] = 10_000
    connections_per_address: Annotated[
        int,
        _between("connections", 1, 1_000_000, "Of these, from one address that is not this machine's; one more: 1013."),
        _LIVE,
    ] = 5_000
    newcomers: Annotated[
        int,
        _between(
            "connections", 1, 1_000_000, "Connections before the end of their handshake; one more ends the oldest."
        ),
        _LIVE,
    ] = 1_024
    prefixes_per_client: Annotated[
        int,
        _between("prefixes", 1, 10_000_000, "Prefixes that a client may subscribe to; one more is refused with 1008."),
    ] = 1_000
    rules_per_client: Annotated[
        int,
        _between("rules", 1, 10_000_000, "Rules that a client may subscribe by; one more is refused with 1008."),
    ] = 1_000
    services_per_client: Annotated[
        int,
        _between("prefixes", 1, 10_000_000, "Prefixes that a client may serve; one more is refused with 1008."),
    ] = 1_000
    prefixes_per_peer: Annotated[
        int,
        _between("prefixes", 1, 10_000_000, "Prefixes that a peer may subscribe to; one more is refused with 1008."),
    ] = 100_000
    rules_per_peer: Annotated[
        int,
        _between("rules", 1, 10_000_000, "Rules that a peer hub may subscribe by; one more is refused with 1008."),
    ] = 100_000
    services_per_peer: Annotated[
        int,
        _between("prefixes", 1, 10_000_000, "Prefixes that a peer hub may serve; one more is refused with 1008."),
    ] = 100_000
    frame_bytes: Annotated[
        int,
        _between("bytes", _SMALLEST_FRAME_BYTES, _GIB, "Largest body of a frame or WebSocket message; above it 1009."),
    ] = 16 * _MIB
    handshake_bytes: Annotated[
        int,
        _between("bytes", _SMALLEST_FRAME_BYTES, 16 * _MIB, "Most that is read before the handshake is over."),
        _LIVE,
    ] = 64 * _KIB
    handshake_s: Annotated[float, _between("seconds", 0.1, 3600.0, "Time for the handshake, then closed."), _LIVE] = 5.0
    tls_handshakes: Annotated[
        int, _between("handshakes", 1, 100_000, "TLS handshakes at one time; one more ends the oldest."), _LIVE
    ] = 256
    tls_handshake_s: Annotated[
        float, _between("seconds", 0.1, 3600.0, "Time for a TLS handshake, then closed."), _LIVE
    ] = 5.0
    ping_after_s: Annotated[float, _between("seconds", 0.1, 86_400.0, "Silence after which a ping is sent."), _LIVE] = (
        20.0
    )
    ping_timeout_s: Annotated[
        float, _between("seconds", 0.1, 3600.0, "Time for the answer to a ping, then closed with 1002."), _LIVE
    ] = 10.0
    frame_s: Annotated[
        float, _between("seconds", 1.0, 86_400.0, "Time for a frame, unless it grows fast enough; then 1002."), _LIVE
    ] = 60.0
    frame_bytes_per_s: Annotated[
        int, _between("bytes", 1, _GIB, "What a frame that takes longer must grow by in a second."), _LIVE
    ] = _KIB
    linger_unread_s: Annotated[
        float,
        _between("seconds", 0.1, 3600.0, "Time to read something of what is left when the hub has closed."),
        _LIVE,
    ] = 10.0
    linger_s: Annotated[
        float, _between("seconds", 0.1, 86_400.0, "Time to read all of that; then the rest is lost."), _LIVE
    ] = 60.0
    routes: Annotated[
        int, _between("routing keys", 1, 10_000_000, "Routing keys whose handlers are remembered between messages.")
    ] = 65_536
    routes_bytes: Annotated[
        int, _between("bytes", 64 * _KIB, 64 * _GIB, "Most memory that those routing keys take; long ones bear labels.")
    ] = 64 * _MIB
    counted_topics: Annotated[
        int, _between("topics", 0, 1_000_000, "Topics of which rates are known (`$hub/topics`), the busiest; 0: none.")
    ] = 4_096
    memory_bytes: Annotated[
        int,
        _between(
            "bytes",
            0,
            16 * _TIB,
            "Memory of the hub; above it queues drop, what is new is refused (1013); 0 is 60 % of what there is.",
        ),
    ] = 0
    drain_s: Annotated[
        float, _between("seconds", 0.0, 3600.0, "Time to flush queues when the hub stops; 0 closes at once."), _LIVE
    ] = 5.0


class DrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How clients are moved off a hub that is taken out of service (`hub drain`)."""

    clients_per_s: Annotated[
        int, _between("clients", 1, 10_000, "How many clients a second `hub drain` moves off."), _LIVE
    ] = 100
    retry_after_s: Annotated[
        float, _between("seconds", 0.1, 3600.0, "Each is told to come back after a time between 0 and this."), _LIVE
    ] = 5.0
    time_s: Annotated[
        float, _between("seconds", 0.1, 86_400.0, "Time for all of that; then the hub stops anyway."), _LIVE
    ] = 300.0


class WebSocketSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may connect from a browser."""

    origins: Annotated[
        tuple[Annotated[str, Meta(pattern=_ORIGIN)], ...],
        Meta(
            description="Web pages (by origin) that may connect, beside the hub's own page.",
            extra={"unit": "origins such as 'https://example.org'"},
        ),
        _LIVE,
    ] = ()
    hosts: Annotated[
        tuple[Annotated[str, Meta(pattern=_HOST_NAME)], ...],
        Meta(
            description="Names that browsers may reach the hub by, beside addresses and private names; `*` is any.",
            extra={"unit": "host names such as 'hub.example.org'"},
        ),
        _LIVE,
    ] = ()


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What clients may send over plain HTTP."""

    body_bytes: Annotated[
        int,
        _between(
            "bytes", 1, _TIB, "Largest body of a POST, of which no more is held than one value or line; then 413."
        ),
        _LIVE,
    ] = _GIB


def _path(description: str) -> Meta:
    """Describe the path of a file, empty for none."""
    return Meta(pattern=_PRINTABLE, description=description, extra={"most_bytes": _PATH_BYTES})


def _claim(description: str) -> Meta:
    """Describe a claim of a JWT: its name, or what it must hold."""
    return Meta(pattern=_PRINTABLE, description=description, extra={"most_bytes": _CLAIM_BYTES})


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the hub shows at `tls://` and `wss://`, and to peer hubs that it dials there."""

    certificate: Annotated[str, _path("PEM file of the hub's certificate and its chain."), _LIVE] = ""
    key: Annotated[
        str, _path("PEM file of the key of that certificate; empty where the certificate's file has it."), _LIVE
    ] = ""
    ca: Annotated[
        str,
        _path("PEM file of the authorities that vouch for clients and peer hubs; empty: for peer hubs the system's."),
        _LIVE,
    ] = ""
    clients: Annotated[
        Literal["any", "asked", "required"],
        Meta(description="Whether clients are asked for a certificate of `tls.ca`: never, if they have one, always."),
    ] = "any"
    minimum: Annotated[Literal["1.2", "1.3"], Meta(description="Oldest version of TLS that listeners speak.")] = "1.2"


class AccessSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How users are recognised, and what they may do. Nothing set: everybody on this machine may do everything."""

    policy: Annotated[
        str, _path("TOML file of roles, users, and what each may do; empty: the built-in roles alone."), _LIVE
    ] = ""
    tokens: Annotated[str, _path("File of hashed tokens, which `hub token` writes."), _LIVE] = ""
    admin_token: Annotated[
        str,
        _path("File of the admin's token, made if it is not there; empty: only where strangers could come in."),
        _LIVE,
    ] = ""
    anonymous: Annotated[
        str,
        Meta(
            pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63})?$",
            description="Role of those who show nothing; empty: they are not let in.",
            extra={"most_bytes": _NAME_BYTES},
        ),
        _LIVE,
    ] = ""
    peer_token: Annotated[str, _path("File of the token that this hub shows to the hubs that it dials."), _LIVE] = ""
    jwt_keys: Annotated[str, _path("JWKS or PEM file of the keys that sign JWTs."), _LIVE] = ""
    jwt_issuer: Annotated[str, _claim("Issuer (`iss`) that a JWT must have."), _LIVE] = ""
    jwt_audience: Annotated[str, _claim("Audience (`aud`) that a JWT must be for."), _LIVE] = ""
    jwt_user: Annotated[str, _claim("Claim of a JWT that holds the user's name."), _LIVE] = "sub"
    jwt_roles: Annotated[str, _claim("Claim of a JWT that holds roles, beside those of the policy."), _LIVE] = "roles"


class ZeekSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is common to all Zeeks that this hub peers with."""

    certificate: Annotated[
        str, _path("PEM file of the hub's certificate and its chain; with it TLS is mutual, without it anonymous.")
    ] = ""
    key: Annotated[str, _path("PEM file of the key of that certificate.")] = ""
    ca: Annotated[str, _path("PEM file of the authorities that vouch for Zeeks' certificates.")] = ""
    curve_key: Annotated[
        str, _path("File of the secret CURVE key that `zeek+zmq://` and `zeek+log://` listeners have; empty: no CURVE.")
    ] = ""
    curve_clients: Annotated[
        str, _path("File of the public CURVE keys of nodes that may connect there, one a line."), _LIVE
    ] = ""
    curve_broker: Annotated[
        str, _path("File of the public CURVE key of the brokers of `zeek+zmq://` that are dialled; empty: no CURVE.")
    ] = ""
    curve_node_key: Annotated[str, _path("File of the secret CURVE key that this hub has as a node there.")] = ""
    topics: Annotated[
        tuple[Annotated[str, Meta(max_length=1024)], ...],
        Meta(
            description="Prefixes that Zeeks are asked for even while nobody here subscribes to them.",
            extra={"unit": "prefixes such as '/zeek/'"},
        ),
    ] = ()
    role: Annotated[
        str,
        Meta(
            pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63})?$",
            description="Role of all Zeeks; empty: they are users by their certificates.",
            extra={"most_bytes": _NAME_BYTES},
        ),
        _LIVE,
    ] = ""
    stores: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=1024)], ...],
        Meta(
            description="What names of Zeeks' data stores begin with; no Zeek is asked for what covers one.",
            extra={"unit": "beginnings of names such as 'zeek/known/'"},
        ),
    ] = ("zeek/known/", "___sync_store_")
    masters: Annotated[
        tuple[Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=1024)], ...],
        Meta(
            description="Stores of this hub that Zeeks may clone, by other names where they are to have any.",
            extra={"unit": "texts STORE or NAME=STORE"},
        ),
    ] = ()
    clones: Annotated[
        tuple[Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=1024)], ...],
        Meta(
            description="Stores of this hub that follow stores of Zeeks, by other names where those have any.",
            extra={"unit": "texts STORE or NAME=STORE"},
        ),
    ] = ()
    forwarding: Annotated[
        Literal["on", "off"],
        Meta(description="Whether what one Zeek publishes goes to other Zeeks; off where they are peered themselves."),
    ] = "on"


class NamesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many service names there may be."""

    per_client: Annotated[
        int, _between("names", 1, 100_000, "Names that a client may own or wait for; one more is refused with 1008.")
    ] = 64
    queue: Annotated[
        int, _between("clients", 1, 100_000, "Clients that may wait for one name; one more is refused with 1013.")
    ] = 64
    total: Annotated[
        int, _between("names", 1, 10_000_000, "Names in all, with those of peer hubs; one more is refused with 1013.")
    ] = 100_000
    per_peer: Annotated[
        int, _between("names", 1, 10_000_000, "Names that a peer hub may announce; one more is refused with 1008.")
    ] = 100_000


class MeshSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much a hub keeps of the other hubs of its mesh, and where they find it."""

    advertise: Annotated[
        tuple[_Urls, ...],
        Meta(
            max_length=ADDRESSES_LIMIT,
            description="Where other hubs of the mesh may dial this one; they are told.",
            extra={"unit": f"at most {ADDRESSES_LIMIT} URLs such as 'tls://hub-1.example.org:7400'"},
        ),
    ] = ()

    degree: Annotated[
        int,
        _between(
            "ways",
            0,
            8,
            "Ways that this hub is to have to each other one; where there are fewer it dials spare links. 0 for none.",
        ),
    ] = 0
    hubs: Annotated[
        int,
        _between("hubs", 2, 100_000, "Hubs of the mesh that are known; one more is refused (1013)."),
    ] = 4_096
    links: Annotated[
        int, _between("links", 1, 100_000, "Links that another hub may tell of; one with more is refused (1007).")
    ] = 1_024
    prefixes: Annotated[
        int,
        _between(
            "prefixes",
            1,
            100_000_000,
            "Prefixes, rules, names of all other hubs, at most one for 8 KiB of memory; more are left out.",
        ),
    ] = 1_000_000


class QuotaSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What there is to be shared out among users, where no other key says it; see docs/quotas.md."""

    queued_bytes: Annotated[
        int,
        _between("bytes", 0, 16 * _TIB, "What may wait for slow clients of all users; 0 is half of the hub's memory."),
    ] = 0
    in_transit_bytes: Annotated[
        int,
        _between(
            "bytes",
            0,
            16 * _TIB,
            "What users' large frames may hold before they are complete, and what was written to them and not read; "
            "0 is a quarter of the hub's memory.",
        ),
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


class JournalSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether and how what the hub carries is recorded."""

    path: Annotated[str, _path("Folder of the journal, made where it is absent; empty records nothing.")] = ""
    of: Annotated[
        str,
        Meta(
            pattern=_PRINTABLE,
            description="Hub of the mesh whose journal clients of this one use, by its name or id; not beside a path.",
            extra={"most_bytes": _NAME_BYTES},
        ),
    ] = ""
    topics: Annotated[
        tuple[Annotated[str, Meta(max_length=1024)], ...],
        Meta(min_length=1, description="Prefixes of what is recorded.", extra={"unit": "prefixes such as '/zeek/'"}),
    ] = ("/",)
    sync: Annotated[
        Literal["normal", "full"],
        Meta(description="What a confirmed message survives: normal, that the hub is killed; full, power loss too."),
    ] = "normal"
    compression: Annotated[
        Literal["zstd", "none"],
        Meta(description="How blocks are stored; what comes too fast, or becomes no smaller, is not compressed."),
    ] = "zstd"
    regroup: Annotated[
        Literal["on", "off"],
        Meta(description="Whether sealed segments are written again, so that one topic is found among many at once."),
    ] = "on"
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
        int, _between("bytes", 64 * _KIB, 1024 * _TIB, "Size of its files above which the oldest are deleted.")
    ] = 64 * _GIB
    keep_s: Annotated[
        float, _between("seconds", 1.0, 100 * 366 * 86_400.0, "Age above which records are deleted, a file at a time.")
    ] = 366 * 86_400.0
    readers: Annotated[
        int, _between("processes", 1, 64, "Processes that read for clients, each once it is needed.")
    ] = 2
    fetch_s: Annotated[
        float, _between("seconds", 0.1, 3600.0, "Time without a byte from such a process; then it is ended: 1013.")
    ] = 30.0
    staged_bytes: Annotated[
        int,
        _between(
            "bytes", 64 * _KIB, 64 * _GIB, "What may wait for the COMMIT of its writer; above it STAGE is refused."
        ),
    ] = 512 * _MIB
    staged_s: Annotated[
        float, _between("seconds", 1.0, 86_400.0, "How long what was staged waits for its COMMIT before it is dropped.")
    ] = 600.0
    consumers: Annotated[
        int, _between("consumers", 1, 100_000, "Named consumers that the hub keeps; one more is refused.")
    ] = 1_000
    consumer_messages: Annotated[
        int,
        _between(
            "messages",
            1,
            1_000_000,
            "How far a consumer is read beyond its oldest message that is not acknowledged; then it waits for that.",
        ),
    ] = 10_000
    consumer_bytes: Annotated[
        int,
        _between(
            "bytes", 64 * _KIB, _TIB, "What is held for a consumer until it is acknowledged; then no more is read."
        ),
    ] = 8 * _MIB
    tier: Annotated[
        str, _path("Folder or s3://bucket/prefix to which sealed segments are copied, and read from; empty for none.")
    ] = ""
    tier_keep_bytes: Annotated[
        int, _between("bytes", 64 * _KIB, 1024 * _TIB, "Size above which its oldest files are deleted.")
    ] = 1024 * _TIB
    tier_keep_s: Annotated[float, _between("seconds", 1.0, FOREVER_S, "Age above which they are deleted.")] = FOREVER_S
    tier_behind_bytes: Annotated[
        int,
        _between("bytes", 64 * _KIB, 1024 * _TIB, "Size up to which records that are not copied yet are not deleted."),
    ] = 256 * _GIB


class StoresSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stores that this hub is the master of, and the limits of each."""

    open: Annotated[
        tuple[Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=_PATH_BYTES)], ...],
        Meta(description="Stores of this hub.", extra={"unit": "texts NAME=FILE or NAME=:memory:"}),
    ] = ()
    feeds: Annotated[
        tuple[Annotated[str, Meta(pattern=_PRINTABLE, min_length=1, max_length=_PATH_BYTES)], ...],
        Meta(description="Which stores keep the last message of each topic.", extra={"unit": "texts NAME=PREFIX"}),
    ] = ()
    feed_expires_s: Annotated[
        float, _between("seconds", 0.1, FOREVER_S, "How long such a message is kept; the most is for ever.")
    ] = FOREVER_S
    sync: Annotated[
        Literal["normal", "full"],
        Meta(description="What a confirmed change survives: normal, that the hub is killed; full, power loss too."),
    ] = "normal"
    entries: Annotated[int, _between("entries", 1, 100_000_000, "Entries of one store.")] = 1_000_000
    bytes: Annotated[
        int, _between("bytes", 64 * _KIB, _TIB, "The same in memory, 200 bytes for each entry counted.")
    ] = 512 * _MIB
    user_entries: Annotated[
        int, _between("entries", 1, 100_000_000, "Entries of one store that one user has written last.")
    ] = 1_000_000
    user_bytes: Annotated[int, _between("bytes", _KIB, _TIB, "The same in memory.")] = 512 * _MIB
    entry_bytes: Annotated[
        int, _between("bytes", 64, 16 * _MIB, "Longest key and value of an entry together; a frame must hold them.")
    ] = 512 * _KIB
    changes: Annotated[
        int, _between("changes", 1, 100_000_000, "The last changes that a store keeps for who has missed some.")
    ] = 65_536
    changes_bytes: Annotated[int, _between("bytes", 64 * _KIB, _TIB, "The same in memory.")] = 16 * _MIB


class SharedMemorySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What clients on the same machine may hand over as memory instead of bytes."""

    over_bytes: Annotated[
        int,
        _between("bytes", 0, _GIB, "Values larger than this travel as shared memory over Unix sockets; 0 for none."),
    ] = 64 * _KIB
    descriptors: Annotated[
        int, _between("descriptors", 1, 1_000_000, "Open at one time; what comes beyond them is copied.")
    ] = 1024
    client_descriptors: Annotated[
        int, _between("descriptors", 1, 1_000_000, "The same for one client: of what it sent, and of what it was sent.")
    ] = 64
    client_bytes: Annotated[
        int, _between("bytes", 64 * _KIB, _TIB, "What a client was sent and has not taken; then its queue fills.")
    ] = 64 * _MIB
    segments: Annotated[int, _between("segments", 0, 1000, "Segments of blocks that one client may bring.")] = 4
    segment_bytes: Annotated[int, _between("bytes", 64 * _KIB, _TIB, "Largest segment.")] = 256 * _MIB


class UnixSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may connect to Unix sockets."""

    mode: Annotated[
        str,
        Meta(
            pattern=r"^0?[0-7]{3}$",
            description="Permissions of Unix sockets: who may write may connect; '0660' is owner and group.",
            extra={"most_bytes": 4, "unit": "three octal digits such as '0660'"},
        ),
    ] = "0600"


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, and in which form."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="Least severe lines that are written."), _LIVE
    ] = "info"
    format: Annotated[
        Literal["auto", "text", "json"],
        Meta(description="Form of a line; auto is text on a terminal and JSON otherwise."),
        _LIVE,
    ] = "auto"
    queue_bytes: Annotated[
        int, _between("bytes", 4 * _KIB, _GIB, "Lines that nobody has read yet; what comes beyond is dropped."), _LIVE
    ] = _MIB


class TelemetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether some messages are followed, and who is told of it."""

    endpoint: Annotated[
        str,
        Meta(
            pattern=_PRINTABLE,
            description="Collector of OpenTelemetry that is sent spans by OTLP over HTTP; empty: nothing is followed.",
            extra={"unit": "a URL such as 'http://127.0.0.1:4318/v1/traces'", "most_bytes": _URL_BYTES},
        ),
    ] = ""
    every: Annotated[
        int,
        _between(
            "messages", 0, 10**9, "One of so many is followed; 0: only those that say which trace they belong to."
        ),
    ] = 1_000
    spans_per_s: Annotated[
        int, _between("spans", 1, 10_000, "Most that are made in a second; further ones are counted.")
    ] = 100
    queue_spans: Annotated[
        int, _between("spans", 1, 10**6, "Most that wait for the collector; further ones are lost, and counted.")
    ] = 2_048
    timeout_s: Annotated[
        float, _between("seconds", 0.1, 600.0, "Time for one request to the collector, repetitions included.")
    ] = 10.0
    headers: Annotated[
        str, _path("File of headers for each request, one a line, such as 'Authorization: Bearer ...'.")
    ] = ""


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
    telemetry: TelemetrySettings = TelemetrySettings()


RANGED: Mapping[str, Any] = {
    "queue.messages": _QueueMessages,
    "queue.bytes": _QueueBytes,
    "queue.overflow": _QueueOverflow,
    **_REQUESTS_RANGED,
}
"""`QueueLimits` and `RequestLimits` are values of the core and carry no ranges; these are those for what people set."""
