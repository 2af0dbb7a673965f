"""What a link of the mesh is charged for, and what is charged to nobody, as docs/quotas.md says it."""

from __future__ import annotations

from hub.delivery import Role
from hub.handler import Handler
from hub.mesh.announcement import Announcement, Interest, Served
from hub.names.claim import Announced, Wish
from hub.quotas.quotas import SetLimits
from hub.quotas.resource import Resource
from hub.request_frame import Reply, Request, Status
from hub.tags.rules import Rule
from tests.hub.fakes import at_once, publish
from tests.hub.test_shares import PAYLOAD, Hub

WEST, BEYOND = b"west" * 4, b"ends" * 4


def link(hub: Hub, user: str | None, *wanted: Interest, stalled: bool = False) -> Handler:
    handler, _ = hub.join(user, role=Role.LINK, stalled=stalled)
    core = hub.core
    core.link(handler, WEST, lambda: None)
    near, far = ((core.mesh.hub, 1), (BEYOND, 1)), ((WEST, 1),)
    for one, neighbours, interests in ((WEST, near, wanted), (BEYOND, far, tuple(map(_beyond, wanted)))):
        core.mesh.hear(handler, Announcement(one, 0, 1, "", neighbours, tuple(interests)))
    core.mesh.check(0.0)
    while core.far_hubs.is_behind:
        core.flush()
    return handler


def _beyond(interest: Interest) -> Interest:
    return "/beyond" + interest if isinstance(interest, str) else interest


def test_what_waits_for_a_link_is_its_users() -> None:
    hub = Hub()
    handler = link(hub, "west", "/a", stalled=True)
    writer, _ = hub.join("alice")
    for topic in ("/a", "/beyond/a"):
        before = hub.held("west")
        route = hub.core.routes.find(topic)
        assert handler in route.handlers
        publish(hub.core, topic, PAYLOAD)
        assert hub.held("west") > before + len(PAYLOAD)
    assert hub.held("alice") == 0
    assert writer.published_messages == 0  # a client without a share has published it here


def test_a_link_that_this_hub_has_dialled_is_nobodys() -> None:
    hub = Hub()
    handler = link(hub, None, "/a", stalled=True)
    publish(hub.core, "/a", PAYLOAD)
    assert handler.queued_messages == 1
    assert hub.quotas.wholes[Resource.QUEUED_BYTES].free == hub.quotas.wholes[Resource.QUEUED_BYTES].total


def test_what_other_hubs_want_is_charged_to_nobody() -> None:
    resources = (Resource.PREFIXES, Resource.RULES, Resource.SERVICES, Resource.NAMES)
    hub = Hub(dict.fromkeys(resources, 10), west=SetLimits(dict.fromkeys(resources, 1)))
    prefixes = [f"/{number}" for number in range(50)]
    rules = [Rule((f"x{number}",)) for number in range(50)]
    served = [Served(prefix) for prefix in prefixes]
    names = [Announced(f"org.n{number}", (), 1, 1) for number in range(50)]
    link(hub, "west", *prefixes, *rules, *served, *names)
    assert len(hub.core.far_hubs.wanted_by(WEST)) == len(hub.core.far_hubs.wanted_by(BEYOND)) == 50
    assert len(hub.core.far_hubs.rules_of(BEYOND)) == 50
    assert len(hub.core.far_hubs.served_by(WEST)) == len(hub.core.far_hubs.served_by(BEYOND)) == 50
    assert hub.core.names.statistics().names == 50
    for resource in resources:
        assert hub.held("west", resource) == 0
    alice, _ = hub.join("alice")
    hub.core.subscribe(alice, [f"/alice/{number}" for number in range(5)])
    hub.core.names.claim(alice, Wish("org.alice"), 1)
    assert hub.held("alice", Resource.PREFIXES) == 5


def test_a_request_from_another_hub_is_the_links() -> None:
    hub = Hub(west=SetLimits({Resource.PENDING_REQUESTS: 2}))
    handler = link(hub, "west")
    service, _ = hub.join("bob")
    requests = hub.core.requests
    at_once(requests.serving(service, ["/s"]))
    for number in (1, 2, 3):
        requests.ask(handler, Request(b"/s", number, 0, b"\x00"), 0)
    assert hub.held("west", Resource.PENDING_REQUESTS) == 2
    assert hub.held("bob", Resource.PENDING_REQUESTS) == 0
    hub.core.flush()
    (refused,) = handler.poster.items  # type: ignore[union-attr]
    assert refused.status == Status.OVERFLOW
    requests.answer(service, Reply(0, Status.OK, b"\x01"))
    assert hub.held("west", Resource.PENDING_REQUESTS) == 1


def test_a_request_to_another_hub_is_who_asks() -> None:
    hub = Hub()
    link(hub, "west", Served("/s"))
    alice, _ = hub.join("alice")
    hub.core.requests.ask(alice, Request(b"/s", 1, 0, b"\x00"), 0)
    assert hub.held("alice", Resource.PENDING_REQUESTS) == 1
    assert hub.held("west", Resource.PENDING_REQUESTS) == 0
