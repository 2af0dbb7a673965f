"""The journals that a tier holds, as the commands open them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from hub.errors import UsageError
from hub.journal.segment.header import ID_BYTES
from peers.journal.tier.place import check_installed, place_at

if TYPE_CHECKING:
    from peers.journal.tier.shelf import Shelf

__all__ = ["JournalId", "TierAddress", "shelf_of", "shelves"]

TierAddress = Annotated[str, Parameter(help="The tier: a folder or s3://bucket/prefix, as `journal.tier` names it.")]

JournalId = Annotated[str | None, Parameter(help="Id of a journal, where the tier holds several.")]


def shelves(address: str, journal: str | None) -> list[Shelf]:
    """Return the journals that a tier holds, their manifests read.

    Args:
        address: Of the tier.
        journal: Id of the only one that is wanted.

    Raises:
        UsageError: The address is none, what it needs is not installed, or there is no such journal.
        JournalCorruptError: A manifest is damaged.
        TierUnavailableError: It cannot be read now.
    """
    check_installed()
    found = [name for name in place_at(address).folders() if _id(name) and journal in {None, name}]
    if not found:
        raise UsageError(f"{address}: holds no {'journal' if journal is None else f'journal {journal}'}")
    return [shelf_of(address, _id(name)) for name in found]


def shelf_of(address: str, journal: bytes) -> Shelf:
    """Return one journal in a tier, its manifest read. Raises as `shelves`."""
    check_installed()
    from peers.journal.tier.shelf import Shelf  # noqa: PLC0415 -- it needs what was looked for just now

    shelf = Shelf(place_at(address), journal)
    shelf.refresh()
    return shelf


def _id(name: str) -> bytes:
    """Return the id that a folder is called by; empty if it is called otherwise."""
    try:
        found = bytes.fromhex(name)
    except ValueError:
        return b""
    return found if len(found) == ID_BYTES and found.hex() == name else b""
