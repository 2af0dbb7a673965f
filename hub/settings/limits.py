"""What one hub takes from its clients, how long it waits for them, and how it lets go of them."""

from __future__ import annotations

from typing import Annotated

import msgspec

from hub.settings.ranges import GIB, KIB, LIVE, MIB, TIB, between

__all__ = ["DrainSettings", "Limits"]

_SMALLEST_FRAME_BYTES = 4 * KIB
"""A subscription to one prefix of the greatest length (1024 bytes) and a browser's HTTP request both fit."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one hub takes from its clients, and how long it waits for them."""

    connections: Annotated[
        int, between("connections", 1, 1_000_000, "Connections open at one time; one more is closed with 1013."), LIVE
    ] = 10_000
    connections_per_address: Annotated[
        int,
        between("connections", 1, 1_000_000, "Of these, from one address that is not this machine's; one more: 1013."),
        LIVE,
    ] = 5_000
    newcomers: Annotated[
        int,
        between(
            "connections", 1, 1_000_000, "Connections before the end of their handshake; one more ends the oldest."
        ),
        LIVE,
    ] = 1_024
    prefixes_per_client: Annotated[
        int,
        between("prefixes", 1, 10_000_000, "Prefixes that a client may subscribe to; one more is refused with 1008."),
    ] = 1_000
    rules_per_client: Annotated[
        int,
        between("rules", 1, 10_000_000, "Rules that a client may subscribe by; one more is refused with 1008."),
    ] = 1_000
    services_per_client: Annotated[
        int,
        between("prefixes", 1, 10_000_000, "Prefixes that a client may serve; one more is refused with 1008."),
    ] = 1_000
    prefixes_per_peer: Annotated[
        int,
        between("prefixes", 1, 10_000_000, "Prefixes that a peer may subscribe to; one more is refused with 1008."),
    ] = 100_000
    rules_per_peer: Annotated[
        int,
        between("rules", 1, 10_000_000, "Rules that a peer hub may subscribe by; one more is refused with 1008."),
    ] = 100_000
    services_per_peer: Annotated[
        int,
        between("prefixes", 1, 10_000_000, "Prefixes that a peer hub may serve; one more is refused with 1008."),
    ] = 100_000
    frame_bytes: Annotated[
        int,
        between("bytes", _SMALLEST_FRAME_BYTES, GIB, "Largest body of a frame or WebSocket message; above it 1009."),
    ] = 16 * MIB
    handshake_bytes: Annotated[
        int,
        between("bytes", _SMALLEST_FRAME_BYTES, 16 * MIB, "Most that is read before the handshake is over."),
        LIVE,
    ] = 64 * KIB
    handshake_s: Annotated[float, between("seconds", 0.1, 3600.0, "Time for the handshake, then closed."), LIVE] = 5.0
    tls_handshakes: Annotated[
        int, between("handshakes", 1, 100_000, "TLS handshakes at one time; one more ends the oldest."), LIVE
    ] = 256
    tls_handshake_s: Annotated[
        float, between("seconds", 0.1, 3600.0, "Time for a TLS handshake, then closed."), LIVE
    ] = 5.0
    ping_after_s: Annotated[float, between("seconds", 0.1, 86_400.0, "Silence after which a ping is sent."), LIVE] = (
        20.0
    )
    ping_timeout_s: Annotated[
        float, between("seconds", 0.1, 3600.0, "Time for the answer to a ping, then closed with 1002."), LIVE
    ] = 10.0
    frame_s: Annotated[
        float, between("seconds", 1.0, 86_400.0, "Time for a frame, unless it grows fast enough; then 1002."), LIVE
    ] = 60.0
    frame_bytes_per_s: Annotated[
        int, between("bytes", 1, GIB, "What a frame that takes longer must grow by in a second."), LIVE
    ] = KIB
    linger_unread_s: Annotated[
        float,
        between("seconds", 0.1, 3600.0, "Time to read something of what is left when the hub has closed."),
        LIVE,
    ] = 10.0
    linger_s: Annotated[
        float, between("seconds", 0.1, 86_400.0, "Time to read all of that; then the rest is lost."), LIVE
    ] = 60.0
    routes: Annotated[
        int, between("routing keys", 1, 10_000_000, "Routing keys whose handlers are remembered between messages.")
    ] = 65_536
    routes_bytes: Annotated[
        int, between("bytes", 64 * KIB, 64 * GIB, "Most memory that those routing keys take; long ones bear labels.")
    ] = 64 * MIB
    memory_bytes: Annotated[
        int,
        between(
            "bytes",
            0,
            16 * TIB,
            "Memory of the hub; above it queues drop, what is new is refused (1013); 0 is 60 % of what there is.",
        ),
    ] = 0
    drain_s: Annotated[
        float, between("seconds", 0.0, 3600.0, "Time to flush queues when the hub stops; 0 closes at once."), LIVE
    ] = 5.0


class DrainSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How clients are moved off a hub that is taken out of service (`hub drain`)."""

    clients_per_s: Annotated[
        int, between("clients", 1, 10_000, "How many clients a second `hub drain` moves off."), LIVE
    ] = 100
    retry_after_s: Annotated[
        float, between("seconds", 0.1, 3600.0, "Each is told to come back after a time between 0 and this."), LIVE
    ] = 5.0
    time_s: Annotated[
        float, between("seconds", 0.1, 86_400.0, "Time for all of that; then the hub stops anyway."), LIVE
    ] = 300.0
