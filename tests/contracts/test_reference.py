"""Generated pages of the documentation say what the code says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.contracts.golden import REWRITE
from tests.contracts.reference import PAGES

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_a_page(name: str) -> None:
    text = "".join(PAGES[name]())
    if REWRITE in os.environ:
        (FOLDER / name).write_text(text)
    assert (FOLDER / name).read_text() == text, "if the page should change: python -m tests.contracts.rewrite"


def test_no_other_page_is_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)
