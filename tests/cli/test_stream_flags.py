"""Flags of `hub pub` that go together, or do not."""

from __future__ import annotations

from typing import Any

import pytest

from hub.errors import UsageError
from peers.cli.pub import RecordingFlags, StreamFlags
from peers.cli.replay import Rate, Recorded

FILE: dict[str, Any] = {"ndjson": "f", "template": "/t"}


@pytest.mark.parametrize(
    ("recording", "stream", "reason"),
    [
        ({"template": "/t"}, {}, "--topic belongs to --ndjson"),
        ({"speed": 1}, {}, "--speed belongs to --ndjson"),
        ({"time_field": "ts"}, {}, "--time-field belongs to --ndjson"),
        ({"max_pause": 1}, {}, "--max-pause belongs to --ndjson"),
        ({"loop": True}, {}, "--loop belongs to --ndjson"),
        ({"ndjson": "f"}, {}, "--ndjson needs the topic"),
        (FILE | {"time_field": "ts"}, {}, "belong to --speed"),
        (FILE | {"max_pause": 1}, {}, "belong to --speed"),
        (FILE | {"speed": 1}, {"rate": 1}, "give one of them"),
        (FILE | {"speed": 0}, {}, "--speed 0: give more than 0"),
        (FILE | {"speed": 1, "max_pause": 0}, {}, "--max-pause 0: give more than 0"),
        (FILE | {"ndjson": "-", "loop": True}, {}, "--loop needs a file"),
    ],
)
def test_contradictions_are_refused(recording: dict[str, Any], stream: dict[str, Any], reason: str) -> None:
    """One line that says which flag does not fit, and what to do."""
    with pytest.raises(UsageError, match=reason):
        RecordingFlags(**recording).check(StreamFlags(**stream))


@pytest.mark.parametrize(("flags", "reason"), [({"rate": 0}, "--rate 0"), ({"limit": 0}, "--limit 0")])
def test_nothing_is_not_a_number_of_messages(flags: dict[str, Any], reason: str) -> None:
    """A rate or limit of 0 is a mistake, not "no limit"."""
    with pytest.raises(UsageError, match=reason):
        StreamFlags(**flags)


def test_the_pace_is_what_was_asked_for() -> None:
    """Full speed without flags, else the rate or the recorded pace."""
    assert RecordingFlags(**FILE).pace(StreamFlags()) is None
    assert isinstance(RecordingFlags(**FILE).pace(StreamFlags(rate=5)), Rate)
    recorded = RecordingFlags(**FILE, speed=2, time_field="at", max_pause=3).pace(StreamFlags())
    assert isinstance(recorded, Recorded)
    assert [recorded.pause_s({"at": at}) for at in (0, 1, 100)] == [0, 0.5, 3]
