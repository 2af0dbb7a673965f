"""Errors, sorted by who must act.

```
HubError
  UsageError      our caller:   InvalidTopicError  InvalidNameError  ClosedError  BusyError
  PeerError       the far side: ProtocolError (fatal; of it: NotRecognisedError)
                                RejectedError (go on; of it: GoneError, StoreError)  ConnectionLostError
                                RequestError (one request has no value for an answer), by status:
                                  RequestFailedError  NoResponderError  ResponderGoneError  RequestTimeoutError
                                  RequestOverflowError  NotAllowedError  RequestTooBigError
  StorageError    the disk:     JournalCorruptError  JournalUnavailableError
  InternalError   us:           please report; never caught below the daemon
```

A `ProtocolError` ends the connection, a `RejectedError` rejects one request and the connection goes on. Errors that
cross the wire carry a close code (`CloseCode`), the same for TCP and WebSocket.
"""

from __future__ import annotations

from enum import IntEnum


class CloseCode(IntEnum):
    """Why a connection ends or a request is rejected. Numbers follow RFC 6455, section 7.4; 4xxx are ours."""

    DONE = 1000  # The client has closed the connection
    GOING_AWAY = 1001  # The hub stops: reconnect, after the seconds that the text may give
    PROTOCOL_ERROR = 1002  # Invalid frames, no handshake in time, or no answer to a ping
    WRONG_KIND = 1003  # A binary WebSocket message under `hub.v1.json`, or a text one under `hub.v1.msgpack`
    BAD_DATA = 1007  # Invalid JSON, msgpack, UTF-8, topic or prefix; the text says where
    NOT_ALLOWED = 1008  # No permission, or over a limit of the client
    TOO_BIG = 1009  # A message, key or ping over its limit
    INTERNAL_ERROR = 1011  # A bug of the hub, which its log shows
    TRY_AGAIN_LATER = 1013  # No room at present: reconnect, or repeat the request, with backoff
    OVERFLOW = 4008  # The queue was full, and its policy is `disconnect`
    ALREADY_CONNECTED = 4009  # A second link between the same two hubs
    SAME_HUB = 4010  # A link of a hub to itself
    GONE = 4011  # The requested records are not in the journal; the text names the first offset that is
    JOURNAL_FAILED = 4012  # The journal cannot be written or read: full disk, or damage
    NOT_RECOGNISED = 4401  # Credentials are missing, wrong or expired
    FORBIDDEN = 4403  # An admin closed the connection, or its user was removed or may no longer connect


_ABNORMAL = 1006  # RFC 6455: the connection ended without a close frame. Errors do not show the number


class HubError(Exception):
    """Any error that this project raises on purpose."""


class UsageError(HubError):
    """Our caller has done something wrong, and must act."""


class InvalidTopicError(UsageError):
    """A topic or prefix that no hub would take."""


class InvalidNameError(UsageError):
    """A service name or a label that no hub would take."""


class ClosedError(UsageError):
    """The object was closed, here, before the call."""


class BusyError(UsageError):
    """A bounded buffer is full; wait, then try again."""


class PeerError(HubError):
    """The far side must act, or is to blame.

    Attributes:
        code: The close code that goes with it.
        text: The cause, for people.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(code, text)  # its arguments, so that it can be pickled
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return self.text if self.code == _ABNORMAL else f"{self.text} ({self.code})"


class ProtocolError(PeerError):
    """The stream can no longer be understood: the connection ends."""


class NotRecognisedError(ProtocolError):
    """The client has no valid credentials.

    Code and text are always the same, so that an attacker learns nothing from them.

    Attributes:
        delay_s: How long the answer is to be held back.
    """

    def __init__(self, delay_s: float = 0.0) -> None:
        super().__init__(CloseCode.NOT_RECOGNISED, "not recognised: show a certificate or a token that this hub knows")
        self.args = (delay_s,)  # so that it can be pickled
        self.delay_s = delay_s


class RejectedError(PeerError):
    """One request is rejected; the connection continues."""


class GoneError(RejectedError):
    """An offset is not in the journal: its record was deleted, or is not there yet.

    Attributes:
        first: The oldest offset that is retained.
    """

    def __init__(self, text: str, first: int) -> None:
        super().__init__(CloseCode.GONE, text)
        self.args = (text, first)
        self.first = first


class StoreError(RejectedError):
    """A command or a read of a store is impossible; nothing was changed.

    The type of a value does not allow it, its key is missing, a limit is reached, or the bytes are no value.
    """

    def __init__(self, text: str, code: int = CloseCode.BAD_DATA) -> None:
        super().__init__(code, text)
        self.args = (text, code)


class BlockGoneError(GoneError):
    """A block of shared memory was taken back by its publisher, because it was held for too long."""

    def __init__(self, text: str) -> None:
        super().__init__(text, 0)
        self.args = (text,)


class ConnectionLostError(PeerError, ConnectionError):
    """The connection ended, by the far side or by the network, or there was none."""


_REQUEST_CODES = 4100  # Added to a request's status, so that codes differ from close codes


class RequestError(PeerError):
    """A request was answered, and not with a value.

    Attributes:
        status: Its outcome, `hub.messages.request_frame.Status`.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(_REQUEST_CODES + status, text)
        self.args = (status, text)  # so that it can be pickled
        self.status = int(status)

    def __str__(self) -> str:
        return self.text


class RequestFailedError(RequestError):
    """The service has failed; the text is its reason."""


class NoResponderError(RequestError):
    """No service serves this topic, or has this name."""


class ResponderGoneError(RequestError):
    """The service was lost before it answered; it may have done the work."""


class RequestTimeoutError(RequestError, TimeoutError):
    """There was no answer in time; the service may still do the work."""


class RequestOverflowError(RequestError):
    """The queue of the service is full, or too many requests are pending; wait, then try again."""


class NotAllowedError(RequestError):
    """The hub does not let this client ask for that."""


class RequestTooBigError(RequestError):
    """The request is larger than the service accepts, or the reply larger than this client accepts."""


class StorageError(HubError):
    """A fault of the disk or of files on it."""


class JournalCorruptError(StorageError):
    """Data read from a journal is damaged."""


class JournalUnavailableError(StorageError):
    """The journal cannot be opened, read or written now; the text gives the cause and the remedy."""


class InternalError(HubError):
    """A bug. Please report it."""
