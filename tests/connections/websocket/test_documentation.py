"""The conversation at the head of docs/websocket.md takes place as it is written, but for ids and times."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from peers.daemon.daemon import Daemon
from peers.daemon.sources import load

TEXT = (Path(__file__).parents[3] / "docs" / "websocket.md").read_text()
LINES = re.findall(r"^([<>]) (\{.*\})$", TEXT, re.MULTILINE)
VARIES = {"hub", "journal", "software", "epoch", "time_ms"}


def compared(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: "" if key in VARIES else compared(inner) for key, inner in value.items()}
    return [compared(inner) for inner in value] if isinstance(value, list) else value


async def test_the_conversation(tmp_path: Path) -> None:
    assert len(LINES) >= 7
    settings = {"listen": ["ws://127.0.0.1:0"], "journal": {"path": str(tmp_path / "journal")}}
    daemon = Daemon(load(settings, {}), "hub-1")
    await daemon.start()
    try:
        url = f"ws://127.0.0.1:{daemon.endpoints[0].port}/v1/hub"
        async with connect(url, subprotocols=[Subprotocol("hub.v1.json")]) as socket:
            for side, text in LINES:
                if side == ">":
                    await socket.send(text)
                else:
                    assert compared(json.loads(await socket.recv())) == compared(json.loads(text))
    finally:
        await daemon.stop()
