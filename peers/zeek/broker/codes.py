"""`BrokerCode`: Broker's error codes, as they stand in `drop_conn`."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["BrokerCode"]


class BrokerCode(IntEnum):
    """Why a connection ends. The numbers are Broker's `ec`; 0 is a graceful end."""

    NONE = 0
    UNSPECIFIED = 1
    PEER_INCOMPATIBLE = 2
    PEER_INVALID = 3
    PEER_UNAVAILABLE = 4
    PEER_DISCONNECT_DURING_HANDSHAKE = 5
    PEER_TIMEOUT = 6
    MASTER_EXISTS = 7
    NO_SUCH_MASTER = 8
    NO_SUCH_KEY = 9
    REQUEST_TIMEOUT = 10
    TYPE_CLASH = 11
    INVALID_DATA = 12
    BACKEND_FAILURE = 13
    STALE_DATA = 14
    CANNOT_OPEN_FILE = 15
    CANNOT_WRITE_FILE = 16
    INVALID_TOPIC_KEY = 17
    END_OF_FILE = 18
    INVALID_TAG = 19
    INVALID_MESSAGE = 20
    INVALID_STATUS = 21
    CONVERSION_FAILED = 22
    CONSUMER_EXISTS = 23
    CONNECTION_TIMEOUT = 24
    BAD_MEMBER_FUNCTION_CALL = 25
    REPEATED_REQUEST_ID = 26
    BROKEN_CLONE = 27
    SHUTTING_DOWN = 28
    INVALID_PEERING_REQUEST = 29
    REPEATED_PEERING_HANDSHAKE_REQUEST = 30
    UNEXPECTED_HANDSHAKE_MESSAGE = 31
    INVALID_HANDSHAKE_STATE = 32
    NO_PATH_TO_PEER = 33
    NO_CONNECTOR_AVAILABLE = 34
    CANNOT_OPEN_RESOURCE = 35
    SERIALIZATION_FAILED = 36
    DESERIALIZATION_FAILED = 37
    WRONG_MAGIC_NUMBER = 38
    REDUNDANT_CONNECTION = 39
    LOGIC_ERROR = 40
    INVALID_JSON = 41

    @property
    def text(self) -> str:
        """Broker's own name for the code, such as `wrong_magic_number`."""
        return self.name.lower()
