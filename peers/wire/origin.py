"""ORIGIN: by which hub the messages behind it have entered the mesh, and in which of its epochs.

```
 0  16 bytes  id of the hub
16  u32       epoch
20  u64       mark, of one batch that its hub wants to know the fate of; most often there is none
```

It is a state of the stream, not a part of a message: it holds for all MESSAGES frames behind it, up to the next ORIGIN.
Before the first one, messages are those of the hub that speaks, in its epoch 0. So a run of messages of one origin
costs one frame of 28 bytes, and messages themselves are written as they came.

No state, no I/O. Not here: which messages of an epoch are taken (`hub.mesh`), and where this may be said
(`peers.wire.session`).
"""

from __future__ import annotations

from struct import Struct

from hub.errors import CloseCode, ProtocolError
from hub.frame import encode_frame
from hub.origin import Origin
from peers.wire.kinds import Kind

__all__ = ["decode_origin", "encode_origin"]

_BODY = Struct(">16sI")
_MARKED = Struct(">16sIQ")


def encode_origin(origin: Origin) -> bytes:
    """Return the frame."""
    if origin.mark:
        return encode_frame(Kind.ORIGIN, _MARKED.pack(*origin))
    return encode_frame(Kind.ORIGIN, _BODY.pack(origin.hub, origin.epoch))


def decode_origin(body: bytes) -> Origin:
    """Read the body of an ORIGIN frame.

    Raises:
        ProtocolError: It has another size, so nobody can know whose the messages behind it are.
    """
    if len(body) == _MARKED.size:
        return Origin(*_MARKED.unpack(body))
    if len(body) != _BODY.size:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"ORIGIN: {len(body)} bytes, expected {_BODY.size}")
    return Origin(*_BODY.unpack(body))
