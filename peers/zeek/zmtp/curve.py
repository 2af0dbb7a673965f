"""CURVE, the mechanism of ZMTP that encrypts, and proves identities: CurveZMQ, RFC 25 and 26 of ZeroMQ.

```
client  C, c: its long-term keys                         server  S, s: its long-term keys
  HELLO     C', proof that it knows S                 ─▶
            ◀─  WELCOME   S', and a cookie in which the server keeps its state of the handshake
  INITIATE  the cookie, C, a vouch of C for C', metadata ─▶   is C allowed?
            ◀─  READY     metadata
  MESSAGE   one box for each frame, numbered          ◀─▶

frame, as under NULL:   u8 flags  length  body
in a box:               frame header  u8 7 "MESSAGE"  8 nonce  box of: u8 flags (1 more, 2 a command), body
```

C' and S' are made for the connection, and so is the key of its cookie. A number is used once, and those of the far side
grow, so that no box is taken twice, or in another order. It needs PyNaCl, the extra `curve`. Cost: 0.1 ms for HELLO,
which any far side may send, 0.15 ms for INITIATE, 0.5 µs to seal or open a box (in Python 2.7 and 4 µs), for each node.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple

from nacl.bindings import (
    crypto_box_afternm,
    crypto_box_beforenm,
    crypto_box_keypair,
    crypto_box_open_afternm,
    crypto_scalarmult_base,
    crypto_secretbox,
    crypto_secretbox_open,
    randombytes,
)
from nacl.exceptions import CryptoError

from hub.errors import CloseCode, ProtocolError
from peers.zeek.zmtp.frames import (
    COMMAND,
    LONG,
    LONG_HEADER,
    MORE,
    SHORT_HEADER_BYTES,
    SHORT_LIMIT,
    TAKEN_BYTES,
    Command,
    Incoming,
    encode_command,
)
from peers.zeek.zmtp.session import Fault, HandshakeError, Step
from peers.zeek.zmtp.z85 import KEY_BYTES, encode_key

NUMBER: Final = Struct(">Q")  # a short nonce
BOX_BYTES: Final = 16  # a box is so much longer than its content
_MESSAGE: Final = b"\x07MESSAGE"
_NUMBER_AT: Final = len(_MESSAGE)
_BOX_AT: Final = _NUMBER_AT + NUMBER.size
_LEAST_BYTES: Final = _BOX_AT + BOX_BYTES + 1
SEALED_BYTES: Final = _LEAST_BYTES  # the body of a frame grows so much in its box
_FROM_CLIENT: Final = b"CurveZMQMESSAGEC"
_FROM_SERVER: Final = b"CurveZMQMESSAGES"

# Flags of a frame as they stand in a box, and the other way round.
_INNER: Final = {flags: bytes((flags & MORE | (flags & COMMAND) >> 1,)) for flags in range(8)}
_OUTER: Final = {0: 0, 1: MORE, 2: COMMAND}

# Flags within a box, and the length of a short frame → its header.
_SHORT_HEADERS: Final = [[bytes((_OUTER[flags], length)) for length in range(SHORT_LIMIT + 1)] for flags in range(3)]

# The size of a short box → header of its frame, with the name behind it.
_SHORT_BOXES: Final = [bytes((0, size)) + _MESSAGE for size in range(SHORT_LIMIT + 1)]


def seal_in_python(frames: bytes, number: int, prefix: bytes, key: bytes, function: int) -> tuple[bytes, int]:  # noqa: ARG001 -- as the twin has it
    """Return whole frames in boxes, and the last number that was used; `_zmtp.pyx` has a compiled twin."""
    # Local names, and no calls that can be spared: this is paid for every frame to every node.
    seal, pack = crypto_box_afternm, NUMBER.pack
    parts: list[bytes] = []
    add = parts.append
    position, end = 0, len(frames)
    while position < end:
        flags = frames[position]
        if flags & LONG:
            start = position + LONG_HEADER.size
            position = start + LONG_HEADER.unpack_from(frames, position)[1]
        else:
            start = position + SHORT_HEADER_BYTES
            position = start + frames[start - 1]
        number += 1
        short = pack(number)
        box = seal(_INNER[flags] + frames[start:position], prefix + short, key)
        size = _BOX_AT + len(box)
        add(_SHORT_BOXES[size] if size <= SHORT_LIMIT else LONG_HEADER.pack(LONG, size) + _MESSAGE)
        add(short)
        add(box)
    return b"".join(parts), number


# The twin calls libsodium where PyNaCl has it, so it is linked with nothing.
_SEALER = _OPENER = 0
try:
    from nacl._sodium import ffi, lib

    from peers.zeek.zmtp._zmtp import open_frames, seal_frames

    _SEALER = int(ffi.cast("uintptr_t", ffi.addressof(lib, "crypto_box_easy_afternm")))
    _OPENER = int(ffi.cast("uintptr_t", ffi.addressof(lib, "crypto_box_open_easy_afternm")))
except (ImportError, AttributeError):  # not built: no compiler was there; or PyNaCl has it elsewhere
    seal_frames = seal_in_python

BOXES_AT_ONCE: Final = 64 if _OPENER else 2  # Boxes that are opened for one event of a session


class Traffic:
    """The boxes of a connection whose handshake is done; `sent` and `came` are the last numbers of either side."""

    def __init__(self, key: bytes, *, is_server: bool, sent: int, came: int) -> None:
        self._key = key
        self._sent, self._came = sent, came
        self._sent_nonce = _FROM_SERVER if is_server else _FROM_CLIENT
        self._came_nonce = _FROM_CLIENT if is_server else _FROM_SERVER

    def seal(self, frames: bytes) -> bytes:
        sealed, self._sent = seal_frames(frames, self._sent, self._sent_nonce, self._key, _SEALER)
        return sealed

    def open_all(self, sealed: bytearray, position: int, limit_bytes: int) -> tuple[bytes, int]:
        """Return the frames of the next good boxes, and where the last box ends; none where `open` must look."""
        if not _OPENER:
            return b"", position
        came, nonce = self._came, self._came_nonce
        frames, position, self._came = open_frames(
            sealed, position, BOXES_AT_ONCE, limit_bytes, came, nonce, self._key, _OPENER
        )
        return frames, position

    def open(self, body: bytes) -> bytes:
        """Return the frame in a box; raises `ProtocolError` for a body that is no box, or none that may come now."""
        if len(body) < _LEAST_BYTES or not body.startswith(_MESSAGE):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, "CURVE: a frame that is not a MESSAGE")
        short = body[_NUMBER_AT:_BOX_AT]
        number = int.from_bytes(short, "big")
        if number <= self._came:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CURVE: box {number} behind box {self._came}")
        try:
            plain: bytes = crypto_box_open_afternm(body[_BOX_AT:], self._came_nonce + short, self._key)
        except CryptoError as error:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CURVE: box {number} does not open") from error
        flags = plain[0]
        if flags not in _OUTER:
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CURVE: box {number} has the flags {flags:#04x}")
        self._came = number
        length = len(plain) - 1
        if length > SHORT_LIMIT:
            return LONG_HEADER.pack(_OUTER[flags] | LONG, length) + plain[1:]
        return _SHORT_HEADERS[flags][length] + plain[1:]


class SealedIncoming(Incoming):
    """Finds frames in boxes once the handshake is done."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes)
        self._traffic: Traffic | None = None  # in the handshake
        self._sealed = bytearray()
        self._position_sealed = 0

    def begin(self, traffic: Traffic) -> None:
        """The handshake is done: all input behind it is sealed."""
        self._traffic = traffic
        self._sealed += self.take(self.held_bytes)

    @property
    def held_bytes(self) -> int:
        return super().held_bytes + len(self._sealed) - self._position_sealed

    def feed(self, data: bytes) -> None:
        if self._traffic is None:
            super().feed(data)
            return
        del self._sealed[: self._position_sealed]
        self._position_sealed = 0
        self._sealed += data

    def forget(self) -> None:
        super().forget()
        self._sealed, self._position_sealed = bytearray(), 0

    def open_more(self) -> bool:
        """Open a few boxes; return whether any were whole. Raises `ProtocolError` where the next one is none."""
        traffic = self._traffic
        if traffic is None:
            return False
        frames, self._position_sealed = traffic.open_all(
            self._sealed, self._position_sealed, self.limit_bytes + SEALED_BYTES
        )
        opened = [frames] if frames else []
        try:
            while not frames and len(opened) < BOXES_AT_ONCE and (found := self._next_sealed()) is not None:
                start, end = found
                opened.append(traffic.open(bytes(memoryview(self._sealed)[start:end])))
                self._position_sealed = end
        except ProtocolError:
            if not opened:
                raise
        if not opened:
            return False
        if self._position_sealed > TAKEN_BYTES:
            del self._sealed[: self._position_sealed]
            self._position_sealed = 0
        super().feed(b"".join(opened))
        return True

    def _next_sealed(self) -> tuple[int, int] | None:
        sealed, position = self._sealed, self._position_sealed
        there = len(sealed) - position
        if not there:
            return None
        flags = sealed[position]
        if flags & ~(LONG | COMMAND):
            raise ProtocolError(CloseCode.PROTOCOL_ERROR, f"CURVE: a frame with the flags {flags:#04x} around a box")
        size = LONG_HEADER.size if flags & LONG else SHORT_HEADER_BYTES
        if there < size:
            return None
        start = position + size
        length = LONG_HEADER.unpack_from(sealed, position)[1] if flags & LONG else sealed[start - 1]
        if length > self.limit_bytes + SEALED_BYTES:
            text = f"CURVE: a box of {length} bytes, the limit is {self.limit_bytes + SEALED_BYTES}"
            raise ProtocolError(CloseCode.TOO_BIG, text)
        return (start, start + length) if start + length <= len(sealed) else None


