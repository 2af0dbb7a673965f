"""What is written about where things are is true: rooms in docs/architecture.md, names of modules everywhere."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
_ROOMS = ARCHITECTURE.partition("\n## Rooms\n")[2].partition("\n## ")[0]
CORE_ROOMS_LIMIT = 14
ROOMS_LIMIT = 24
"""Most rooms: `hub`, `pyspark_hub` and the folders and loose modules of `peers`."""

_DOTTED = re.compile(r"`{1,2}((?:hub|peers|pyspark_hub)(?:\.[A-Za-z_]\w*)+)[`(]")
_PATH = re.compile(r"\b((?:hub|peers|pyspark_hub|tests|examples)/[\w./*{},-]*)")
_FILES = re.compile(r"hub\.(js|mjs|d\.ts|toml|sock|pid|pem|v1|db|service|example|connect|connect_blocking|listening)\b")
"""Files, subprotocols and hosts whose names begin like the package's; and what a variable `hub` of an example has."""


def _rows() -> str:
    """Return the first column of the table of rooms."""
    return "\n".join(line.split("|")[1] for line in _ROOMS.splitlines() if line.startswith("|"))


def _folders(package: str) -> list[str]:
    return sorted(
        f"{package}/{each.name}/" for each in (ROOT / package).iterdir() if each.is_dir() and any(each.glob("*.py"))
    )


def test_every_folder_is_a_room_of_the_document() -> None:
    """Each package within `hub` and `peers` has its place in the table of rooms."""
    rows = _rows()
    missing = [folder for package in ("hub", "peers") for folder in _folders(package) if f"`{folder}`" not in rows]
    assert not missing


def test_every_module_of_the_core_is_in_the_document() -> None:
    """Each module that lies in `hub` itself is named in the table of rooms."""
    rows = _rows()
    modules = [file.name for file in sorted((ROOT / "hub").glob("*.py")) if file.stem not in {"__init__", "__main__"}]
    assert not [name for name in modules if name not in rows]


def test_peers_has_no_loose_modules() -> None:
    """Whatever belongs to `peers` lies in one of its rooms."""
    assert [file.name for file in (ROOT / "peers").glob("*.py")] == ["__init__.py"]


def test_rooms_are_few() -> None:
    """A newcomer can keep all rooms in mind: those of the whole, and those of the core."""
    assert 2 + len(_folders("peers")) <= ROOMS_LIMIT
    assert len(_folders("hub")) <= CORE_ROOMS_LIMIT


def test_every_room_has_a_face() -> None:
    """The first sentence of `__init__` says what a room holds."""
    faces = [*(ROOT / "hub").rglob("__init__.py"), *(ROOT / "peers").rglob("__init__.py")]
    assert not [str(face) for face in faces if not (ast.get_docstring(ast.parse(face.read_text())) or "")]


def test_paths_in_the_document_exist() -> None:
    """Each path that the document gives leads somewhere."""
    missing = []
    for path in _PATH.findall(ARCHITECTURE):
        name = path.rstrip(".,/")
        if "*" in name or "{" in name:
            continue
        if not ((ROOT / name).exists() or (ROOT / f"{name}.py").exists() or _is_attribute(name.replace("/", "."))):
            missing.append(path)
    assert not missing


def _files() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.pyx", "*.pxi", "*.md", "*.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    found = [ROOT / name for name in listed] or [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("hub/**/*.py"),
        *ROOT.glob("peers/**/*.py"),
    ]
    return [file for file in found if file.exists()]


@pytest.mark.parametrize("folder", ["docs", "examples", "hub", "peers", "pyspark_hub"])
def test_names_of_modules_lead_somewhere(folder: str) -> None:
    """A module, class or function that is named in backticks, with its package, is there under this name."""
    missing = []
    for file in _files():
        if file.relative_to(ROOT).parts[0] == folder:
            text = file.read_text(errors="replace")
            missing += [
                f"{file.relative_to(ROOT)}: {name}"
                for name in _DOTTED.findall(text)
                if not (_FILES.match(name) or _is_attribute(name))
            ]
    assert not missing


def _is_attribute(name: str) -> bool:
    """Return whether a dotted name is a module, or stands in the one that its first parts name."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:count])
        module = place.with_suffix(".py")
        if not module.exists():
            module = place / "__init__.py"
        if not module.exists():
            continue
        if count == len(parts):
            return True
        return re.search(rf"\b{re.escape(parts[count])}\b", module.read_text()) is not None
    return False
