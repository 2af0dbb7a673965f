"""Builds the compiled twins of the hot loops where that is possible; everything else is in pyproject.toml.

A twin is a `.pyx` beside the pure module that does the same: whatever lies under `hub` and `peers` is built. An
installation goes on without them, because many machines have no compiler, or one without Python's headers (Debian keeps
these in a package of their own). It says so in one line. TOPICHUB_TWINS=required makes a missing twin an error, as
for the image and CI; TOPICHUB_TWINS=none builds a wheel for all platforms.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

TWINS = os.environ.get("TOPICHUB_TWINS")
REQUIRED = TWINS == "required"


class BuildTwins(build_ext):
    """Builds the twins, and reports those that could not be built."""

    def run(self) -> None:
        """Build all twins, then report missing ones."""
        super().run()
        missing = [twin.name for twin in self.extensions if not Path(self.get_ext_fullpath(twin.name)).exists()]
        if missing:
            print(
                f"topichub: not compiled: {', '.join(missing)}; pure Python serves, slower: "
                "install a C compiler and Python's headers (Debian: gcc libc6-dev python3-dev), then install again",
                file=sys.stderr,
            )


def twins() -> list[Extension]:
    """Return one extension for each `.pyx`, none where there is no Cython to translate them."""
    if TWINS == "none":
        return []
    sources = sorted(source for package in ("hub", "peers") for source in Path(package).rglob("*.pyx"))
    try:
        from Cython.Build import cythonize
    except ImportError:
        if REQUIRED:
            raise
        return []
    # The C files go to the build's folder: beside the sources they would end up in wheels.
    made: list[Extension] = cythonize(
        [Extension(".".join(source.with_suffix("").parts), [str(source)]) for source in sources],
        build_dir="build/cython",
    )
    for twin in made:
        # Set on what `cythonize` returns, because it does not keep what its arguments say of this.
        twin.optional = not REQUIRED
    return made


def description() -> str:
    """Return the README without its links to files, which lead nowhere outside the repository."""
    readme = Path("README.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^]]+)\]\((?!https?:)[^)]*\)", r"\1", readme)


setup(
    ext_modules=twins(),
    cmdclass={"build_ext": BuildTwins},
    long_description=description(),
    long_description_content_type="text/markdown",
)
