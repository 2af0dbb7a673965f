"""Install the peers that are absent: Debian's packages (as root), pyzmq from PyPI (in a virtual environment).

Debian starts some services at installation; for as long as it takes, a `policy-rc.d` says no. What cannot be installed
is said loudly, and the comparison goes on without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from brokers.broker import Broker

__all__ = ["install_missing"]

_POLICY = Path("/usr/sbin/policy-rc.d")
_PYPI = "pypi:"


def install_missing(brokers: Sequence[Broker]) -> list[Broker]:
    """Return the brokers that are there, after installing what could be."""
    missing = [broker for broker in brokers if not broker.version()]
    debian = [broker.package for broker in missing if not broker.package.startswith(_PYPI)]
    python = [broker.package.removeprefix(_PYPI) for broker in missing if broker.package.startswith(_PYPI)]
    if debian:
        _install_debian(debian)
    if python:
        _install_python(python)
    for broker in missing:
        if not broker.version():
            _shout(f"{broker.name} IS MISSING, and the comparison goes on without it (package {broker.package})")
    return [broker for broker in brokers if broker.version()]


def _install_debian(packages: list[str]) -> None:
    if os.geteuid() != 0:
        _shout(f"not root: cannot install; as root: apt-get install --no-install-recommends {' '.join(packages)}")
        return
    if not shutil.which("apt-get"):
        _shout(f"there is no apt-get here; install in this system's own way: {' '.join(packages)}")
        return
    _say(f"installing {', '.join(packages)} ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    with _no_services():
        done = _run(install, environment)
        if done.returncode:
            _run(["apt-get", "update"], environment)
            done = _run(install, environment)
    if done.returncode:
        _shout(f"apt-get could not install: {done.stdout[-500:]}")


def _install_python(packages: list[str]) -> None:
    if sys.prefix == sys.base_prefix:
        _shout(f"not in a virtual environment: cannot install {', '.join(packages)}")
        return
    _say(f"installing {', '.join(packages)} ...")
    done = _run([sys.executable, "-m", "pip", "install", "--quiet", *packages], dict(os.environ))
    if done.returncode:
        _shout(f"pip could not install: {done.stdout[-500:]}")


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


@contextmanager
def _no_services() -> Iterator[None]:
    """Keep packages from starting what they install, where nothing keeps them from it already."""
    if _POLICY.exists():
        yield
        return
    _POLICY.write_text("#!/bin/sh\nexit 101\n")
    _POLICY.chmod(0o755)
    try:
        yield
    finally:
        _POLICY.unlink()


def _shout(text: str) -> None:
    _say(f"\n*** {text}\n")


def _say(text: str) -> None:
    print(text, file=sys.stderr)  # noqa: T201 -- a script
