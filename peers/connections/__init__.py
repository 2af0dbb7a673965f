"""Connections: the one asyncio shell around every protocol, listeners and diallers."""
