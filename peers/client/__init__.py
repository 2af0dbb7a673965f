"""Clients in Python: `connect` for asyncio, `peers.client.blocking.connect` for threads. See docs/clients.md."""

from __future__ import annotations

from hub.batch import Message
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
from hub.overflow import Overflow
from peers.client.callback import CallbackSubscription
from peers.client.client import Client
from peers.client.connecting import connect
from peers.client.consumed import ConsumedMessage
from peers.client.consumer_stream import ConsumerStream
from peers.client.exchange import ClientStatistics
from peers.client.known_names import KnownName
from peers.client.service import Service, ServiceRequest
from peers.client.service_name import ServiceName
from peers.client.settings import Options
from peers.client.stores.replica import StoreReplica
from peers.client.stores.store import Store
from peers.client.stores.values import StoreChange, StoreEntry, StoreState
from peers.client.stores.watch import StoreWatch
from peers.client.stream import MessageStream
from peers.client.values import BadMessage, InvalidValueError
from peers.client.writer import Writer
from peers.shm.ring import Block
from peers.shm.views import View
from peers.wire.hello import Hello, QueueWish

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
    "StoreEntry",
    "StoreReplica",
    "StoreState",
    "StoreWatch",
    "UsageError",
    "View",
    "Writer",
    "connect",
]
