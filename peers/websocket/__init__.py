"""The hub's WebSocket protocol without I/O: `/v1/hub` in JSON and msgpack, and Zeek's JSON API."""
