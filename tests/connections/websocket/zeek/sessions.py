"""The recorded sessions: what Broker's server was told, frame by frame, and what it answered."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.frames import Opcode

from tests.hubs.raw_websocket import frame

_RECORDINGS = Path(__file__).parents[3] / "zeek" / "recordings"

_WRAPPED = '{"type": "data-message", "topic": "/up", "@data-type": "string", "data": "%s"}'


@dataclass
class Session:
    """One connection.

    Attributes:
        request: The HTTP request.
        answer: The HTTP answer.
        sent: The client's frames.
        heard: The server's: opcode and payload.
        ended: Whether the server has closed the connection.
    """

    request: bytes = b""
    answer: bytes = b""
    sent: list[bytes] = field(default_factory=list)
    heard: list[tuple[int, bytes]] = field(default_factory=list)
    ended: bool = False


def _payload(step: dict[str, Any]) -> bytes:
    text = step.get("text")
    if text is None:
        return bytes.fromhex(step["hex"])
    if not text.endswith(" bytes>"):
        found: bytes = text.encode()
        return found
    size = int(text[1:].split()[0])  # only the size was written down
    made = nested(200) if size < 10_000 else (_WRAPPED % ("x" * (size - len(_WRAPPED) + 2))).encode()
    assert len(made) == size
    return made


def nested(depth: int) -> bytes:
    inner: Any = {"@data-type": "integer", "data": 1}
    for _ in range(depth):
        inner = {"@data-type": "vector", "data": [inner]}
    return json.dumps({"type": "data-message", "topic": "/up"} | inner, separators=(",", ":")).encode()


def sessions(name: str) -> dict[str, Session]:
    found: dict[str, Session] = {}
    for line in (_RECORDINGS / f"{name}.jsonl").read_text().splitlines():
        step = json.loads(line)
        if "session" in step:
            session = found[step["session"]] = Session()
        elif "conn" in step:
            session.ended = True
        elif "http" in step:
            setattr(session, "request" if step["dir"] == "client" else "answer", step["http"].encode())
        elif step.get("dir") == "server":
            session.heard.append((step["op"], _payload(step)))
        elif step.get("dir") == "client":
            fin, rsv, masked = bool(step["fin"]), step.get("rsv", 0), not step.get("unmasked")
            session.sent.append(frame(step["op"], _payload(step), fin=fin, reserved=rsv, masked=masked))
    return found


def results(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((_RECORDINGS / f"{name}.json").read_text())
    return found


def texts_of(session: Session) -> list[bytes]:
    return [payload for opcode, payload in session.heard if opcode == Opcode.TEXT and b'"data-message"' in payload]
