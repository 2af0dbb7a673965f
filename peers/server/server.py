"""`Server`: the core of one hub and the state that all its connections share: identity, limits, clock, counters."""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, Protocol, cast

import structlog

from hub.core import Core, Outside
from hub.errors import CloseCode, RejectedError
from hub.handlers.counters import Histogram
from hub.handlers.handler import Handler
from hub.limits import CoreLimits, HandlerLimits, MeshLimits, NameLimits, QueueLimits, RouteLimits
from hub.quotas import Quotas, Resource
from hub.requests.hub_services import Later
from hub.scheduling.memory import STAGED_PARTS
from hub.settings.settings import Settings
from hub.statistics.events import messages_lost
from peers.journal.consumers.remote_consumers import RemoteConsumers
from peers.journal.readers import PENDING_LIMIT
from peers.journal.remote_confirmations import Marks, RemoteConfirmations
from peers.journal.remote_journals import NoJournal, Recording, RemoteJournals
from peers.server.admission import Admission, Handshakes
from peers.server.audit import Audit
from peers.server.keepalive import Keepalive
from peers.server.links import Links, Vacancies
from peers.server.memory import budget, memory_limit_bytes
from peers.server.reading import CHANGES_PER_TURN, EVENTS_PER_TURN, QUEUE_S_BOUNDS, ReadBudget, ReadTimes
from peers.server.ticker import Ticker
from peers.server.traffic import Accounts, Loss, Traffic
from peers.shm.sharing import SharedMemory
from peers.stores.stores import Stores
from peers.users.access import Access
from peers.users.identity import Identity
from peers.users.users import read_users
from peers.wire.hello import MESH_VERSION, PROTOCOL, Hello, QueueWish
from peers.zeek.broker.stores.clone import Clone
from peers.zeek.broker.stores.command import covers_stores
from peers.zeek.broker.stores.forwarder import Forwarder
from peers.zeek.broker.stores.master import Master, MasterCounters
from peers.zeek.zmtp.discovery import Discovery

CLOCK_LATE_S: Final = 5.0  # How late work that is due once a second may be before the hub is unhealthy
HUB_STOPS: Final = "the hub stops"  # Reason of a close for everybody then


class LogStatistics(NamedTuple):
    """The log of a process at one moment; a hub within a program has no queue for it."""

    queued_bytes: int = 0
    limit_bytes: int = 0  # Of the queue; 0 without one
    dropped_lines_total: int = 0  # The queue was full
    suppressed_lines_total: int = 0  # Their event exceeded its rate
    trouble: str = ""


class Connected(Protocol):
    """An open connection of any kind."""

    address: str  # As `peers.transport.transport` shows it
    identity: Identity | None  # None before authentication, and where there is none
    handler: Handler | None  # Set once the far side has become a part of the hub
    since_s: float  # Of the loop's clock
    read_bytes: int
    software: str  # From HELLO; may be empty

    @property
    def how(self) -> str:
        """How its far side was recognised (`peers.users.identity`); may be empty."""

    @property
    def protocol(self) -> str:
        """Its protocol, as the scheme of a URL."""

    @property
    def tls(self) -> Any:
        """The `ssl.SSLObject` of the hub's own TLS, or None."""

    def drain(self, text: str = HUB_STOPS) -> None:
        """Write the queue, then close with 1001 and this text."""

    def wait_for_reader(self) -> None:
        """Read no further while the far side does not read the answers that it causes."""

    def end(self, code: int, text: str) -> None:
        """Close from this side, with a reason, and let the far side read it."""

    def abort(self) -> None: ...


class Whole(Protocol):
    """All processes of a hub that has workers."""

    def ask(self, what: str, value: Any = None, by: Handler | None = None) -> Later:
        """Ask all processes a question of `peers.workers.gathering`, and merge their answers; `by` is the asker."""


def connection_of(handler: Handler) -> Connected:
    """Return the connection of a handler that has one: clients, links and leaves do."""
    return cast("Connected", handler.outlet)


