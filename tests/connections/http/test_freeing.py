"""A connection that is over is freed at once, as over other protocols."""

from __future__ import annotations

from tests.connections.http.conftest import StartRecording
from tests.garbage import leaves_nothing
from tests.hubs.eventually import eventually, settle
from tests.hubs.hub import Hub
from tests.hubs.raw_http import NDJSON, follow, http
from tests.hubs.raw_websocket import request


async def come_and_go(hub: Hub) -> None:
    done, busy, refused = await http(hub), await http(hub), await http(hub)
    await done.publish("/a?confirm=1", 1)
    await busy.send(request("/v1/publish/a", "POST", NDJSON, "Transfer-Encoding: chunked"), b"2\r\n1\n\r\n")
    await refused.publish("/%00", 1)
    following = [await follow(hub, query) for query in ("prefix=/a", "prefix=/a&from=0", "prefix=/a&messages=3")]
    await done.publish("/a", 2)
    await following[0].event()
    for client in (done, busy, refused, *following):
        client.close()
    await eventually(lambda: not hub.node.connections)
    hub.connections.clear()
    await settle()


async def test_clients(start_recording: StartRecording) -> None:
    hub = await start_recording()
    await leaves_nothing(lambda: come_and_go(hub))
