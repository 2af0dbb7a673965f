"""`hub journal verify`: read everything, and tell what is damaged and what can still be read around it.

That is: all blocks in the folder, and those files of the tier that hold what is not there any more.

| exit code | meaning |
|---|---|
| 0 | all is what was written |
| 3 | something is damaged |
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import chain
from typing import Annotated

from cyclopts import Parameter

from peers.cli.journal.bar import shown_bar
from peers.cli.journal.older import Tier, tell_older
from peers.cli.journal.reading import JournalPath, opened_history
from peers.cli.journal.survey import Flaw, Stretch, survey, survey_of_tier
from peers.cli.texts import amount, print_json, show

__all__ = ["Soundness", "verify"]

_SHOWN_ROWS = 100
"""Most rows of each table."""


class Soundness(IntEnum):
    """How a journal is; the number is the exit code."""

    SOUND = 0
    DAMAGED = 3


def verify(
    path: JournalPath,
    /,
    *,
    tier: Tier = None,
    json: Annotated[
        bool, Parameter(help="A JSON object a line: what is damaged, then what can be read.", negative=())
    ] = False,
) -> int:
    """Read everything in a journal and look for damage: exit code 0 if there is none, 3 if there is."""
    stretches: list[Stretch] = []
    troubles: list[str] = []
    with opened_history(path, tier) as history, shown_bar() as tell:
        tell_older("verify", history)
        first, following = history.extent
        for one in chain(survey_of_tier(history), survey(history.view)):
            if isinstance(one, Flaw):
                troubles.append(one.text)
            else:
                stretches.append(one)
                tell(f"offset {one.first:,}", one.first - first, following - first)
    flawed = [one for one in stretches if one.flaw]
    sound = [one for one in stretches if not one.flaw]
    readable = _joined(sound)
    if json:
        print_json(*map(_damaged, flawed), *({"damaged": True, "what": text} for text in troubles))
        print_json(*({"damaged": False, "first": one.first, "next": one.next} for one in readable))
        return Soundness.DAMAGED if flawed or troubles else Soundness.SOUND
    if not flawed and not troubles:
        files = sum(one.is_there for one in sound)
        print(_sound_line(readable, len(sound) - files, files))
        return Soundness.SOUND
    _show_damage(flawed, troubles)
    print()
    _show_rows(("readable offsets", "records"), [(_offsets(one), _records(one)) for one in readable])
    return Soundness.DAMAGED


def _damaged(stretch: Stretch) -> dict[str, object]:
    return {"damaged": True, "what": stretch.flaw, "first": stretch.first, "next": stretch.next}


def _joined(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return ranges without gaps, each as long as it goes."""
    joined: list[Stretch] = []
    for one in stretches:
        if joined and joined[-1].next is not None and one.first <= joined[-1].next:
            joined[-1] = joined[-1]._replace(next=max(joined[-1].next, one.next or 0))
        else:
            joined.append(one)
    return joined


def _sound_line(readable: list[Stretch], blocks: int, files: int) -> str:
    if not readable:
        return "sound: no records"
    first, following = readable[0].first, readable[-1].next or 0
    records = sum((one.next or 0) - one.first for one in readable)  # a hub may have deleted some in between
    tier = f" and {files:,} files of the tier" if files else ""
    return f"sound: {records:,} records in {blocks:,} blocks{tier}, offsets {first} to {following - 1}"


def _show_damage(flawed: list[Stretch], troubles: list[str]) -> None:
    rows = [(_offsets(one), _records(one), one.flaw) for one in flawed]
    rows += [("", "", text) for text in troubles]
    _show_rows(("damaged offsets", "records", "what"), rows)


def _show_rows(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    show(heads, rows[:_SHOWN_ROWS], text_columns=(0, 2))
    if len(rows) > _SHOWN_ROWS:
        print(f"and {len(rows) - _SHOWN_ROWS:,} more")


def _offsets(stretch: Stretch) -> str:
    return f"{stretch.first} to {'?' if stretch.next is None else stretch.next - 1}"


def _records(stretch: Stretch) -> str:
    return "?" if stretch.next is None else amount(stretch.next - stretch.first)
