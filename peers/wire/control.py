"""Bodies of the control frames, from SUBSCRIBE and NOTICE to TOKEN, CLAIM and CLOSE, and texts of errors. No I/O."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from struct import Struct
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgpack
import msgspec

from hub.errors import CloseCode, ProtocolError, RejectedError
from hub.labels.rules import Rule
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, Origin, encode_frame
from hub.messages.request_frame import Reply
from hub.names.claim import LABELS_LIMIT, Wish
from peers.wire.kinds import Kind

T = TypeVar("T")

_decode = msgspec.msgpack.Decoder().decode


def reason_of(reply: Reply) -> str:
    """Return the reason of a REPLY whose status is not OK; a value that is no text is returned as its `repr`."""
    packed = reply.values[BATCH_COUNT.size :] if reply.flags & FLAG_BATCH else reply.values
    try:
        reason = _decode(packed)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return "the reason that was given cannot be read"
    return reason if isinstance(reason, str) else repr(reason)


# The time to reconnect stands at the end of the text of a close, so that it is the same in every protocol.
RETRY_LIMIT_S: Final = 3600.0  # the longest time that a hub asks for, and that a client waits, seconds

_RETRY = re.compile(r"; retry after ([0-9]{1,6}(?:\.[0-9]{1,3})?) s\Z")


def with_retry(text: str, seconds: float) -> str:
    """Return the text of a close with the time after which to reconnect."""
    return f"{text}; retry after {seconds:.1f} s"


def retry_after_s(text: str) -> float | None:
    """Return after how many seconds to reconnect; None if the text of a close does not say."""
    found = _RETRY.search(text)
    return None if found is None else min(float(found[1]), RETRY_LIMIT_S)


MALFORMED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # of msgspec


def decoded(decode: Callable[[bytes], T], body: bytes, name: str) -> T:
    """Return the decoded body of a frame of the kind `name`.

    Raises:
        RejectedError: The body is malformed. The next frame is found all the same, so the connection goes on.
    """
    try:
        return decode(body)
    except MALFORMED as error:
        raise RejectedError(CloseCode.BAD_DATA, f"{name}: {error}") from error


def reader(kind: Kind, of: type[T], *, ends: bool = False) -> Callable[[bytes], T]:
    """Return the decoder of the bodies of one kind.

    It raises `RejectedError` for malformed ones, after which the connection goes on; if it `ends`, `ProtocolError`.
    """
    decode, name = msgspec.msgpack.Decoder(of).decode, kind.name

    def read(body: bytes) -> T:
        try:
            return decode(body)
        except MALFORMED as error:
            if ends:
                raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"{name}: {error}") from error
            raise RejectedError(CloseCode.BAD_DATA, f"{name}: {error}") from error

    return read


def writer(kind: Kind) -> Callable[[Any], bytes]:
    """Return the encoder of frames of one kind with msgpack bodies."""
    encode = msgspec.msgpack.Encoder().encode
    return lambda value: encode_frame(kind, encode(value))


PING_LIMIT_BYTES = 128  # longest body of a PING, which PONG repeats
CLOSE_TEXT_LIMIT_BYTES = 123  # longest text in CLOSE. It is that of a WebSocket's Close, so that one text fits both.

PREFIXES_LIMIT = 10_000
"""Most prefixes in one frame: ten times those that a client may have. A frame of the largest size could hold
eight million of them, and keep the hub busy for seconds."""

_CODE = Struct(">H")
_Subscription = tuple[Annotated[int, msgspec.Meta(ge=0)], Annotated[list[str], msgspec.Meta(max_length=PREFIXES_LIMIT)]]

# Made once: building a decoder for a type costs more than using it.
_encode = msgspec.msgpack.Encoder().encode
_decode_subscription = msgspec.msgpack.Decoder(_Subscription).decode


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """News of a hub for a client or a peer hub."""

    kind: Literal["confirmed", "dropped", "error", "recorded", "unrecorded", "owned", "queued", "lost"]
    """"recorded" or "unrecorded" answers each frame of messages with CONFIRM, in their order;
    "owned", "queued" and "lost" are the standing of the claim to `name`."""
    request: int = 0  # the number of the request that it answers, 0 for none
    count: int = 0  # how many messages were lost, refused, or recorded
    code: int = 0
    text: str = ""
    offset: int | None = None  # of the first recorded message, or of the journal when a subscription began
    again: bool = False  # whether the COMMIT that is confirmed had been carried out before
    name: str = ""  # the service name that was claimed
    segment: int = 0  # in "confirmed", the number that the hub has given to a new segment
    until: float | None = None  # of a TOKEN: seconds before the new proof ends; None for never


encode_notice: Callable[[Notice], bytes] = writer(Kind.NOTICE)
decode_notice = reader(Kind.NOTICE, Notice, ends=True)


def encode_subscription(kind: Kind, prefixes: list[str], request: int = 0) -> bytes:
    return encode_frame(kind, _encode((request, prefixes)))


def decode_subscription(kind: int, body: bytes) -> tuple[int, list[str]]:
    subscription: tuple[int, list[str]] = decoded(_decode_subscription, body, Kind(kind).name)
    return subscription


def encode_close(code: int, text: str) -> bytes:
    return encode_frame(Kind.CLOSE, _CODE.pack(code) + cut_text(text))


def cut_text(text: str) -> bytes:
    """Return the text of a close as UTF-8 within the limit."""
    return text.encode("utf-8", "replace")[:CLOSE_TEXT_LIMIT_BYTES].decode("utf-8", "ignore").encode()


def decode_close(body: bytes) -> tuple[int, str]:
    if len(body) < _CODE.size:
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CLOSE: {len(body)} bytes, a code has {_CODE.size}")
    return _CODE.unpack_from(body)[0], body[_CODE.size :].decode("utf-8", "replace")


# ACCOUNT has the numbers of messages of a link that this hub has sent and received, so that every loss is counted.
LINK_ID_BYTES = 8  # length of a link's id, which is random and given by the side that dials

_Count = Annotated[int, msgspec.Meta(ge=0)]


class Account(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counters of one hub, the speaker, about this link, or about a former one between the same two hubs."""

    link: bytes  # the id of the link
    sent: _Count = 0  # messages for the other side: written, dropped from its queue, or waiting there
    arrived: _Count = 0  # how many messages of the other side the speaker has read
    last: bool = False  # the speaker reads no more, so the numbers are final; CLOSE comes next


