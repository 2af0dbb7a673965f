"""The workers of a run rewrite the assertions of each file once, and not each of them all: each begins with its share.

pytest keeps what it has rewritten beside the file, but workers collect the same files in the same order at the same
time: in a new clone all would rewrite all, 7 s of work each. Here a worker does those of its share that nobody has done
before it collects; the shares take equally long, so that it finds those of the others done.

What is kept and how is pytest's: these are its own functions, which are no interface. A file that cannot be parsed is
left to the collection, which says so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

_TESTS = "test_*.py"


def files_of(arguments: Iterable[str], folder: Path) -> Sequence[Path]:
    return sorted({file for argument in arguments for file in _below(folder / argument.partition("::")[0])})


def _below(place: Path) -> Iterator[Path]:
    yield from place.rglob(_TESTS) if place.is_dir() else [place] * place.match(_TESTS)


def rewrite_share(config: pytest.Config, files: Sequence[Path], number: int, count: int) -> None:
    if sys.dont_write_bytecode:
        return
    state = config.stash[rewrite.assertstate_key]
    for file in files[number % count :: count]:
        folder = rewrite.get_cache_dir(file)
        kept = folder / f"{file.stem}{rewrite.PYC_TAIL}"
        if not kept.exists() and rewrite.try_makedirs(folder):
            with suppress(SyntaxError):
                told, code = rewrite._rewrite_test(file, config)
                rewrite._write_pyc(state, code, told, kept)
