"""Defects that are planted into `hub/mesh` are found: otherwise histories that find none would prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from hub.mesh import graph, mesh
from hub.mesh.announcement import Announcement, Record
from hub.mesh.knowledge import Knowledge
from hub.mesh.mesh import Mesh
from hub.mesh.outgoing import Outgoing
from hub.mesh.traffic import Traffic
from hub.mesh.upstream import Upstreams
from tests.mesh_simulation.histories import SHAPES, Plan, run
from tests.mesh_simulation.truth import BrokenPromiseError

HISTORIES = 40
"""Among so many small histories, one at least finds each planted defect."""


def _takes_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Upstreams, "accepts", lambda *_: True)


def _takes_older_epochs(patch: pytest.MonkeyPatch) -> None:
    accepts = Upstreams.accepts

    def accepts_any(self: Upstreams[object], link: object, origin: bytes, epoch: int, own: object = None) -> bool:
        upstream = self._of.get(origin)
        return (upstream is not None and epoch < upstream.epoch) or accepts(self, link, origin, epoch, own)

    patch.setattr(Upstreams, "accepts", accepts_any)


def _changes_the_upstream_within_an_epoch(patch: pytest.MonkeyPatch) -> None:
    accepts = Upstreams.accepts

    def accepts_next(self: Upstreams[object], link: object, origin: bytes, epoch: int, own: object = None) -> bool:
        upstream = self._of.get(origin)
        if upstream is not None and upstream.epoch == epoch:
            upstream.link = link
        return accepts(self, link, origin, epoch, own)

    patch.setattr(Upstreams, "accepts", accepts_next)


def _takes_its_own(patch: pytest.MonkeyPatch) -> None:
    def accepts(self: Traffic[object], link: object, origin: bytes, epoch: int) -> bool:
        return self.upstreams.accepts(link, origin, epoch)

    patch.setattr(Traffic, "accepts", accepts)
    patch.setattr(Upstreams, "accepts", lambda *_: True)


def _breaks_ties_by_who_was_known_first(patch: pytest.MonkeyPatch) -> None:
    def parents(origin: bytes, links: Mapping[bytes, Mapping[bytes, int]]) -> dict[bytes, bytes]:
        parent = {origin: origin}
        ahead = [origin]
        for hub in ahead:
            for other in links:
                if other in links.get(hub, {}) and other not in parent:
                    parent[other] = hub
                    ahead.append(other)
        return parent

    patch.setattr(graph, "parents", parents)


def _begins_no_epochs_when_all_have_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mesh, "SETTLE_S", ())


def _stays_in_one_epoch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mesh, "epoch", property(lambda _: 1, lambda *_: None))


def _remembers_routes_for_ever(patch: pytest.MonkeyPatch) -> None:
    begin = Mesh.__init__

    def begin_deaf(self: Mesh[object], *args: object, **given: object) -> None:
        begin(self, *args, **given | {"on_trees": lambda: None})  # type: ignore[arg-type]

    patch.setattr(Mesh, "__init__", begin_deaf)


def _passes_no_announcement_on(patch: pytest.MonkeyPatch) -> None:
    spread = Knowledge._spread

    def spread_own(self: Knowledge[object], but: object, record: Record, *args: object, **given: object) -> None:
        if record is self.own:
            spread(self, but, record, *args, **given)  # type: ignore[arg-type]

    patch.setattr(Knowledge, "_spread", spread_own)


def _tells_nothing_of_what_is_not_wanted_any_more(patch: pytest.MonkeyPatch) -> None:
    take = Outgoing.take

    def take_added(self: Outgoing, records: dict[bytes, Record]) -> list[object]:
        return [told._replace(removed=()) if isinstance(told, Announcement) else told for told in take(self, records)]

    patch.setattr(Outgoing, "take", take_added)


def _asks_for_no_hub_that_it_has_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Mesh, "_ask_for_the_unknown", lambda _: None)


DEFECTS = [
    _takes_everything,
    _takes_older_epochs,
    _changes_the_upstream_within_an_epoch,
    _takes_its_own,
    _breaks_ties_by_who_was_known_first,
    _begins_no_epochs_when_all_have_heard,
    _stays_in_one_epoch,
    _remembers_routes_for_ever,
    _passes_no_announcement_on,
    _tells_nothing_of_what_is_not_wanted_any_more,
    _asks_for_no_hub_that_it_has_forgotten,
]


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_planted_defect_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(BrokenPromiseError):
        _run_small_histories()


def _run_small_histories() -> None:
    for seed in range(HISTORIES):
        run(Plan(seed, hubs=6 + seed % 7, shape=SHAPES[seed % len(SHAPES)]))