encode_account: Callable[[Account], bytes] = writer(Kind.ACCOUNT)
decode_account = reader(Kind.ACCOUNT, Account, ends=True)


# ORIGIN names the hub by which the messages after it entered the mesh, and its epoch.
_BODY = Struct(">16sI")
_MARKED = Struct(">16sIQ")


def encode_origin(origin: Origin) -> bytes:
    if origin.mark:
        return encode_frame(Kind.ORIGIN, _MARKED.pack(*origin))
    return encode_frame(Kind.ORIGIN, _BODY.pack(origin.hub, origin.epoch))


def decode_origin(body: bytes) -> Origin:
    if len(body) == _MARKED.size:
        return Origin(*_MARKED.unpack(body))
    if len(body) != _BODY.size:
        # The origin of the messages after it is unknown.
        raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"ORIGIN: {len(body)} bytes, expected {_BODY.size}")
    return Origin(*_BODY.unpack(body))


# RULE and UNRULE carry msgpack `[request, [[[label, ...], prefix, sender], ...]]`.
RULES_PER_FRAME = 1_000  # as many as a client may have by default; with 32 labels each they take 40 ms

RuleFields = tuple[Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)], str, str]
"""The labels, the prefix and the sender of a rule, none of which has been checked."""

_Rules = tuple[
    Annotated[int, msgspec.Meta(ge=0)], Annotated[list[RuleFields], msgspec.Meta(max_length=RULES_PER_FRAME)]
]

