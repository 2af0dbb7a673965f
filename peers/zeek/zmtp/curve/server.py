"""`CurveServer`: the server's side of a CURVE handshake.

What it would have to remember between WELCOME and INITIATE is in the cookie, which it has sealed with a key of this
connection: so nobody can use a cookie at another one, or twice.

Owner: one session. Cost: 0.1 ms for HELLO, which everybody may send, and 0.15 ms for INITIATE. Memory: 40 bytes between
the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nacl.bindings import (
    crypto_box_afternm,
    crypto_box_open_afternm,
    crypto_secretbox,
    crypto_secretbox_open,
    randombytes,
)
from nacl.exceptions import CryptoError

from peers.zeek.zmtp.curve.commands import (
    BOX_BYTES,
    COOKIE_BYTES,
    COOKIE_NONCE,
    HELLO_NONCE,
    INITIATE_NONCE,
    LONG_NONCE_BYTES,
    NAME,
    NUMBER,
    PADDING_BYTES,
    PROOF_BYTES,
    READY_NONCE,
    VERSION,
    VOUCH_BYTES,
    VOUCH_NONCE,
    WELCOME_NONCE,
    cut,
    open_box,
    shared_key,
)
from peers.zeek.zmtp.curve.key_pair import KeyPair
from peers.zeek.zmtp.curve.sealed import SealedIncoming
from peers.zeek.zmtp.curve.traffic import Traffic
from peers.zeek.zmtp.curve.z85 import KEY_BYTES, encode_key
from peers.zeek.zmtp.frames import Command, Incoming, encode_command
from peers.zeek.zmtp.mechanism import Fault, HandshakeError, Step

__all__ = ["CurveServer"]

_OTHER_KEY: Final = "CURVE: HELLO does not open: the far side was told another public key than this side's, or garbles"


class CurveServer:
    """Of one connection. See `peers.zeek.zmtp.mechanism.Mechanism`.

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
