"""The Java that Spark would start: where it is, and whether it is new enough.

Spark looks for it in `JAVA_HOME`, then in `PATH`, and says little when there is none or an old one; so it is checked
before. Cost: one `java -version`, about 50 ms.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hub.errors import UsageError

__all__ = ["JAVA_LEAST", "SparkUnavailableError", "check_java", "major_version"]

JAVA_LEAST = 17
"""Oldest major version that Spark 4 runs on."""

_PATIENCE_S = 60.0

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

_REMEDY = f"install one (Debian, Ubuntu: apt-get install openjdk-{JAVA_LEAST}-jre-headless) or point JAVA_HOME at one"


class SparkUnavailableError(UsageError):
    """Something that Spark needs is not installed; the text says what and how to get it."""


def check_java(environment: Mapping[str, str] = os.environ) -> int:
    """Return the major version of the Java that Spark would start.

    Args:
        environment: Where `JAVA_HOME` and `PATH` are looked up.

    Raises:
        SparkUnavailableError: There is none, it does not run, or it is too old.
    """
    java = _java(environment)
    try:
        done = subprocess.run(  # noqa: S603 -- the program that Spark will start, without input
            [java, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkUnavailableError(
            f"Spark needs Java {JAVA_LEAST} or newer, {java} does not run: {_REMEDY}"
        ) from error
    found = major_version(done.stderr)
    if found < JAVA_LEAST:
        shown = f"is Java {found}" if found else "is of no version that it would tell"
        raise SparkUnavailableError(f"Spark needs Java {JAVA_LEAST} or newer, {java} {shown}: {_REMEDY}")
    return found


def major_version(told: str) -> int:
    """Return the major version in what `java -version` says, 0 if there is none; Java 8 calls itself 1.8."""
    found = _VERSION.search(told)
    return int(found[1]) if found else 0


def _java(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    java = shutil.which("java", path=environment.get("PATH"))
    if java is None:
        raise SparkUnavailableError(f"Spark needs Java {JAVA_LEAST} or newer, there is no Java here: {_REMEDY}")
    return java