class Zeek:
    """The state that connections of Zeeks share. Counters are since the start."""

    def __init__(self, settings: Settings, hub_id: bytes) -> None:
        urls = (*settings.listen, *settings.peers)
        # Zeeks in clusters over ZeroMQ have no data stores.
        self._has_no_broker = any(url.startswith("zeek+zmq://") for url in urls) and not any(
            url.startswith(("zeek://", "zeek+tcp://", "zeek+ws://")) for url in urls
        )
        self._stores = settings.zeek.stores
        self._has_warned = False  # Of prefixes that cover data stores
        self.forwarder = Forwarder(hub_id, between_peers=settings.zeek.forwarding == "on")
        self.masters: dict[str, Master] = {}  # Stores of this hub that Zeeks may clone, by their name there
        self.copies: dict[str, Clone] = {}  # Stores of this hub that follow stores of Zeeks, by their name there
        self.master_counters = MasterCounters()
        self.clusters: dict[str, Discovery] = {}  # In which this hub is a named node, by broker
        self.clusters_left = 0  # Joined clusters that this hub leaves to other hubs of the mesh now
        self.tls_failures = 0  # TLS handshakes at `zeek://` listeners that failed
        self.failed_handshakes: Counter[str] = Counter()  # Over ZeroMQ, by reason
        self.broken_connections = 0  # Connections of nodes that were closed since they sent no ZMTP
        self.refused_subscriptions = 0  # Subscriptions of nodes that were rejected

    def may_ask(self, prefix: str) -> bool:
        """Return whether Zeeks are asked for a prefix: not for one that covers their data stores."""
        if self._has_no_broker or not covers_stores(prefix, self._stores):
            return True
        if not self._has_warned:
            self._has_warned = True
            structlog.get_logger("peers").warning(
                "Zeeks are not asked for a prefix that covers their data stores, but for zeek.topics", prefix=prefix
            )
        return False


