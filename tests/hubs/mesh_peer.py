"""`MeshPeer`: a peer hub that is a socket of the test, and speaks the mesh."""

from __future__ import annotations

from typing import Any

from hub.mesh.announcement import Announcement, Digest, Interest, Told
from hub.messages.frame import Frame, encode_frame
from peers.wire.hello import MESH_VERSION, Hello
from peers.wire.kinds import Kind
from peers.wire.routing import encode_routing
from tests.hubs.raw_client import RawClient

__all__ = ["LINK_ID", "PEER_ID", "MeshPeer", "hub_hello", "told"]
PEER_ID = b"\x77" * 16
LINK_ID = b"the link"
_FRAME_BYTES = 1 << 20


def hub_hello(**fields: Any) -> bytes:
    said: dict[str, Any] = {"protocol": 1, "role": "hub", "id": PEER_ID, "name": "peer", "link": LINK_ID}
    return Hello(**said | {"mesh": MESH_VERSION} | fields).encode()


def told(*items: Told) -> list[bytes]:
    return [frame for item in items for frame in encode_routing(item, _FRAME_BYTES)]


class MeshPeer(RawClient):
    quiet = frozenset({Kind.ROUTING, Kind.ORIGIN, Kind.ACCOUNT})
    is_ponging = True
    _id = PEER_ID
    _name = "peer"
    _far = b""
    _seq = 0

    async def link(self, *interests: Interest, **fields: Any) -> Hello:
        await self.send(hub_hello(**fields))
        self._id, self._name = fields.get("id", PEER_ID), fields.get("name", "peer")
        frame = await super().frame()
        assert frame.kind == Kind.HELLO, frame
        hello = Hello.decode(frame.body)
        self._far = hello.id
        await self.send(*told(Digest(())))
        await self.announce(*interests)
        return hello

    async def announce(self, *interests: Interest, removed: tuple[Interest, ...] = ()) -> None:
        base, self._seq = self._seq, self._seq + 1
        links = None if base else ((self._far, 1),)
        await self.send(
            *told(Announcement(self._id, base, self._seq, "" if base else self._name, links, interests, removed))
        )

    async def frame(self) -> Frame:
        while True:
            frame = await super().frame()
            if frame.kind == Kind.PING and self.is_ponging:
                await self.send(encode_frame(Kind.PONG, frame.body))
            elif frame.kind not in self.quiet:
                return frame
