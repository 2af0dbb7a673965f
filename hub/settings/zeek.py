"""What is common to all Zeeks that this hub peers with."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hub.settings.ranges import LIVE, NAME_BYTES, PRINTABLE, ROLE, file_path

__all__ = ["ZeekSettings"]


class ZeekSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is common to all Zeeks that this hub peers with."""

    certificate: Annotated[
        str, file_path("PEM file of the hub's certificate and its chain; with it TLS is mutual, without it anonymous.")
    ] = ""
    key: Annotated[str, file_path("PEM file of the key of that certificate.")] = ""
    ca: Annotated[str, file_path("PEM file of the authorities that vouch for Zeeks' certificates.")] = ""
    curve_key: Annotated[
        str,
        file_path("File of the secret CURVE key that `zeek+zmq://` and `zeek+log://` listeners have; empty: no CURVE."),
    ] = ""
    curve_clients: Annotated[
        str, file_path("File of the public CURVE keys of nodes that may connect there, one a line."), LIVE
    ] = ""
    curve_broker: Annotated[
        str,
        file_path("File of the public CURVE key of the brokers of `zeek+zmq://` that are dialled; empty: no CURVE."),
    ] = ""
    curve_node_key: Annotated[str, file_path("File of the secret CURVE key that this hub has as a node there.")] = ""
    topics: Annotated[
        tuple[Annotated[str, Meta(max_length=1024)], ...],
        Meta(
            description="Prefixes that Zeeks are asked for even while nobody here subscribes to them.",
            extra={"unit": "prefixes such as '/zeek/'"},
        ),
    ] = ()
    role: Annotated[
        str,
        Meta(
            pattern=ROLE,
            description="Role of all Zeeks; empty: they are users by their certificates.",
            extra={"most_bytes": NAME_BYTES},
        ),
        LIVE,
    ] = ""
    stores: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=1024)], ...],
        Meta(
            description="What names of Zeeks' data stores begin with; no Zeek is asked for what covers one.",
            extra={"unit": "beginnings of names such as 'zeek/known/'"},
        ),
    ] = ("zeek/known/", "___sync_store_")
    masters: Annotated[
        tuple[Annotated[str, Meta(pattern=PRINTABLE, min_length=1, max_length=1024)], ...],
        Meta(
            description="Stores of this hub that Zeeks may clone, by other names where they are to have any.",
            extra={"unit": "texts STORE or NAME=STORE"},
        ),
    ] = ()
    clones: Annotated[
        tuple[Annotated[str, Meta(pattern=PRINTABLE, min_length=1, max_length=1024)], ...],
        Meta(
            description="Stores of this hub that follow stores of Zeeks, by other names where those have any.",
            extra={"unit": "texts STORE or NAME=STORE"},
        ),
    ] = ()
    forwarding: Annotated[
        Literal["on", "off"],
        Meta(description="Whether what one Zeek publishes goes to other Zeeks; off where they are peered themselves."),
    ] = "on"
