"""`Orders`: what a worker is told when it starts: its settings, and what sets it apart from the other workers.

Each worker has the settings of the hub, except what belongs to the hub as a whole:

| setting | at a worker |
|---|---|
| `listen` | with the ports that the core has picked |
| `peers` | none: links are the core's |
| `journal.path`, `journal.tier`, `access.peer_token` | none: the journal is the core's, too |
| `stores.open`, `stores.feeds`, `zeek.masters`, `zeek.clones` | none: stores are the core's, and so are Zeeks |
| `journal.of` | the core, if it has a journal: it is read there, and confirms |
| `drain.clients_per_s` | its part of the rate |

Other limits, and what users may hold, are those of each process; but each has its part of the hub's memory
(`peers.server.memory`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from hub.settings.settings import Settings
from peers.daemon.sources import Loaded, given
from peers.wire.hello import fitting_name

# A worker numbers its handlers from here times the number of its start, so that no two of the hub have one number;
# 900,000 starts fit into what JavaScript counts exactly
IDS_PER_START: Final = 10_000_000_000


class Orders(msgspec.Struct):
    """What a worker is told."""

    settings: dict[str, Any]  # As a TOML file would have them
    name: str  # Of the hub
    number: int  # Of its place, from 1
    start: int  # How many were started before it, and it itself

    @property
    def own_name(self) -> str:
        """The name of the worker, as one hub of a mesh."""
        return fitting_name(self.name, f"/{self.number}")

    def loaded(self) -> Loaded:
        return given(("the core", self.settings))


def of_worker(settings: Settings, listen: tuple[str, ...], core: bytes) -> Settings:
    """Return the settings of a worker of a core with this id, which listens to these URLs, with ports."""
    replace = msgspec.structs.replace
    journal_of = core.hex() if settings.journal.path else settings.journal.of
    rate = max(1, settings.drain.clients_per_s // settings.workers)
    return replace(
        settings,
        listen=listen,
        peers=(),
        journal=replace(settings.journal, path="", tier="", of=journal_of),
        stores=replace(settings.stores, open=(), feeds=()),
        zeek=replace(settings.zeek, masters=(), clones=()),
        access=replace(settings.access, peer_token=""),
        drain=replace(settings.drain, clients_per_s=rate),
    )


def tree_of(settings: Settings) -> dict[str, Any]:
    """Return settings as a TOML file would have them."""
    tree: dict[str, Any] = msgspec.to_builtins(settings)
    return tree
