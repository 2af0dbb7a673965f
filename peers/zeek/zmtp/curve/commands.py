"""The commands of a CURVE handshake, taken apart and opened, for both sides; see `peers.zeek.zmtp.curve`.

```
HELLO     u8 1, u8 0  72 zeros  32 C'  8 nonce  80 box of 64 zeros                            C' → S
WELCOME   16 nonce  144 box of: 32 S', 96 cookie                                              S  → C'
          cookie: 16 nonce  80 secret box of: 32 C', 32 s', with a key that the server has for this connection
INITIATE  96 cookie  8 nonce  box of: 32 C, 16 nonce, 80 vouch, metadata                      C' → S'
          vouch: box of: 32 C', 32 S                                                          C  → S'
READY     8 nonce  box of: metadata                                                           S' → C'
```

Short nonces are numbers that grow, long ones are random. Each begins with a text of its own in front of that, so that
no box can stand for another one. Source: RFC 26 of ZeroMQ, and libzmq 4.3. No state.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from nacl.bindings import crypto_box_beforenm, crypto_box_open_afternm
from nacl.exceptions import CryptoError

from peers.zeek.zmtp.curve.z85 import KEY_BYTES
from peers.zeek.zmtp.frames import Command
from peers.zeek.zmtp.mechanism import Fault, HandshakeError

__all__ = [
    "BOX_BYTES",
    "COOKIE_BYTES",
    "COOKIE_NONCE",
    "HELLO_NONCE",
    "INITIATE_NONCE",
    "LONG_NONCE_BYTES",
    "NAME",
    "NUMBER",
    "PADDING_BYTES",
    "PROOF_BYTES",
    "READY_NONCE",
    "VERSION",
    "VOUCH_BYTES",
    "VOUCH_NONCE",
    "WELCOME_NONCE",
    "cut",
    "open_box",
    "shared_key",
]

NAME: Final = "CURVE"
"""Of the mechanism, in greetings."""

NUMBER: Final = Struct(">Q")
"""A short nonce."""
LONG_NONCE_BYTES: Final = 16
BOX_BYTES: Final = 16
"""By which a box is longer than what is in it."""

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
