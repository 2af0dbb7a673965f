"""The handshake of CURVE for both sides: its keys, its commands, `CurveServer` and `CurveClient`.

A server keeps nothing of a connection between WELCOME and INITIATE but what the cookie brings back; the key of a cookie
is made for one connection, so a cookie is of no use at another one, or twice.

Owner: one session. Cost: 0.1 ms for HELLO, which any far side may send, and 0.15 ms for INITIATE. Source: RFC 26 of
ZeroMQ, and recordings of libzmq.
"""

from __future__ import annotations

from collections.abc import Callable
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

from peers.zeek.zmtp.curve.traffic import BOX_BYTES, NUMBER, SealedIncoming, Traffic
from peers.zeek.zmtp.curve.z85 import KEY_BYTES, encode_key
from peers.zeek.zmtp.frames import Command, Incoming, encode_command
from peers.zeek.zmtp.handshake import Fault, HandshakeError, Step


class KeyPair(NamedTuple):
    """The keys of one side."""

    public: bytes
    secret: bytes

    @classmethod
    def new(cls) -> KeyPair:
        """Make one that nobody has."""
        public, secret = crypto_box_keypair()
        return cls(public, secret)

    @classmethod
    def of_secret(cls, secret: bytes) -> KeyPair:
        """Return the pair that a secret key belongs to."""
        return cls(crypto_scalarmult_base(secret), secret)

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public.hex()})"


NAME: Final = "CURVE"
"""Of the mechanism, in greetings."""

LONG_NONCE_BYTES: Final = 16

VERSION: Final = b"\x01\x00"
PADDING_BYTES: Final = 72
"""HELLO is longer than WELCOME, so that nobody can use a server to send more than he sends himself."""
PROOF_BYTES: Final = 64
COOKIE_BYTES: Final = LONG_NONCE_BYTES + BOX_BYTES + 2 * KEY_BYTES
VOUCH_BYTES: Final = BOX_BYTES + 2 * KEY_BYTES

HELLO_NONCE: Final = b"CurveZMQHELLO---"
WELCOME_NONCE: Final = b"WELCOME-"
COOKIE_NONCE: Final = b"COOKIE--"
INITIATE_NONCE: Final = b"CurveZMQINITIATE"
VOUCH_NONCE: Final = b"VOUCH---"
READY_NONCE: Final = b"CurveZMQREADY---"


def cut(command: Command, name: bytes, *sizes: int) -> list[bytes]:
    """Return the fields of a command that is to come now, and what is behind them.

    Args:
        command: That has come.
        name: Of the one that is to come.
        sizes: Of its fields, bytes.

    Raises:
        HandshakeError: It is another one, or too short.
    """
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


def shared_key(public: bytes, secret: bytes, fault: Fault, text: str) -> bytes:
    """Return what two sides have in common; the arguments behind the keys are those of `open_box`.

    Raises:
        HandshakeError: The public key is none.
    """
    try:
        key: bytes = crypto_box_beforenm(public, secret)
    except CryptoError as error:  # a point of low order
        raise HandshakeError(fault, text) from error
    return key


def open_box(box: bytes, nonce: bytes, key: bytes, fault: Fault, text: str) -> bytes:
    """Return what is in a box.

    Args:
        box: Sealed.
        nonce: With which it was sealed; 24 bytes.
        key: That both sides have.
        fault: What it means if it does not open.
        text: The same, for people.

    Raises:
        HandshakeError: It does not open.
    """
    try:
        plain: bytes = crypto_box_open_afternm(box, nonce, key)
    except CryptoError as error:
        raise HandshakeError(fault, text) from error
    return plain


_OTHER_KEY: Final = "CURVE: HELLO does not open: the far side was told another public key than this side's, or garbles"


