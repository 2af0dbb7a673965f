"""`KeyPair`: the keys of one side, Curve25519. A value."""

from __future__ import annotations

from typing import NamedTuple

from nacl.bindings import crypto_box_keypair, crypto_scalarmult_base

__all__ = ["KeyPair"]


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
