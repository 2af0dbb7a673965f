"""The list of compiled twins, and what is said where one is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from hub import twins

PROJECT = Path(__file__).parents[2]


def test_all_sources_of_twins_are_listed() -> None:
    found = (source for package in ("hub", "peers") for source in (PROJECT / package).rglob("*.pyx"))
    sources = (source.relative_to(PROJECT).with_suffix("") for source in found)
    assert sorted(".".join(source.parts) for source in sources) == sorted(twins.TWINS)


def test_a_missing_twin_is_told_with_what_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twins, "find_spec", lambda name: None if name == "hub._runs" else object())
    assert twins.missing() == ("hub._runs",)
    assert twins.remark().startswith("not compiled: hub._runs; pure Python serves")
    assert "\n" not in twins.remark()
    monkeypatch.setattr(twins, "find_spec", lambda _: object())
    assert (twins.missing(), twins.remark()) == ((), "")