class KeyPair(NamedTuple):
    """Keys of one side."""

    public: bytes
    secret: bytes

    @classmethod
    def new(cls) -> KeyPair:
        public, secret = crypto_box_keypair()
        return cls(public, secret)

    @classmethod
    def of_secret(cls, secret: bytes) -> KeyPair:
        return cls(crypto_scalarmult_base(secret), secret)

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()})"


LONG_NONCE_BYTES: Final = 16
VERSION: Final = b"\x01\x00"
PADDING_BYTES: Final = 72  # HELLO is longer than WELCOME, so that a server cannot be used to amplify traffic
PROOF_BYTES: Final = 64
COOKIE_BYTES: Final = LONG_NONCE_BYTES + BOX_BYTES + 2 * KEY_BYTES
VOUCH_BYTES: Final = BOX_BYTES + 2 * KEY_BYTES
HELLO_NONCE: Final = b"CurveZMQHELLO---"
WELCOME_NONCE: Final = b"WELCOME-"
COOKIE_NONCE: Final = b"COOKIE--"
INITIATE_NONCE: Final = b"CurveZMQINITIATE"
VOUCH_NONCE: Final = b"VOUCH---"
READY_NONCE: Final = b"CurveZMQREADY---"


def _cut(command: Command, name: bytes, *sizes: int) -> list[bytes]:
    """Return the fields of the expected command, and the rest; raises `HandshakeError`."""
    if command.name != name:
        raise HandshakeError(Fault.GARBLED, f"CURVE: {command.name!r} in the place of {name.decode()}")
    if len(command.data) < sum(sizes):
        text = f"CURVE: {name.decode()} with {len(command.data)} bytes, which has {sum(sizes)}"
        raise HandshakeError(Fault.GARBLED, text)
    fields, start = [], 0
    for size in sizes:
        fields.append(command.data[start : start + size])
        start += size
    return [*fields, command.data[start:]]


