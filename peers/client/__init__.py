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
from hub.journal.message import RecordedMessage
from hub.limits import Overflow
from hub.messages.batch import Message
from peers.client.client import Client, connect
from peers.client.exchange import ClientStatistics
from peers.client.names import KnownName, ServiceName
from peers.client.service import Service, ServiceRequest
from peers.client.settings import Options
from peers.client.stream import CallbackSubscription, MessageStream
from peers.client.values import BadMessage, InvalidValueError
from peers.shm.ring import Block
from peers.shm.views import View
from peers.transport.endpoints import InvalidEndpointError
from peers.wire.hello import Hello, QueueWish

if TYPE_CHECKING:
    from peers.client.consumer_stream import ConsumedMessage, ConsumerStream
    from peers.client.replica import StoreChange, StoreChangeKind, StoreReplica, StoreWatch
    from peers.client.store import Store, StoreEntry, StoreState
    from peers.client.writer import Writer

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

_LATE = {
    "ConsumedMessage": "peers.client.consumer_stream",
    "ConsumerStream": "peers.client.consumer_stream",
    "Store": "peers.client.store",
    "StoreChange": "peers.client.replica",
    "StoreChangeKind": "peers.client.replica",
    "StoreEntry": "peers.client.store",
    "StoreReplica": "peers.client.replica",
    "StoreState": "peers.client.store",
    "StoreWatch": "peers.client.replica",
    "Writer": "peers.client.writer",
}
"""Names of what is loaded when it is asked for, as in `Client`: few programs need it."""


def __getattr__(name: str) -> Any:
    """Return what is loaded late."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_LATE[name]), name)
    return found