_decode_rules = msgspec.msgpack.Decoder(_Rules).decode


class RuleChange(NamedTuple):
    """The far side adds or removes rules by which it subscribes."""

    subscribe: bool  # true to add the rules, False to remove them
    rules: list[RuleFields]
    request: int  # the number to confirm, 0 for none


def encode_rules(kind: Kind, rules: Iterable[Rule], request: int = 0) -> bytes:
    return encode_frame(kind, _encode((request, list(rules))))


def decode_rules(kind: int, body: bytes) -> RuleChange:
    request, rules = decoded(_decode_rules, body, Kind(kind).name)
    return RuleChange(kind == Kind.RULE, rules, request)


# TOKEN carries a fresh token, shown in a running connection before the old one ends.
TOKEN_LIMIT_BYTES = 16 * 1024  # a JWT with hundreds of roles; HTTP headers are rarely longer, too

_decode_token = msgspec.msgpack.Decoder(tuple[Annotated[int, msgspec.Meta(ge=0)], str]).decode


class Renewal(NamedTuple):
    """The client shows a fresh token."""

    request: int  # the number to confirm, 0 for none
    token: str

    def __repr__(self) -> str:
        return f"Renewal(request={self.request})"


def check_token(token: str) -> str:
    """Return `token` if it is short enough to be looked at.

    Raises:
        RejectedError: It is longer than any token.
    """
    size_bytes = len(token.encode("utf-8", "replace"))
    if size_bytes > TOKEN_LIMIT_BYTES:
        raise RejectedError(CloseCode.TOO_BIG, f"a token of {size_bytes} bytes, the limit is {TOKEN_LIMIT_BYTES} bytes")
    return token


encode_token: Callable[[Renewal], bytes] = writer(Kind.TOKEN)


def decode_token(body: bytes) -> Renewal:
    try:
        request, token = _decode_token(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise RejectedError(CloseCode.BAD_DATA, f"TOKEN: {error}") from error
    except UnicodeDecodeError:
        raise RejectedError(CloseCode.BAD_DATA, "TOKEN: the token is not UTF-8") from None
    return Renewal(request, check_token(token))


# CLAIM carries `[request, name, [label, ...], queue]`, RELEASE `[request, name]`. The core decides which names and
# labels are valid (`hub.names`); here only shapes and numbers are checked.
_Labels = Annotated[tuple[str, ...], msgspec.Meta(max_length=LABELS_LIMIT)]
_decode_claim = msgspec.msgpack.Decoder(tuple[_Count, str, _Labels, bool]).decode


class NameClaim(NamedTuple):
    """A client claims a name."""

    request: int  # the number to confirm, 0 for none
    wish: Wish


class NameRelease(NamedTuple):
    """A client gives up a name, or stops waiting for it."""

    request: _Count  # the number to confirm, 0 for none
    name: str


def encode_claim(claim: NameClaim) -> bytes:
    name, labels, queue = claim.wish
    return encode_frame(Kind.CLAIM, _encode((claim.request, name, tuple(labels), queue)))


def decode_claim(body: bytes) -> NameClaim:
    request, name, labels, queue = decoded(_decode_claim, body, "CLAIM")
    return NameClaim(request, Wish(name, labels, queue))


encode_release: Callable[[NameRelease], bytes] = writer(Kind.RELEASE)
decode_release = reader(Kind.RELEASE, NameRelease)


def numbered(body: bytes) -> int:
    """Return the request number of an otherwise malformed array, so that the error can name it; 0 if it has none."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(body[1:10])  # the bytes after the head of the array; no number takes more than nine
    try:
        number = unpacker.unpack()
    except (ValueError, msgpack.OutOfData):
        return 0
    return number if type(number) is int and number > 0 else 0