class CurveServer:
    """Of one connection. See `peers.zeek.zmtp.handshake.Mechanism`.

    Args:
        keys: This side's.
        allows: Whether a far side may come in that has a public key.
    """

    name: Final = NAME
    is_server: Final = True
    doubt: Final = ""

    def __init__(self, keys: KeyPair, allows: Callable[[bytes], bool]) -> None:
        self._keys = keys
        self._allows = allows
        self._metadata = b""
        # The key of the cookie, between WELCOME and INITIATE; empty before.
        self._cookie_key = b""
        # The last number of the far side's.
        self._came = 0

    def incoming(self, limit_bytes: int) -> Incoming:
        """Make what opens boxes, once there are any."""
        self._incoming = SealedIncoming(limit_bytes)
        return self._incoming

    def begin(self, metadata: bytes) -> bytes:
        """The far side speaks first."""
        self._metadata = metadata
        return b""

    def take(self, command: Command) -> Step:
        """Take HELLO, then INITIATE."""
        return self._initiate(command) if self._cookie_key else self._hello(command)

    def seal(self, frames: bytes) -> bytes:
        """Return whole frames in boxes."""
        return self._traffic.seal(frames)

    def _hello(self, command: Command) -> Step:
        sizes = (len(VERSION), PADDING_BYTES, KEY_BYTES, NUMBER.size, BOX_BYTES + PROOF_BYTES)
        version, _, far, number, box, rest = cut(command, b"HELLO", *sizes)
        if version != VERSION or rest:
            raise HandshakeError(Fault.GARBLED, f"CURVE: HELLO of version {version.hex()}, this side speaks 0100")
        key = shared_key(far, self._keys.secret, Fault.KEY, _OTHER_KEY)
        if open_box(box, HELLO_NONCE + number, key, Fault.KEY, _OTHER_KEY) != bytes(PROOF_BYTES):
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
        cookie, short, box = cut(command, b"INITIATE", COOKIE_BYTES, NUMBER.size)
        far, own_secret = self._open_cookie(cookie)
        (number,) = NUMBER.unpack(short)
        if number <= self._came:
            raise HandshakeError(Fault.GARBLED, f"CURVE: INITIATE with number {number} behind {self._came}")
        text = "CURVE: INITIATE does not open"
        key = shared_key(far, own_secret, Fault.GARBLED, text)
        plain = open_box(box, INITIATE_NONCE + short, key, Fault.GARBLED, text)
        if len(plain) < KEY_BYTES + LONG_NONCE_BYTES + VOUCH_BYTES:
            raise HandshakeError(Fault.GARBLED, f"CURVE: INITIATE with {len(plain)} bytes in its box")
        client = plain[:KEY_BYTES]
        vouch_at = KEY_BYTES + LONG_NONCE_BYTES
        metadata_at = vouch_at + VOUCH_BYTES
        if not self._allows(client):
            raise HandshakeError(Fault.KEY, f"CURVE: the key of the far side is not allowed: {encode_key(client)}")
        vouch = plain[vouch_at:metadata_at], VOUCH_NONCE + plain[KEY_BYTES:vouch_at]
        self._check_vouch(*vouch, shared_key(client, own_secret, Fault.KEY, "CURVE: a key that is none"), far)
        ready = NUMBER.pack(1)
        said = ready + crypto_box_afternm(self._metadata, READY_NONCE + ready, key)
        self._traffic = Traffic(key, is_server=True, sent=1, came=number)
        self._incoming.begin(self._traffic)
        return Step(encode_command(Command(b"READY", said)), plain[metadata_at:], client)

    def _open_cookie(self, cookie: bytes) -> tuple[bytes, bytes]:
        """Return the far side's short-term public key, and this side's short-term secret one."""
        nonce = COOKIE_NONCE + cookie[:LONG_NONCE_BYTES]
        try:
            plain: bytes = crypto_secretbox_open(cookie[LONG_NONCE_BYTES:], nonce, self._cookie_key)
        except CryptoError as error:
            raise HandshakeError(Fault.GARBLED, "CURVE: the cookie is not this connection's") from error
        return plain[:KEY_BYTES], plain[KEY_BYTES:]

    def _check_vouch(self, vouch: bytes, nonce: bytes, key: bytes, far: bytes) -> None:
        """See to it that who has the long-term key has made the short-term one, for this side."""
        try:
            plain: bytes = crypto_box_open_afternm(vouch, nonce, key)
        except CryptoError:
            plain = b""
        if plain != far + self._keys.public:
            raise HandshakeError(Fault.KEY, "CURVE: the far side does not have the secret key of the one that it shows")


