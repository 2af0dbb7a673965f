"""`CurveClient`: the client's side of a CURVE handshake. Owner: one session. Cost: 0.4 ms."""

from __future__ import annotations

from typing import Final

from nacl.bindings import crypto_box_afternm, randombytes

from peers.zeek.zmtp.curve.commands import (
    BOX_BYTES,
    COOKIE_BYTES,
    HELLO_NONCE,
    INITIATE_NONCE,
    LONG_NONCE_BYTES,
    NAME,
    NUMBER,
    PADDING_BYTES,
    PROOF_BYTES,
    READY_NONCE,
    VERSION,
    VOUCH_NONCE,
    WELCOME_NONCE,
    cut,
    open_box,
    shared_key,
)
from peers.zeek.zmtp.curve.key_pair import KeyPair
from peers.zeek.zmtp.curve.sealed import SealedIncoming
from peers.zeek.zmtp.curve.traffic import Traffic
from peers.zeek.zmtp.curve.z85 import KEY_BYTES
from peers.zeek.zmtp.frames import Command, Incoming, encode_command
from peers.zeek.zmtp.mechanism import Fault, Step

__all__ = ["CurveClient"]

_NO_KEY: Final = "CURVE: what this side was told is the server's public key is none"
_NOT_READY: Final = "CURVE: READY does not open"


class CurveClient:
    """Of one connection. See `peers.zeek.zmtp.mechanism.Mechanism`.

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
