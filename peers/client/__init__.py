"""Clients in Python: `connect` for asyncio, `peers.client.blocking.connect` for threads. See docs/clients.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hub.errors import (
    BlockGoneError,
    BusyError,
    ClosedError,
    ConnectionLostError,
    GoneError,
    HubError,
    InvalidNameError,
    InvalidTopicError,
    NoResponderError,
    NotAllowedError,
    PeerError,
    ProtocolError,
    RejectedError,
    RequestError,
    RequestFailedError,
    RequestOverflowError,
    RequestTimeoutError,
    RequestTooBigError,
    ResponderGoneError,
    UsageError,
)
from peers.client.client import Client, connect
from peers.client.exchange import ClientStatistics
from peers.client.settings import Options
from peers.client.stream import CallbackSubscription, MessageStream
from peers.client.values import BadMessage, InvalidValueError
from peers.wire.hello import Hello, QueueWish

if TYPE_CHECKING:
    from hub.journal.message import RecordedMessage
    from hub.limits import Overflow
    from hub.messages.batch import Message
    from peers.client.consumer_stream import ConsumedMessage, ConsumerStream
    from peers.client.names import KnownName, ServiceName
    from peers.client.service import Service, ServiceRequest
    from peers.client.store import Store, StoreChange, StoreChangeKind, StoreEntry, StoreReplica, StoreState, StoreWatch
    from peers.client.writer import Writer
    from peers.shm.ring import Block
    from peers.shm.views import View
    from peers.transport.endpoints import InvalidEndpointError

__all__ = [
    "BadMessage",
    "Block",
    "BlockGoneError",
    "BusyError",
    "CallbackSubscription",
    "Client",
    "ClientStatistics",
    "ClosedError",
    "ConnectionLostError",
    "ConsumedMessage",
    "ConsumerStream",
    "GoneError",
    "Hello",
    "HubError",
    "InvalidEndpointError",
    "InvalidNameError",
    "InvalidTopicError",
    "InvalidValueError",
    "KnownName",
    "Message",
    "MessageStream",
    "NoResponderError",
    "NotAllowedError",
    "Options",
    "Overflow",
    "PeerError",
    "ProtocolError",
    "QueueWish",
    "RecordedMessage",
    "RejectedError",
    "RequestError",
    "RequestFailedError",
    "RequestOverflowError",
    "RequestTimeoutError",
    "RequestTooBigError",
    "ResponderGoneError",
    "Service",
    "ServiceName",
    "ServiceRequest",
    "Store",
    "StoreChange",
    "StoreChangeKind",
    "StoreEntry",
    "StoreReplica",
    "StoreState",
    "StoreWatch",
    "UsageError",
    "View",
    "Writer",
    "connect",
]

# Names that are loaded when they are asked for: few programs need them.
_LATE = {
    "hub.journal.message": ("RecordedMessage",),
    "hub.limits": ("Overflow",),
    "hub.messages.batch": ("Message",),
    "peers.client.consumer_stream": ("ConsumedMessage", "ConsumerStream"),
    "peers.client.names": ("KnownName", "ServiceName"),
    "peers.client.service": ("Service", "ServiceRequest"),
    "peers.client.store": (
        "Store",
        "StoreChange",
        "StoreChangeKind",
        "StoreEntry",
        "StoreReplica",
        "StoreState",
        "StoreWatch",
    ),
    "peers.client.writer": ("Writer",),
    "peers.shm.ring": ("Block",),
    "peers.shm.views": ("View",),
    "peers.transport.endpoints": ("InvalidEndpointError",),
}


def __getattr__(name: str) -> Any:
    for module, names in _LATE.items():
        if name in names:
            found = globals()[name] = getattr(import_module(module), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
