"""Broker's data stores without I/O: commands, the channel that carries them, both ends, and the forwarder between."""
