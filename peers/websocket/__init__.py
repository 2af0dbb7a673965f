"""The hub's WebSocket and HTTP edge: `/v1/hub` with two subprotocols, the page, health and metrics on one port."""
