"""Zeek's WebSocket API: programs that talk to a Zeek or a Broker node can talk to this hub, and the hub to a Zeek."""
