"""Which Java Spark would start, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from peers.spark.session import SparkUnavailableError, check_java, java_version


def java_home(folder: Path, script: str) -> dict[str, str]:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(folder), "PATH": ""}


@pytest.mark.parametrize(
    ("told", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25-ea"', 25),
        ("command not found", 0),
    ],
)
def test_versions_are_read(told: str, major: int) -> None:
    assert java_version(told) == major


def test_java_of_java_home_comes_first(tmp_path: Path) -> None:
    assert check_java(java_home(tmp_path, """echo 'openjdk version "21.0.2"' >&2""")) == 21


def test_java_of_the_path(tmp_path: Path) -> None:
    java_home(tmp_path, """echo 'openjdk version "17.0.1"' >&2""")
    assert check_java({"PATH": f"/nothing:{tmp_path / 'bin'}"}) == 17


@pytest.mark.parametrize(
    ("script", "said"),
    [("""echo 'openjdk version "11.0.2"' >&2""", "is Java 11"), ("echo hello >&2", "of no version")],
)
def test_an_old_java_is_refused(tmp_path: Path, script: str, said: str) -> None:
    with pytest.raises(SparkUnavailableError, match=f"Java 17 or newer, .*bin/java .*{said}.*apt-get install"):
        check_java(java_home(tmp_path, script))


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailableError, match="there is no Java here: install one"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(SparkUnavailableError, match="bin/java does not run: install one"):
        check_java({"JAVA_HOME": str(tmp_path), "PATH": ""})
