"""What a peer hub refuses a link for now it is told again, once there is room."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub.names.claim import Wish
from hub.quotas.quotas import QuotaLimits, SetLimits
from hub.quotas.resource import Resource
from hub.settings.sections import AccessSettings
from hub.settings.settings import Settings
from hub.tags.rules import Rule
from peers.wire.control import encode_subscription
from peers.wire.kinds import Kind
from peers.wire.names import NameClaim, encode_claim
from peers.wire.rules import encode_rules
from tests.hubs.eventually import eventually, settle
from tests.hubs.fixtures import StartHub
from tests.hubs.hub import Hub
from tests.hubs.known_tokens import KnownTokens

KINDS = (Resource.PREFIXES, Resource.RULES, Resource.SERVICES, Resource.NAMES)


def held(hub: Hub) -> list[int]:
    """What the user of the link holds of each kind."""
    found = next((share.held for share in hub.node.core.quotas.largest(10) if share.user == "far"), {})
    return [found.get(kind.value, 0) for kind in KINDS]


def limit(hub: Hub, most: int) -> None:
    """Let that user have so much of each kind."""
    hub.node.core.quotas.adopt(QuotaLimits(users={"far": SetLimits(dict.fromkeys(KINDS, most))}))


@pytest.fixture(autouse=True)
def without_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hubs say nothing of a mesh, as those of earlier versions: what they want is charged to the link's user."""
    monkeypatch.setattr("peers.node.node.MESH_VERSION", 0)


async def test_what_was_refused_is_announced_again(start_hub: StartHub, tmp_path: Path) -> None:
    """Subscriptions, rules, services and names: the link stays, and takes up what there is room for later.

    What is taken back meanwhile is not announced, and what comes meanwhile is.
    """
    near = await start_hub(name="near")
    file = tmp_path / "peer.token"
    file.write_text(KnownTokens(near).token("far", roles=("member",)))
    far = await start_hub(settings=Settings(access=AccessSettings(peer_token=str(file))), name="far")
    limit(near, 1)
    client, passing = await far.client(name="stays"), await far.client(name="passes")
    for number in range(4):
        one = passing if number == 3 else client
        await one.send(
            encode_subscription(Kind.SUBSCRIBE, [f"/{number}/"]),
            encode_rules(Kind.RULE, [Rule((f"l{number}",), "", "")]),
            encode_subscription(Kind.SERVE, [f"/{number}/"]),
            encode_claim(NameClaim(0, Wish(f"n.n{number}"))),
        )
        await one.ping()
    far.dial(near)
    await eventually(lambda: len(near.node.links) == len(far.node.links) == 1)
    await eventually(lambda: far.node.accounts.refused == 4)
    assert max(held(near)) <= 1
    passing.close()
    await client.send(encode_subscription(Kind.SUBSCRIBE, ["/late/"]))
    await client.ping()
    limit(near, 100)
    while held(near) != [4, 3, 3, 3]:
        far.later(1.0)
        await settle()
    assert set(near.handler("far").prefixes) == {"/0/", "/1/", "/2/", "/late/"}
    asker = await near.client(token=KnownTokens(near).token("alice"))
    await asker.publish("/1/x", "over the link")
    assert await client.values(1) == [("/1/x", "over the link")]
    for one in (client, asker):
        one.close()
    await eventually(lambda: held(near) == [0, 0, 0, 0])
    assert len(near.node.links) == 1
