"""Zeek's WebSocket API, the server's side: programs that talk to a Zeek or a Broker node can talk to this hub."""

from peers.websocket.zeek.codec import INVALID_PATH, INVALID_PATH_TEXT, PATH, VERSION, ZeekCodec, zeek_form
from peers.websocket.zeek.dialogue import ZeekDialogue, client_name, is_astray

__all__ = [
    "INVALID_PATH",
    "INVALID_PATH_TEXT",
    "PATH",
    "VERSION",
    "ZeekCodec",
    "ZeekDialogue",
    "client_name",
    "is_astray",
    "zeek_form",
]
