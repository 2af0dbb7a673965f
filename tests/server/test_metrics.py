"""Metrics in the Prometheus text format, and the tables of which docs/reference/metrics.md is made."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from hub.errors import NotRecognisedError, RejectedError
from hub.handlers.delivery import Role
from hub.handlers.handler import Handler
from hub.limits import Overflow, QueueLimits
from hub.mesh.announcement import Announcement, Digest
from hub.messages.batch import Batch
from hub.messages.frame import Origin
from hub.policy.language import read_policy
from hub.quotas import Resource
from hub.settings.settings import JournalSettings, Settings, StoresSettings
from hub.stores.command import Command
from peers.journal.journal import Journal
from peers.server.metrics import JOURNAL, METRICS, TIER, HubCollector, Row, exposition, families
from peers.server.server import Server
from peers.server.traffic import Carried, EndedLink, Peer
from peers.users.identity import Proof
from peers.users.users import Users
from peers.wire.control import Account
from peers.workers.gathering import WORKERS, WorkerCounts
from tests.contracts.reference import BUCKETS, full_name, kind_of
from tests.hub.fakes import FakeOutlet, handler_of, publish
from tests.server.test_links import Standing


def scrape(server: Server) -> dict[str, Metric]:
    families = text_string_to_metric_families(exposition(server).decode())
    return {family.name: family for family in families}


def value(families: dict[str, Metric], sample: str, **labels: str) -> float:
    (found,) = [
        one.value
        for family in families.values()
        for one in family.samples
        if one.name == sample and one.labels == labels
    ]
    return found


def holds(families: dict[str, Metric], **figures: float) -> None:
    assert {sample: value(families, sample) for sample in figures} == figures


def join(server: Server, role: Role = Role.CLIENT, **queue: Any) -> Handler:
    handler = Handler(FakeOutlet(), role=role, limits=QueueLimits(**queue))
    server.core.attach(handler)
    server.core.subscribe(handler, ["/"])
    return handler


@pytest.fixture
async def server() -> Server:
    return Server(Settings(), name='hub "one"\n')


@pytest.fixture
async def journal(server: Server, tmp_path: Path) -> AsyncIterator[Journal]:
    settings = JournalSettings(path=str(tmp_path / "journal"), tier=str(tmp_path / "tier"))
    made = server.journal = Journal(server.core, settings, server.settings.limits)
    yield made
    await made.stop()


async def test_messages(server: Server) -> None:
    quick, slow = join(server), join(server, messages=2, overflow=Overflow.DROP_NEWEST)
    slow.pause()
    for number in range(5):
        server.core.publish(quick, server.core.routes.find("/a"), Batch.of("/a", [number, number]))
        server.core.flush()
    server.rejected_messages = 7
    families = scrape(server)
    holds(families, hub_messages_published_total=10, hub_messages_delivered_total=10)
    assert value(families, "hub_messages_dropped_total", overflow="drop-newest") == 8
    holds(families, hub_messages_rejected_total=7, hub_queued_messages=2)
    assert value(families, "hub_queued_bytes") > 0
    assert value(families, "hub_handlers_paused") == 1
    assert value(families, "hub_delivered_bytes_total") > 0


async def test_what_a_far_side_cannot_read(server: Server) -> None:
    reader = join(server)
    reader.lose(3)
    families = scrape(server)
    assert value(families, "hub_messages_unreadable_total") == 3
    server.core.detach(reader, "gone")
    families = scrape(server)
    assert value(families, "hub_messages_unreadable_total") == 3
    assert value(families, "hub_messages_dropped_total", overflow="drop-oldest") == 3


async def test_connections(server: Server) -> None:
    class Socket:
        address, read_bytes = "", 21

        def drain(self) -> None: ...

        def abort(self) -> None: ...

    server.admission.limit = 2
    sockets = [Socket() for _ in range(3)]
    for expected, connection in zip((False, False, True), sockets, strict=True):
        assert bool(server.admit(connection)) is expected
        if not expected:
            server.settle(connection)
    families = scrape(server)
    assert value(families, "hub_connections") == 2
    server.received_bytes_before = 100
    assert value(scrape(server), "hub_received_bytes_total") == 142
    holds(
        families, hub_connections_accepted_total=2, hub_connections_refused_total=1, hub_connections_unauthenticated=1
    )
    holds(families, hub_connections_unauthenticated_limit=1024)
    assert (
        value(families, "hub_connections_evicted_total") == value(families, "hub_connections_no_descriptor_total") == 0
    )
    server.ready = True
    assert value(scrape(server), "hub_ready") == 1
    server.draining = True
    assert value(scrape(server), "hub_ready") == 0


async def test_stores(server: Server) -> None:
    server.stores.open(StoresSettings(open=("a=:memory:", "b=:memory:"), feeds=("b=/b",)))
    server.stores.feeds[0].send([Batch.of("/b", [1, 2])])
    master = server.stores.get("a")
    assert master is not None
    master.apply([Command("put", b"\x01", b"\x02"), Command("pop", b"\x01")], lambda *_: None)
    families = scrape(server)
    assert value(families, "hub_stores") == 2
    assert value(families, "hub_store_entries", store="a") == 1
    assert value(families, "hub_store_entries_limit", store="b") == 1_000_000
    assert value(families, "hub_store_bytes", store="a") == 202
    assert value(families, "hub_store_operations_total", store="a", what="command") == 2
    assert value(families, "hub_store_operations_total", store="a", what="refused") == 1
    assert value(families, "hub_store_operations_total", store="b", what="fed") == 2
    assert value(families, "hub_store_operations_total", store="b", what="fed_lost") == 0
    assert value(families, "hub_store_entries", store="b") == 1
    await server.stores.stop()


async def test_the_journal(server: Server, journal: Journal) -> None:
    publish(server.core, "/a", 1, 2, 3)
    server.core.flush()
    await journal.settle()
    families = scrape(server)
    holds(families, hub_journal_ready=1, hub_journal_recorded_total=3, hub_journal_confirm_seconds_count=1)
    holds(families, hub_journal_committed_offset=3, hub_journal_lost_total=0, hub_journal_waiting_bytes=0)
    assert value(families, "hub_journal_bytes") > 0
    for outcome in ("committed", "repeated", "dropped"):
        assert value(families, "hub_journal_batches_total", outcome=outcome) == 0


async def test_messages_lost_with_links(server: Server) -> None:
    peer = Peer(b"\x07" * 16, "south", "tcp://127.0.0.1:1")
    for link, sent in ((b"12345678", 5), (b"12345678", 7), (b"87654321", 11)):
        sums = {"offered": sent + 1, "sent": sent, "arrived": 0, "missed": 0, "waiting": 1, "confirmed": 0}
        ended = EndedLink(link, peer, **sums, is_settled=False)
        server.accounts.conclude(server.accounts.end(ended, 0.0))
    server.accounts.hear(peer.hub, Account(b"12345678", sent=2, arrived=4))
    families = scrape(server)
    assert value(families, "hub_links_lost_messages_total", known="exactly") == 3 + 3
    assert value(families, "hub_links_lost_messages_total", known="at_most") == 5
    holds(families, hub_links_unconfirmed_messages=11, hub_links_missed_messages_total=2)


async def test_links_by_the_hub_at_their_other_end(server: Server) -> None:
    link, other = Standing("south", lag_s=0.25, cost=3), Standing("west", 2)
    for one in (link, other):
        server.traffic.begin(one, server.loop.time())
    link.sums = Carried(1, 2, 3, 4, 5, 6, 7)
    link.now = link.now._replace(queued_messages=8, waiting_s=9.0)
    server.accounts.miss(link.peer, 10)
    families = scrape(server)
    for sample, figure in (("up", 1), ("queued_messages", 8), ("waiting_seconds", 9), ("lag_seconds", 0.25)):
        assert value(families, f"hub_link_{sample}", hub="south") == figure
    assert value(families, "hub_link_cost", hub="south") == 3
    assert value(families, "hub_link_path_changes_total", hub="south") == 7
    for direction, messages, size_bytes in (("in", 1, 2), ("out", 3, 4)):
        assert value(families, "hub_link_messages_total", hub="south", direction=direction) == messages
        assert value(families, "hub_link_bytes_total", hub="south", direction=direction) == size_bytes
    for reason, lost in (("queue_full", 5), ("too_large", 6), ("missed", 10), ("cut", 0), ("overtaken", 0)):
        assert value(families, "hub_link_dropped_messages_total", hub="south", reason=reason) == lost
    assert [one.labels for one in families["hub_link_lag_seconds"].samples] == [{"hub": "south"}]
    server.traffic.end(other, server.loop.time())
    assert value(scrape(server), "hub_link_up", hub="west") == 0


async def test_the_mesh(server: Server) -> None:
    mesh, far = server.core.mesh, b"\x07" * 16
    links = [handler_of(role=Role.LINK) for _ in range(2)]
    for number, link in enumerate(links):
        server.core.attach(link)
        server.core.link(link, bytes([number + 1]) * 16, lambda: None)
        mesh.hear(link, Digest(()))
    mesh.hear(links[0], Announcement(far, 0, 1, "south", (), ("/a", "/b")))
    mesh.hear(links[0], Announcement(server.id, 0, 1000, "twin", ()))
    too_many = tuple((number.to_bytes(16, "big"), 1) for number in range(server.settings.mesh.links + 1))
    with pytest.raises(RejectedError):
        mesh.hear(links[0], Announcement(far, 1, 2, "", too_many))
    for link, epoch in ((links[0], 1), (links[1], 2)):
        assert mesh.accepts(link, far, epoch)
    mesh.refuse(links[0], Origin(far, 1), 3)
    mesh.refuse(links[1], Origin(far, 1), 2)
    mesh.unreached_messages += 6
    families = scrape(server)
    holds(families, hub_mesh_hubs=2, hub_mesh_hubs_limit=4096, hub_mesh_links=2, hub_mesh_prefixes=2)
    holds(families, hub_mesh_prefixes_not_stored_total=0, hub_mesh_epoch=mesh.origin.epoch)
    assert mesh.origin.epoch > 1
    assert value(families, "hub_mesh_announcements_total", outcome="taken") == 1
    assert value(families, "hub_mesh_announcements_total", outcome="refused") == 1
    holds(families, hub_mesh_overtaken_messages_total=3, hub_mesh_repeated_messages_total=2)
    holds(families, hub_mesh_unreached_messages_total=6, hub_mesh_clashes_total=1)


async def test_users(server: Server) -> None:
    families = scrape(server)
    assert value(families, "hub_access_open") == 1
    server.access.recognise(Proof("192.0.2.7:5"))
    server.access.adopt(Users(read_policy({}, "policy")))
    with pytest.raises(NotRecognisedError):
        server.access.recognise(Proof("192.0.2.7:5"))
    families = scrape(server)
    assert value(families, "hub_access_open") == 0
    assert value(families, "hub_users_recognised_total", how="anonymous") == 1
    assert value(families, "hub_users_recognised_total", how="token") == 0
    assert value(families, "hub_users_refused_total", reason="nothing") == 1
    assert value(families, "hub_users_refused_total", reason="jwt") == 0
    assert value(families, "hub_users_slowed") == 1


async def test_what_users_hold(server: Server) -> None:
    rights = read_policy({}, "policy").rights("alice", ("member",))
    for _ in range(2):
        handler = Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits(), rights=rights)
        server.core.attach(handler)
        server.core.subscribe(handler, ["/a", "/b"])
    assert handler.share is not None
    assert not handler.share[Resource.RULES].take(10**9)
    families = scrape(server)
    assert value(families, "hub_quota_limit", resource="prefixes") == server.memory.limit_bytes // 8192
    assert value(families, "hub_quota_held", resource="prefixes") == 4
    assert value(families, "hub_quota_refused_total", resource="rules") == 1
    handler.share.rate.held_back(1.5)
    for one in list(server.core.handlers.values()):
        server.core.detach(one, "")
    server.core.flush()
    left = scrape(server)
    assert value(left, "hub_quota_held_back_total") == 1


async def test_what_users_may_not_do(server: Server) -> None:
    rights = read_policy({"users": {"bob": ["reader"]}}, "a test").rights("bob")
    handler = Handler(FakeOutlet(), role=Role.CLIENT, limits=QueueLimits(), rights=rights)
    server.audit.refused(handler, "publish", RejectedError(1008, "no"), 3)
    server.audit.refused(handler, "subscribe", RejectedError(1008, "no"))
    server.drained_clients = 2
    policy = rights.policy
    server.core.authority.adopt(policy)
    policy.forgotten_total = 3
    server.access.tested.update({"refused": 2})
    families = scrape(server)
    assert value(families, "hub_users_forgotten_total") == 3
    assert [value(families, "hub_policy_tests_total", outcome=one) for one in ("refused", "allowed")] == [2, 0]
    holds(families, hub_users_denied_total=4, hub_drained_clients_total=2, hub_draining=0)
    server.draining = True
    assert value(scrape(server), "hub_draining") == 1


# The tables, of which docs/reference/metrics.md is made, have all metrics, with their labels, values and buckets.


class Family(NamedTuple):
    kind: str
    labels: frozenset[str]


ROWS: dict[str, Row[Any]] = {full_name(row): row for row in (*METRICS, *JOURNAL, *TIER, *WORKERS)}


def documented() -> dict[str, Family]:
    return {name: Family(kind_of(row), frozenset(row.labels)) for name, row in ROWS.items()}


def documented_values() -> dict[str, dict[str, frozenset[str]]]:
    """Of the labels of each metric, where they are listed."""
    return {name: {label: frozenset(values) for label, values in row.labels.items()} for name, row in ROWS.items()}


def told_of(families: Iterable[Any]) -> dict[str, Family]:
    return {
        family.name + ("_total" if family.type == "counter" else ""): Family(family.type, frozenset(family._labelnames))
        for family in families
    }


async def test_every_metric_stands_there_and_no_other(server: Server, journal: Journal) -> None:
    del journal
    workers = families(WORKERS, WorkerCounts(up=1, limit=1, started_total=1, ended_total=0, silent_total=0))
    assert documented() == told_of(HubCollector(server).collect()) | told_of(workers)


async def test_values_of_labels_are_those_in_the_tables(server: Server, journal: Journal) -> None:
    del journal
    for family in HubCollector(server).collect():
        known = documented_values()[family.name + ("_total" if family.type == "counter" else "")]
        for label, values in known.items():
            found = {sample.labels[label] for sample in family.samples}
            assert not values or not found or found <= values, family.name
            if len(known) == 1 and family.name != "hub_memory_charged_bytes":
                assert not values or found == values, family.name


async def test_buckets_stand_there(server: Server, journal: Journal) -> None:
    del journal
    bounds = {
        family.name: [float(sample.labels["le"]) for sample in family.samples if sample.name.endswith("_bucket")]
        for family in HubCollector(server).collect()
        if family.type == "histogram"
    }
    assert bounds == {name: [*listed, math.inf] for name, listed in BUCKETS.items()}


def test_names_are_there_once() -> None:
    assert len(ROWS) == len(METRICS) + len(JOURNAL) + len(TIER) + len(WORKERS) > 200