class Server(Outside):
    """One hub; raises a `ConfigError` if a file of users (`access.*`) cannot be used."""

    whole: Whole | None = None  # Set where the hub has workers, before a client is served

    def __init__(self, settings: Settings, *, name: str = "hub", hub_id: bytes = b"") -> None:
        self.settings = settings
        self.origins: Mapping[str, str] = {}  # Source of each setting, by its path; the daemon sets it
        self.name = name
        self.id = hub_id or uuid.uuid4().bytes  # Broker tells no status of an endpoint whose id is not a UUID
        self.log: structlog.stdlib.BoundLogger = structlog.get_logger("peers")
        self.loop = asyncio.get_running_loop()
        self.zeek = Zeek(settings, self.id)
        self.memory = budget(memory_limit_bytes(settings.limits.memory_bytes, settings.workers))
        self.held = self.memory.account("connections")  # Incomplete frames, and bytes that transports have not written
        # Timers of the request that times out first, and of the next work in the mesh.
        self._expiry: asyncio.TimerHandle | None = None
        self._mesh_timer: asyncio.TimerHandle | None = None
        self._is_mesh_asked = False
        self.core = Core(
            self,
            core_limits(settings, self.memory.limit_bytes),
            asked_of_leaves=settings.zeek.topics,
            hub_id=self.id,
            hub_name=self.name,
            memory=self.memory,
            quotas=Quotas(totals(settings, self.memory.limit_bytes)),
        )
        self.keepalive = Keepalive(self.loop.time())
        self.events = ReadBudget(EVENTS_PER_TURN, self.after_turn)
        self.changes = ReadBudget(CHANGES_PER_TURN, self.after_turn)
        self.links = Links(self.id, self.keepalive, self.after_turn)
        self.vacancies, self.traffic = Vacancies(), Traffic()
        self.accounts = Accounts(self.keepalive, self._report_loss)
        self.handshakes = Handshakes(settings.limits, self.loop)
        self.tls_failures = 0  # Failed handshakes at `tls://` and `wss://` listeners
        self.lines = LogThrottle()  # For events that may come all the time: libzmq dials again ten times a second
        self.remote_journals = RemoteJournals(self.core, name, self.now_ms, lambda: self.journal)
        self.remote_confirmations = RemoteConfirmations(self.core, self.remote_journals.find, self.now_ms)
        self.marks = Marks(self.core, self.now_ms, lambda: self.journal)
        of = settings.journal.of
        self.remote_consumers = RemoteConsumers(self.core, of, self.remote_journals.find, self.now_ms)
        self.journal: Recording = (
            NoJournal("", of, self.remote_journals, self.remote_confirmations) if of else NoJournal()
        )
        self.shared = SharedMemory(settings.shm)
        self.stores = Stores(self.core, self.loop)
        # Names under which browsers may reach this hub, beside `websocket.hosts`: of this machine and of its listeners,
        # in lower case. The daemon sets them when it listens.
        self.host_names: frozenset[str] = frozenset()
        self.access = Access(read_users(settings.access, settings.zeek), self._now_s, time.time)
        self.core.authority.adopt(self.access.policy)
        self.admission = Admission(settings.limits)
        self.failed_connections = 0  # Ended by a bug of this hub
        self.received_bytes_before = 0  # On connections that are over
        self.read_times = ReadTimes()
        self.queue_times = Histogram(QUEUE_S_BOUNDS)  # Of messages for far sides that read too slowly
        # Connections ended because a frame was not completed (`limits.frame_s`), and those that had unread bytes when
        # their time was over (`limits.linger_s`, `limits.linger_unread_s`).
        self.cut_connections = {"incomplete": 0, "unread": 0}
        self.rejected_messages = 0
        self.drained_clients = 0
        self.draining = False  # No connection is admitted any more
        self.ready = False  # True from when the daemon has started everything until it begins to stop
        self.second_s = math.inf  # When work that is due once a second was done last; infinity before the first time
        self._released: asyncio.Event | None = None  # Set by the end of the last connection; see `wait_released`
        self.ticker = Ticker(self, self.after_turn)
        self.audit = audit = Audit(self.core.system_events.announce, time.time)
        self.core.requests.on_not_allowed = lambda handler, text, requests: audit.refused(
            handler, "request", RejectedError(CloseCode.NOT_ALLOWED, text), requests
        )
        self.access.on_refused = lambda address, reason, text: audit.turned_away(address, reason.value, text)
        self.log_statistics: Callable[[], LogStatistics] = LogStatistics  # Replaced where the log has a queue

    def wake(self) -> None:
        self.loop.call_soon(self.core.flush)

    def wake_at(self, due_ms: int) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = self.loop.call_at(due_ms / 1000, self.expire)

    def expire(self) -> None:
        """Answer the requests that have waited for too long."""
        self.core.requests.expire(self.now_ms())

    def _now_s(self) -> float:
        return self.loop.time()

    def now_ms(self) -> int:
        """Return the time of the loop's clock, by which requests time out."""
        return int(self.loop.time() * 1000)

    @property
    def connections(self) -> Mapping[Connected, str]:
        """The open connections, each with the host that it counts for."""
        return self.admission.connections

    def admit(self, connection: Connected) -> str:
        """Give a new connection a place; return why it is refused instead, or an empty text."""
        if self.draining:
            return "the hub is stopping"
        if self.memory.is_over:
            return self.memory.refusal()
        if self.clock_trouble:
            return self.clock_trouble
        return self.admission.admit(connection, connection.address)

    def enter(self, connection: Connected) -> str:
        """Give a connection that this hub has opened a place; return why not instead, or an empty text."""
        if self.draining:
            return "the hub is stopping"
        self.admission.enter(connection)
        return ""

    def settle(self, connection: Connected) -> None:
        """Note that the far side has sent HELLO: no other connection gets its place any more."""
        self.admission.settle(connection)

    def release(self, connection: Connected) -> None:
        """Free the place of a closed connection."""
        self.admission.release(connection)
        if not self.connections and self._released is not None:
            self._released.set()

    async def wait_released(self) -> None:
        """Wait until no connection is open any more."""
        if self.connections:
            self._released = asyncio.Event()
            await self._released.wait()

    def check_mesh(self) -> None:
        if not self._is_mesh_asked:
            self._is_mesh_asked = True
            self.after_turn(self._check_mesh)

    def _check_mesh(self) -> None:
        self._is_mesh_asked = False
        if self._mesh_timer is not None:
            self._mesh_timer.cancel()
            self._mesh_timer = None
        due_s = self.core.mesh.check(self.loop.time())
        if due_s < math.inf:
            self._mesh_timer = self.loop.call_at(due_s, self._check_mesh)

    def on_clash(self, number: int) -> None:
        if self.lines.add("clash", self.loop.time()):
            self.log.warning(
                "another hub has the id of this one, as a cloned process has: restart one of them",
                hub=self.id.hex(),
                number=number,
            )

    def tell_surplus(self, hub: bytes, name: str, prefixes: int) -> None:
        if self.lines.add("surplus", self.loop.time()):
            self.log.warning(
                "another hub has more prefixes than are kept here, and receives everything:"
                " see limits.prefixes_per_peer and mesh.prefixes",
                hub=hub.hex(),
                name=name,
                left_out=prefixes,
            )

    def _report_loss(self, loss: Loss) -> None:
        self.traffic.lose(loss)
        hub, name, address = loss.peer.hub.hex(), loss.peer.name, loss.peer.address
        fields = {
            "lost": loss.messages,
            "exactly": loss.exactly,
            "sent": loss.is_outward,
            "overtaken": loss.is_overtaken,
        }
        log = self.log.warning if loss.messages else self.log.info
        log("messages lost with a link", hub=hub, name=name, address=address, **fields)
        self.core.system_events.announce(messages_lost(hub, name, address, fields))

    def hello(
        self, granted: QueueLimits | None = None, link: bytes = b"", *, until_s: float = math.inf, token: str = ""
    ) -> Hello:
        """Return the HELLO of this hub for a client or a peer hub, whose credentials end in `until_s`."""
        queue = None if granted is None else QueueWish(granted.messages, granted.bytes, granted.overflow)
        return Hello(
            protocol=PROTOCOL,
            role="hub",
            id=self.id,
            name=self.name,
            queue=queue,
            frame=self.settings.limits.frame_bytes,
            journal=self.journal.id,
            link=link,
            token=token,
            mesh=MESH_VERSION,
            until=None if until_s == math.inf else max(0.0, until_s),
        )

    @property
    def unready(self) -> str:
        """Why this hub is not ready for clients; empty if it is."""
        if self.draining:
            return "the hub is stopping"
        if not self.ready:
            return "the hub is starting"
        return self.clock_trouble or self.journal.trouble or self.stores.trouble

    @property
    def clock_trouble(self) -> str:
        """Why work that is due once a second is not done; empty if it is.

        A hub in this state closes no silent connection and ends no proof: a supervisor must restart it.
        """
        late_s = self.loop.time() - self.second_s
        return "" if late_s <= CLOCK_LATE_S else f"the hub's clock has stopped {late_s:.0f} s ago: restart the hub"

    def may_ask_leaves(self, prefix: str) -> bool:
        return self.zeek.may_ask(prefix)

    def after_turn(self, act: Callable[[], object]) -> None:
        """Call `act` once this turn of the loop is over."""
        self.loop.call_soon(act)

    def wall_us(self) -> int:
        """Return the time since 1970."""
        return time.time_ns() // 1000


