"""`Operations`: what a store must know of the types of values. It only ever sees msgpack.

`peers.stores.operations` implements this; hub/ does not know the types.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ["Operations"]


class Operations(Protocol):
    """What can be done with packed values. All functions are pure, and raise `StoreError` with a text for people."""

    def canonical(self, key: bytes) -> bytes:
        """Return the one form of a key: equal keys have equal bytes.

        Raises:
            StoreError: It is no value.
        """

    def check(self, value: bytes) -> None:
        """Raise `StoreError` if that is not exactly one value."""

    def apply(self, kind: str, old: bytes | None, operand: bytes | None, empty: bytes | None) -> bytes:
        """Return the new value of an entry.

        Args:
            kind: A kind of `hub.stores.command` that makes a value out of an old one.
            old: The old value; None if there is no entry.
            operand: The value of the command.
            empty: For add: what stands for an old value that is missing.

        Raises:
            StoreError: The kind is not known, the entry is missing and cannot be, the types do not allow it, or a
                number would leave its range.
        """

    def index(self, value: bytes, index: bytes) -> bytes | None:
        """Return a part of a value: an element of a vector, whether a set has a member, the value of a table's key.

        Returns:
            None if there is no such element or key.

        Raises:
            StoreError: The value has no parts, or the index of a vector is no number.
        """
