"""`hub doctor`: what is wrong with an installation, with the fix; a support bundle without secrets."""

from __future__ import annotations

import io
import os
import platform
import sys
import tarfile
import time
from contextlib import closing, suppress
from dataclasses import replace
from http.client import HTTPConnection, HTTPException
from importlib.metadata import distributions
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from hub.errors import HubError, RejectedError, UsageError
from hub.settings.keys import ConfigError, told
from peers.cli.check import answer_of
from peers.cli.run import ConfigFile, Flags
from peers.cli.texts import escaped, print_json, show
from peers.daemon.doctor import Finding, State, examine
from peers.daemon.sources import Loaded, load
from peers.transport.endpoints import Endpoint, reachable_host

_ASK_S = 2.0
_PAGE_BYTES = 4 * 1024 * 1024
_EXIT_CODES = {State.OK: 0, State.WARNING: 1, State.ERROR: 2}


def doctor(
    flags: Flags | None = None,
    *,
    config: ConfigFile = None,
    bundle: Annotated[
        Path | None,
        Parameter(help="Write a support bundle (.tar.gz): findings, settings, versions, metrics; no secrets."),
    ] = None,
    json: Annotated[bool, Parameter(help="A JSON object a line, one for each check.")] = False,
) -> int:
    """Check what a hub with these settings needs: ports, files, rights, certificates, disk, clock, limits, packages.

    Exit code 0 if all is well, 1 with warnings, 2 if the hub would not start or could not do what is configured.
    """
    loaded: Loaded | None = None
    try:
        loaded = load((flags or Flags()).layer(), os.environ, config)
        findings = list(examine(loaded, _is_hub))
    except ConfigError as problem:
        findings = [Finding("settings", State.ERROR, str(problem), "`hub check-config --explain` lists all settings")]
    if bundle is not None:
        _write_bundle(bundle, findings, loaded)
    if json:
        print_json(*(one._asdict() for one in findings))
    else:
        rows = [(one.state.value, one.check, one.text) for one in findings]
        show(("state", "check", "result"), [tuple(map(escaped, row)) for row in rows], text_columns=range(3))
        for one in findings:
            if one.fix:
                print(f"\n{one.state.value}: {escaped(one.check)}: {escaped(one.text)}\n  fix: {escaped(one.fix)}")
    return max(_EXIT_CODES[one.state] for one in findings)


def _reachable(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, host=reachable_host(endpoint.host))


def _is_hub(endpoint: Endpoint) -> bool:
    try:
        answer_of(_reachable(endpoint), _ASK_S)
    except HubError as error:
        # A hub that asks for credentials rejects this; one that asks for a certificate answers with an alert.
        cause = error.__cause__
        return isinstance(cause, RejectedError) or "CERTIFICATE_REQUIRED" in (getattr(cause, "reason", "") or "")
    return True


def _write_bundle(path: Path, findings: list[Finding], loaded: Loaded | None) -> None:
    files: dict[str, bytes] = {
        "findings.json": _json([one._asdict() for one in findings]),
        "versions.json": _json(
            {
                "platform": platform.platform(),
                "python": sys.version,
                "packages": {one.name: one.version for one in distributions()},
            }
        ),
        # Names alone: a variable may hold a token.
        "environment.json": _json(sorted(name for name in os.environ if name.startswith("HUB_"))),
    }
    with suppress(OSError):
        files["limits.txt"] = Path("/proc/self/limits").read_bytes()
    if loaded is not None:
        files["settings.json"] = _json(told(loaded.settings, loaded.origins))
        journal = Path(loaded.settings.journal.path or os.devnull)
        if journal.is_dir():
            files["journal.json"] = _json({one.name: one.stat().st_size for one in sorted(journal.iterdir())})
        for endpoint in loaded.listen:
            if endpoint.scheme.is_websocket and not endpoint.scheme.is_secure:
                files |= _pages(_reachable(endpoint))
    try:
        with tarfile.open(path, "w:gz") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"topichub-support/{name}")
                entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(content))
        path.chmod(0o600)
    except OSError as problem:
        raise UsageError(f"{path}: {problem.strerror}") from problem


def _pages(endpoint: Endpoint) -> dict[str, bytes]:
    """Return health and metrics of a running hub, as far as it gives them to an anonymous client."""
    found: dict[str, bytes] = {}
    for page in ("healthz", "readyz", "metrics"):
        with (
            suppress(OSError, HTTPException),
            closing(HTTPConnection(endpoint.host, endpoint.port, timeout=_ASK_S)) as hub,
        ):
            hub.request("GET", f"/{page}")
            answer = hub.getresponse()
            head = f"{answer.status} {answer.reason}\n\n".encode()
            found[f"{page}-{endpoint.port}.txt"] = head + answer.read(_PAGE_BYTES)
    return found


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