def _try(fault: Fault, text: str, function: Callable[..., bytes], *arguments: bytes) -> bytes:
    """Call a function of PyNaCl; a box that does not open, or a key that is a point of low order, is this fault."""
    try:
        return function(*arguments)
    except CryptoError as error:
        raise HandshakeError(fault, text) from error


_OTHER_KEY: Final = "CURVE: HELLO does not open: the other side has another public key for this side, or sends garbage"


class _Curve:
    """Frames stand in boxes behind the handshake; see `peers.zeek.zmtp.session.Null`."""

    name: Final = "CURVE"
    _metadata = b""
    _traffic: Traffic

    def incoming(self, limit_bytes: int) -> Incoming:
        self._incoming = SealedIncoming(limit_bytes)
        return self._incoming

    def seal(self, frames: bytes) -> bytes:
        return self._traffic.seal(frames)


class CurveServer(_Curve):
    """The server's side of one connection; see `peers.zeek.zmtp.session.Null`.

    Args:
        keys: This side's.
        allows: Whether a far side with this public key may come in.
    """

    is_server: Final = True
    doubt: Final = ""

    def __init__(self, keys: KeyPair, allows: Callable[[bytes], bool]) -> None:
        self._keys = keys
        self._allows = allows
        self._cookie_key = b""  # before WELCOME
        self._came = 0

    def begin(self, metadata: bytes) -> bytes:
        self._metadata = metadata
        return b""

    def take(self, command: Command) -> Step:
        return self._initiate(command) if self._cookie_key else self._hello(command)

    def _hello(self, command: Command) -> Step:
        sizes = (len(VERSION), PADDING_BYTES, KEY_BYTES, NUMBER.size, BOX_BYTES + PROOF_BYTES)
        version, _, far, number, box, rest = _cut(command, b"HELLO", *sizes)
        if version != VERSION or rest:
            raise HandshakeError(Fault.GARBLED, f"CURVE: HELLO of version {version.hex()}, this side speaks 0100")
        key = _try(Fault.KEY, _OTHER_KEY, crypto_box_beforenm, far, self._keys.secret)
        if _try(Fault.KEY, _OTHER_KEY, crypto_box_open_afternm, box, HELLO_NONCE + number, key) != bytes(PROOF_BYTES):
            raise HandshakeError(Fault.GARBLED, "CURVE: HELLO proves nothing")
        self._came = NUMBER.unpack(number)[0]
        own = KeyPair.new()
        self._cookie_key = randombytes(KEY_BYTES)
        nonce = randombytes(LONG_NONCE_BYTES)
        cookie = nonce + crypto_secretbox(far + own.secret, COOKIE_NONCE + nonce, self._cookie_key)
        nonce = randombytes(LONG_NONCE_BYTES)
        welcome = crypto_box_afternm(own.public + cookie, WELCOME_NONCE + nonce, key)
        return Step(encode_command(Command(b"WELCOME", nonce + welcome)))

    def _initiate(self, command: Command) -> Step:
        cookie, short, box = _cut(command, b"INITIATE", COOKIE_BYTES, NUMBER.size)
        nonce, text = COOKIE_NONCE + cookie[:LONG_NONCE_BYTES], "CURVE: the cookie is not this connection's"
        plain = _try(Fault.GARBLED, text, crypto_secretbox_open, cookie[LONG_NONCE_BYTES:], nonce, self._cookie_key)
        far, own_secret = plain[:KEY_BYTES], plain[KEY_BYTES:]  # short-term: the far side's public, this side's secret
        (number,) = NUMBER.unpack(short)
        if number <= self._came:
            raise HandshakeError(Fault.GARBLED, f"CURVE: INITIATE with number {number} behind {self._came}")
        text = "CURVE: INITIATE does not open"
        key = _try(Fault.GARBLED, text, crypto_box_beforenm, far, own_secret)
        plain = _try(Fault.GARBLED, text, crypto_box_open_afternm, box, INITIATE_NONCE + short, key)
        if len(plain) < KEY_BYTES + LONG_NONCE_BYTES + VOUCH_BYTES:
            raise HandshakeError(Fault.GARBLED, f"CURVE: INITIATE with {len(plain)} bytes in its box")
        client = plain[:KEY_BYTES]
        vouch_at = KEY_BYTES + LONG_NONCE_BYTES
        metadata_at = vouch_at + VOUCH_BYTES
        if not self._allows(client):
            raise HandshakeError(Fault.KEY, f"CURVE: the key of the other side is not allowed: {encode_key(client)}")
        # The vouch proves that the owner of the long-term key has made the short-term one, for this side.
        vouch, nonce = plain[vouch_at:metadata_at], VOUCH_NONCE + plain[KEY_BYTES:vouch_at]
        vouch_key = _try(Fault.KEY, "CURVE: an invalid key", crypto_box_beforenm, client, own_secret)
        text = "CURVE: the other side does not have the secret key of the one that it shows"
        if _try(Fault.KEY, text, crypto_box_open_afternm, vouch, nonce, vouch_key) != far + self._keys.public:
            raise HandshakeError(Fault.KEY, text)
        ready = NUMBER.pack(1)
        said = ready + crypto_box_afternm(self._metadata, READY_NONCE + ready, key)
        self._traffic = Traffic(key, is_server=True, sent=1, came=number)
        self._incoming.begin(self._traffic)
        return Step(encode_command(Command(b"READY", said)), plain[metadata_at:], client)