# Parts of the hub's memory that users may take by default: all queues; all prefixes; rules, services, names and pending
# requests, each.
_QUEUED_PARTS, _PREFIX_PARTS, _OTHER_PARTS = 2, 8, 16
_HELD_BYTES = 1024  # A prefix, a rule or a name at most, about: a long one counts several times
_PENDING_BYTES = 512  # A pending request, about


def totals(settings: Settings, memory_bytes: int) -> dict[Resource, int]:
    """Return the quotas of all users together."""
    quotas = settings.quotas
    part_bytes = memory_bytes // _OTHER_PARTS
    others = part_bytes // _HELD_BYTES
    return {
        Resource.CONNECTIONS: settings.limits.connections,
        Resource.PREFIXES: quotas.prefixes or memory_bytes // _PREFIX_PARTS // _HELD_BYTES,
        Resource.RULES: quotas.rules or others,
        Resource.SERVICES: quotas.services or others,
        Resource.NAMES: min(settings.names.total, others),
        Resource.PENDING_REQUESTS: min(settings.requests.pending_total, part_bytes // _PENDING_BYTES),
        Resource.QUEUED_BYTES: quotas.queued_bytes or memory_bytes // _QUEUED_PARTS,
        Resource.DESCRIPTORS: settings.shm.descriptors,
        Resource.STAGED_BYTES: min(settings.journal.staged_bytes, memory_bytes // STAGED_PARTS),
        Resource.JOURNAL_READS: PENDING_LIMIT,
    }


def core_limits(settings: Settings, memory_bytes: int) -> CoreLimits:
    limits, names = settings.limits, settings.names
    prefixes = min(settings.mesh.prefixes, memory_bytes // _PREFIX_PARTS // _HELD_BYTES)
    return CoreLimits(
        client=HandlerLimits(limits.prefixes_per_client, limits.rules_per_client, limits.services_per_client),
        peer_prefixes=limits.prefixes_per_peer,
        routes=RouteLimits(limits.routes, limits.routes_bytes),
        names=NameLimits(names.per_client, names.queue, names.total, names.per_peer),
        requests=settings.requests,
        mesh=MeshLimits(settings.mesh.hubs, settings.mesh.links, limits.prefixes_per_peer, prefixes),
    )


KEYS_LIMIT: Final = 1_000  # More hosts than fail at the same time in any cluster; a key costs about 200 bytes
MINUTE_S: Final = 60.0


class LogThrottle:
    """Allows one log line a minute for each key, with the number of events since the last line.

    Of too many keys the one that was logged first makes room.
    """

    def __init__(self) -> None:
        self._keys: dict[Hashable, tuple[float, int]] = {}  # Time of the last line, and events since

    def add(self, key: Hashable, now_s: float) -> int:
        """Count one event; return how many events its line stands for, 0 for no line now."""
        logged_s, events = self._keys.get(key, (-MINUTE_S, 0))
        if now_s - logged_s < MINUTE_S:
            self._keys[key] = (logged_s, events + 1)
            return 0
        self._keys.pop(key, None)
        if len(self._keys) >= KEYS_LIMIT:
            del self._keys[next(iter(self._keys))]
        self._keys[key] = (now_s, 0)
        return events + 1
