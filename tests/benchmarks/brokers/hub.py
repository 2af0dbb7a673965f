"""The hub of a checkout, run by the Python that runs the comparison, with its defaults but for the log."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from brokers.broker import Ports, first_line
from brokers.certificate import Certificate

__all__ = ["Hub"]

_ROOT = Path(__file__).resolve().parents[3]
_PROBE = """
from importlib.util import find_spec
import hub
twin = "compiled scanner" if find_spec("hub._runs") else "pure Python"
loop = "uvloop" if find_spec("uvloop") else "asyncio's loop"
print(hub.__version__, "with", twin, "and", loop)
"""


class Hub:
    """topichub.

    Args:
        name: What the results call it.
        root: Folder of the checkout; without it the one that this file belongs to.
        certificate: What it shows; without it there is no TLS.
    """

    package = ""
    websocket = True

    def __init__(self, name: str = "hub", root: Path = _ROOT, certificate: Certificate | None = None) -> None:
        self.name = name
        self._root = root
        self._certificate = certificate

    def version(self) -> str:
        """Return version, commit, and what is compiled."""
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, text=True, check=True, cwd=self._root
        ).stdout.strip()
        commit = first_line("git", "-C", str(self._root), "describe", "--always", "--dirty")
        return f"{probe}, {commit}"

    def command(self, ports: Ports, directory: Path) -> list[str]:  # noqa: ARG002 -- it reads no file
        """Start it with both listeners."""
        start = f"import sys; sys.path.insert(0, {str(self._root)!r}); from peers.cli import main; main()"
        schemes, files = ("tcp", "ws"), self._certificate
        shown: list[str] = []
        if files is not None:
            schemes, shown = ("tls", "wss"), ["--tls-certificate", files.certificate, "--tls-key", files.key]
        listen = [f"--listen={scheme}://127.0.0.1:{port}" for scheme, port in zip(schemes, ports, strict=True)]
        return [sys.executable, "-c", start, "run", *listen, *shown, "--log-level=warning"]
