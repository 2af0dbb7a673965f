"""Zeek's WebSocket API, the server's side: programs that talk to a Zeek or a Broker node can talk to this hub."""

from peers.zeek.api.conversation import ZeekConversation, client_name
from peers.zeek.api.forms import zeek_form
from peers.zeek.api.tongue import PATH, VERSION, ZeekTongue

__all__ = ["PATH", "VERSION", "ZeekConversation", "ZeekTongue", "client_name", "zeek_form"]
