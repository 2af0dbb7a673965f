"""Connections: the one asyncio shell around every protocol, and what opens sockets."""