_NO_KEY: Final = "CURVE: what this side was told is the server's public key is none"
_NOT_READY: Final = "CURVE: READY does not open"


class CurveClient:
    """Of one connection. See `peers.zeek.zmtp.handshake.Mechanism`.

    Args:
        keys: This side's.
        server: The far side's public key.
    """

    name: Final = NAME
    is_server: Final = False

    def __init__(self, keys: KeyPair, server: bytes) -> None:
        self._keys = keys
        self._server = server
        # For this connection alone.
        self._own = KeyPair.new()
        self._metadata = b""
        # What both sides have in common: by the server's long-term key, and then by its short-term one.
        self._hello_key = self._key = b""
        self.doubt = ""
        """What may be wrong if the far side ends the stream now."""

    def incoming(self, limit_bytes: int) -> Incoming:
        """Make what opens boxes, once there are any."""
        self._incoming = SealedIncoming(limit_bytes)
        return self._incoming

    def begin(self, metadata: bytes) -> bytes:
        """Say HELLO."""
        self._metadata = metadata
        self._hello_key = shared_key(self._server, self._own.secret, Fault.KEY, _NO_KEY)
        number = NUMBER.pack(1)
        proof = crypto_box_afternm(bytes(PROOF_BYTES), HELLO_NONCE + number, self._hello_key)
        self.doubt = "its public key may be another one than this side was told"
        return encode_command(Command(b"HELLO", VERSION + bytes(PADDING_BYTES) + self._own.public + number + proof))

    def take(self, command: Command) -> Step:
        """Take WELCOME, then READY."""
        return self._ready(command) if self._key else self._welcome(command)

    def seal(self, frames: bytes) -> bytes:
        """Return whole frames in boxes."""
        return self._traffic.seal(frames)

    def _welcome(self, command: Command) -> Step:
        sizes = (LONG_NONCE_BYTES, BOX_BYTES + KEY_BYTES + COOKIE_BYTES)
        nonce, box, _ = cut(command, b"WELCOME", *sizes)
        text = "CURVE: WELCOME does not open: the far side has another key than this side was told, or garbles"
        plain = open_box(box, WELCOME_NONCE + nonce, self._hello_key, Fault.KEY, text)
        far, cookie = plain[:KEY_BYTES], plain[KEY_BYTES:]
        nonce = randombytes(LONG_NONCE_BYTES)
        vouch_key = shared_key(far, self._keys.secret, Fault.GARBLED, text)
        vouch = nonce + crypto_box_afternm(self._own.public + self._server, VOUCH_NONCE + nonce, vouch_key)
        self._key = shared_key(far, self._own.secret, Fault.GARBLED, text)
        number = NUMBER.pack(2)
        plain = self._keys.public + vouch + self._metadata
        initiate = crypto_box_afternm(plain, INITIATE_NONCE + number, self._key)
        self.doubt = "it may not allow this side's key"
        return Step(encode_command(Command(b"INITIATE", cookie + number + initiate)))

    def _ready(self, command: Command) -> Step:
        number, box = cut(command, b"READY", NUMBER.size)
        metadata = open_box(box, READY_NONCE + number, self._key, Fault.GARBLED, _NOT_READY)
        self._traffic = Traffic(self._key, is_server=False, sent=2, came=NUMBER.unpack(number)[0])
        self._incoming.begin(self._traffic)
        return Step(metadata=metadata)
