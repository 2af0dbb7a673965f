"""Builds with a compiler, without one, and with one that finds no headers of Python.

Cython translates the twins once: later builds find its output in `build/cython`, as in a clone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

import pytest

from hub import __version__, twins
from hub.twins import TWINS
from release.packages import copy_sources

PROJECT = Path(__file__).parents[2]

TRANSLATED = Path("build", "cython")
"""Where setup.py puts the twins in C."""

NO_HEADERS = """#!/bin/sh
for word; do
  shift
  case $word in -I*) ;; *) set -- "$@" "$word" ;; esac
done
PATH={path} exec {compiler} "$@"
"""
"""A compiler as on a machine that has no headers of Python: none of the folders it is told of is there."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def copied(folder: Path, built: Path = PROJECT) -> Path:
    source = folder / "source"
    source.mkdir()
    copy_sources(source)
    if (built / TRANSLATED).is_dir():
        shutil.copytree(built / TRANSLATED, source / TRANSLATED)
    return source


def path_without_compiler(folder: Path) -> Path:
    for name in ("env", "sh"):  # all that a build needs beside a compiler
        (folder / name).symlink_to(shutil.which(name) or name)
    return folder


class Built(NamedTuple):
    source: Path
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def pure(tmp_path_factory: pytest.TempPathFactory, tools: Path) -> Built:
    source = copied(tmp_path_factory.mktemp("pure"))
    return Built(source, build(source, tools, path_without_compiler(tmp_path_factory.mktemp("path"))))


@pytest.fixture
def source(tmp_path: Path, pure: Built) -> Path:
    """The project as a clone has it in which a build has been before, without a compiler."""
    return copied(tmp_path, pure.source)


def build(source: Path, tools: Path, path: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name not in {"CC", "CFLAGS", "TOPICHUB_TWINS"}}
    return subprocess.run(
        [sys.executable, "-c", "from setuptools.build_meta import build_wheel; build_wheel('dist')"],
        cwd=source,
        env=inherited | {"PATH": str(path), "PYTHONPATH": str(tools)} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def names_in(source: Path) -> list[str]:
    (wheel,) = (source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        return opened.namelist()


def twins_in(names: list[str]) -> set[str]:
    return {name.partition(".")[0].replace("/", ".") for name in names if name.endswith(".so")}


def told(built: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.strip() for line in built.stdout.splitlines() if "topichub: not compiled" in line]


def without_headers(folder: Path) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler here")
    folder.mkdir()
    for name in ("gcc", "cc"):
        (folder / name).write_text(NO_HEADERS.format(path=os.environ["PATH"], compiler=compiler))
        (folder / name).chmod(0o755)
    return path_without_compiler(folder)


def check_pure(source: Path, built: subprocess.CompletedProcess[str]) -> None:
    assert built.returncode == 0, built.stdout
    assert twins_in(names_in(source)) == set()
    (line,) = told(built)
    assert all(name in line for name in TWINS)


def test_without_a_compiler_that_works_pure_python_is_installed(pure: Built, source: Path, tools: Path) -> None:
    check_pure(*pure)
    (wheel,) = (pure.source / "dist").glob("*.whl")
    path = "import sys; sys.path.insert(0, sys.argv[1])"
    program = f"{path}; import hub.messages.stretch, hub.twins; print(hub.twins.missing())"
    done = subprocess.run(
        [sys.executable, "-c", program, wheel], cwd=pure.source / "dist", capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(TWINS)
    path = without_headers(source.parent / "path")
    check_pure(source, build(source, tools, path))
    assert build(source, tools, path, TOPICHUB_TWINS="required").returncode != 0, "whoever needs them can have it fail"


def test_with_a_compiler_all_twins_are_built_and_nothing_else_is_carried_along(source: Path, tools: Path) -> None:
    built = build(source, tools, os.environ["PATH"], CFLAGS="-O0")  # how fast they are is seen elsewhere
    assert built.returncode == 0, built.stdout
    names = names_in(source)
    assert twins_in(names) == set(TWINS)
    assert told(built) == []
    assert {name.rpartition(".")[2] for name in names}.isdisjoint({"c", "pyx", "pxi"})
    data = f"topichub-{__version__}.data"
    tops = {name.partition("/")[0] for name in names if "dist-info" not in name}
    assert tops == {"hub", "peers", "pyspark_hub", data}
    assert {f"{data}/data/share/topichub/{name}" for name in ("hub.toml", "topichub.service")} <= set(names)
    assert {"hub/py.typed", "hub/messages/_runs.pyi", "peers/console/static/hub.js"} <= set(names)


def test_the_wheel_has_every_file_of_the_page_and_links_that_lead_somewhere(pure: Built) -> None:
    static = pure.source / "peers" / "console" / "static"
    files = {str(one.relative_to(pure.source)) for one in static.rglob("*") if one.is_file()}
    assert "peers/console/static/vendor/uplot/LICENSE.txt" in files
    assert files <= set(names_in(pure.source))
    (wheel,) = (pure.source / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith("/METADATA"))
        metadata = HeaderParser().parsestr(opened.read(name).decode())
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert text.startswith("# topichub")
    assert "](docs/" not in text
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_all_sources_of_twins_are_listed_and_a_missing_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (source for package in ("hub", "peers") for source in (PROJECT / package).rglob("*.pyx"))
    sources = (source.relative_to(PROJECT).with_suffix("") for source in found)
    assert sorted(".".join(source.parts) for source in sources) == sorted(TWINS)
    monkeypatch.setattr(twins, "find_spec", lambda name: None if name == "hub.messages._runs" else object())
    assert twins.missing() == ("hub.messages._runs",)
    assert twins.remark().startswith("not compiled: hub.messages._runs; pure Python serves")
    assert "\n" not in twins.remark()
    monkeypatch.setattr(twins, "find_spec", lambda _: object())
    assert (twins.missing(), twins.remark()) == ((), "")
