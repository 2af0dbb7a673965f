"""The hub as the central broker of a Zeek cluster whose nodes speak ZeroMQ, or as one of its nodes (docs/zeek.md)."""