_NO_KEY: Final = "CURVE: the configured public key of the server is invalid"
_NOT_READY: Final = "CURVE: READY does not open"


class CurveClient(_Curve):
    """The client's side of one connection, to the server with this public key."""

    is_server: Final = False

    def __init__(self, keys: KeyPair, server: bytes) -> None:
        self._keys = keys
        self._server = server
        self._own = KeyPair.new()
        self._hello_key = self._key = b""  # shared keys, by the server's long-term key and by its short-term one
        self.doubt = ""

    def begin(self, metadata: bytes) -> bytes:
        self._metadata = metadata
        self._hello_key = _try(Fault.KEY, _NO_KEY, crypto_box_beforenm, self._server, self._own.secret)
        number = NUMBER.pack(1)
        proof = crypto_box_afternm(bytes(PROOF_BYTES), HELLO_NONCE + number, self._hello_key)
        self.doubt = "its public key may be another one than configured"
        return encode_command(Command(b"HELLO", VERSION + bytes(PADDING_BYTES) + self._own.public + number + proof))

    def take(self, command: Command) -> Step:
        return self._ready(command) if self._key else self._welcome(command)

    def _welcome(self, command: Command) -> Step:
        sizes = (LONG_NONCE_BYTES, BOX_BYTES + KEY_BYTES + COOKIE_BYTES)
        nonce, box, _ = _cut(command, b"WELCOME", *sizes)
        text = "CURVE: WELCOME does not open: the other side has another key than configured, or sends garbage"
        plain = _try(Fault.KEY, text, crypto_box_open_afternm, box, WELCOME_NONCE + nonce, self._hello_key)
        far, cookie = plain[:KEY_BYTES], plain[KEY_BYTES:]
        nonce = randombytes(LONG_NONCE_BYTES)
        vouch_key = _try(Fault.GARBLED, text, crypto_box_beforenm, far, self._keys.secret)
        vouch = nonce + crypto_box_afternm(self._own.public + self._server, VOUCH_NONCE + nonce, vouch_key)
        self._key = _try(Fault.GARBLED, text, crypto_box_beforenm, far, self._own.secret)
        number = NUMBER.pack(2)
        plain = self._keys.public + vouch + self._metadata
        initiate = crypto_box_afternm(plain, INITIATE_NONCE + number, self._key)
        self.doubt = "it may not allow this side's key"
        return Step(encode_command(Command(b"INITIATE", cookie + number + initiate)))

    def _ready(self, command: Command) -> Step:
        number, box = _cut(command, b"READY", NUMBER.size)
        metadata = _try(Fault.GARBLED, _NOT_READY, crypto_box_open_afternm, box, READY_NONCE + number, self._key)
        self._traffic = Traffic(self._key, is_server=False, sent=2, came=NUMBER.unpack(number)[0])
        self._incoming.begin(self._traffic)
        return Step(metadata=metadata)
