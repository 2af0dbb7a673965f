"""Broker's native peering, without I/O: framing, handshake, and envelopes from and to the hub's frames."""
