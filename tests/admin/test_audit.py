"""`$hub/audit`, asked of a hub that listens: what was told there before."""

from __future__ import annotations

from hub.errors import CloseCode, RejectedError
from peers.admin.access import EVENTS as PAGE
from peers.client import connect
from tests.admin.conftest import give_rights
from tests.hubs.hub import Hub


async def test_pages(hub: Hub) -> None:
    moments = iter(range(1, 10_000))
    hub.node.audit._now_s = lambda: float(next(moments))
    async with connect(hub.endpoint.location, name="ada") as client:
        give_rights(hub, ada="ada")
        (handler,) = hub.node.core.handlers.values()
        for number in range(PAGE + 30):
            hub.node.audit.refused(handler, "publish", RejectedError(CloseCode.NOT_ALLOWED, f"no {number}"))
            hub.node.audit.tick()
        seen: list[str] = []
        page = await client.request("$hub/audit", {"limit": 7})
        assert len(page) == 7
        while page:
            seen += [event["text"] for event in page]
            page = await client.request("$hub/audit", {"before": page[-1]["at"]})
            assert len(page) <= PAGE
        assert seen == [f"no {number}" for number in reversed(range(PAGE + 30))]
        assert len(await client.request("$hub/audit", None)) == PAGE
