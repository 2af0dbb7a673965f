"""Checks of an installation: `examine` yields a `Finding` for each, with a fix where something is wrong.

Each check looks at one thing that a hub with these settings needs. None changes anything: ports are bound and given
back, files are only looked at. A check that cannot be done on this system yields nothing.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import os
import platform
import resource
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from hub import __version__
from hub.errors import HubError
from hub.settings.settings import Settings
from hub.twins import missing
from peers.daemon.daemon import descriptors_of_connections
from peers.daemon.sources import Loaded, is_loopback, reaches_strangers
from peers.server.memory import MEMORY_PART, available_bytes, memory_limit_bytes
from peers.transport.endpoints import Endpoint, Scheme
from peers.transport.tls import server_context
from peers.users.users import read_users

_CONNECT_S = 2.0
_ENDS_SOON_S = 30 * 86_400
_LEAST_FREE_BYTES = 1 << 30
_PRIVILEGED = 1024  # ports below need a capability on Linux
_TIME_ERROR = 5  # of adjtimex(2): the clock is not synchronized
_TIMEX_BYTES = 512  # `struct timex` has 208 on Linux


class State(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"  # the hub runs, but not as well or as safely as it could
    ERROR = "error"  # the hub does not start, or cannot do what is configured


class Finding(NamedTuple):
    """One check."""

    check: str
    state: State
    text: str
    fix: str = ""


def ok(check: str, text: str) -> Finding:
    return Finding(check, State.OK, text)


def warning(check: str, text: str, fix: str) -> Finding:
    return Finding(check, State.WARNING, text, fix)


def error(check: str, text: str, fix: str) -> Finding:
    return Finding(check, State.ERROR, text, fix)


def examine(loaded: Loaded, is_hub: Callable[[Endpoint], bool]) -> Iterator[Finding]:
    """Yield a finding for each check.

    Args:
        loaded: The settings of the hub.
        is_hub: Returns whether a hub answers at an endpoint that cannot be bound.
    """
    settings = loaded.settings
    yield from _program(settings)
    for endpoint in loaded.listen:
        yield from _listener(endpoint, settings, is_hub)
    for endpoint in loaded.peers:
        yield _peer(endpoint)
    yield from _access(settings)
    yield from _certificates(settings)
    yield from _journal(settings)
    yield from _stores(settings)
    yield from _system(loaded)


def _program(settings: Settings) -> Iterator[Finding]:
    yield ok("program", f"topichub {__version__}, {platform.python_implementation()} {platform.python_version()}")
    if importlib.util.find_spec("uvloop") is None:
        yield warning("event loop", "uvloop is not installed: a message costs more CPU", "pip install 'topichub[fast]'")
    else:
        yield ok("event loop", "uvloop")
    if names := missing():
        fix = "install a C compiler and Python's headers (Debian: gcc libc6-dev python3-dev), then topichub again"
        yield warning("compiled modules", f"not compiled: {', '.join(names)}: pure Python is slower", fix)
    else:
        yield ok("compiled modules", "all")
    needed = {
        "tier": ("numpy", "pyarrow") if settings.journal.tier else (),
        "curve": ("nacl",) if _uses_curve(settings) else (),
    }
    for extra, packages in needed.items():
        for package in packages:
            if importlib.util.find_spec(package) is None:
                yield error("packages", f"{package} is not installed", f"pip install 'topichub[{extra}]'")


def _uses_curve(settings: Settings) -> bool:
    zeek = settings.zeek
    return bool(zeek.curve_key or zeek.curve_broker or zeek.curve_node_key)


def _listener(endpoint: Endpoint, settings: Settings, is_hub: Callable[[Endpoint], bool]) -> Iterator[Finding]:
    check = f"listen {endpoint.location}"
    if endpoint.scheme is Scheme.UNIX:
        yield _socket_file(check, endpoint, is_hub)
        return
    try:
        found = socket.getaddrinfo(
            endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in found:
            with socket.socket(family, kind, protocol) as bound:
                bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                bound.bind(address)
    except OSError as problem:
        yield _unbound(check, endpoint, problem, is_hub)
    else:
        yield ok(check, "free")
    if endpoint.scheme in {Scheme.TCP, Scheme.WS} and not is_loopback(endpoint):
        secure = "tls" if endpoint.scheme is Scheme.TCP else "wss"
        fix = f"listen on {secure}://, or keep the port inside a trusted network or behind a TLS proxy"
        yield warning(check, "tokens and messages cross the network unencrypted", fix)
    if settings.access.anonymous and reaches_strangers(endpoint, settings):
        text = f"clients without credentials get the role {settings.access.anonymous!r}"
        yield warning(check, text, "empty access.anonymous, unless this is meant")


def _unbound(check: str, endpoint: Endpoint, problem: OSError, is_hub: Callable[[Endpoint], bool]) -> Finding:
    if problem.errno == errno.EADDRINUSE:
        if is_hub(endpoint):
            return ok(check, "a hub runs there")
        return error(
            check, "another program has this port", f"ss -ltnp 'sport = :{endpoint.port}' shows it; or use another port"
        )
    if problem.errno == errno.EACCES and endpoint.port < _PRIVILEGED:
        fix = f"use a port from {_PRIVILEGED} on, or AmbientCapabilities=CAP_NET_BIND_SERVICE in the systemd unit"
        return error(check, "this account may not use ports below 1024", fix)
    if problem.errno == errno.EADDRNOTAVAIL:
        return error(check, "no interface of this machine has this address", "use an own address, or 0.0.0.0 for all")
    return error(check, str(problem.strerror or problem), "mend the URL in `listen`")


def _socket_file(check: str, endpoint: Endpoint, is_hub: Callable[[Endpoint], bool]) -> Finding:
    folder = Path(endpoint.path).parent
    if not folder.is_dir():
        return error(check, f"{folder}: no such folder", f"mkdir {folder}; for systemd: RuntimeDirectory=")
    if not os.access(folder, os.W_OK | os.X_OK):
        return error(check, f"{folder}: this account may not write there", "use a folder that it may write in")
    return ok(check, "a hub runs there" if Path(endpoint.path).exists() and is_hub(endpoint) else "free")


def _peer(endpoint: Endpoint) -> Finding:
    check = f"peer {endpoint.location}"
    try:
        if endpoint.scheme is Scheme.UNIX:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(_CONNECT_S)
                connection.connect(endpoint.path)
        else:
            socket.create_connection((endpoint.host, endpoint.port), _CONNECT_S).close()
    except OSError as problem:
        fix = "start that hub, or mend name, port or firewall; this hub dials again until it answers"
        return warning(check, str(problem.strerror or problem or "no answer"), fix)
    return ok(check, "accepts connections")


def _access(settings: Settings) -> Iterator[Finding]:
    access = settings.access
    try:
        users = read_users(access, settings.zeek)
    except HubError as problem:
        yield error("users", str(problem), "mend the file; `hub policy check FILE` checks a policy")
    else:
        named = "no policy" if users.policy is None else f"{len(users.policy.users):,} users in the policy"
        yield ok("users", f"{named}, {len(users.tokens):,} tokens")
    for key, path in (
        ("access.admin_token", access.admin_token),
        ("access.peer_token", access.peer_token),
        ("access.tokens", access.tokens),
        ("tls.key", settings.tls.key),
        ("zeek.key", settings.zeek.key),
    ):
        with suppress(OSError):
            if path and Path(path).stat().st_mode & 0o077:
                yield warning(key, f"{path}: other accounts may read it", f"chmod 600 {path}")


def _certificates(settings: Settings) -> Iterator[Finding]:
    if settings.tls.certificate:
        try:
            server_context(settings.tls)
        except HubError as problem:
            yield error("tls", str(problem), "mend the files; `openssl verify` and `openssl x509 -text` examine them")
    for key, path in (
        ("tls.certificate", settings.tls.certificate),
        ("tls.ca", settings.tls.ca),
        ("zeek.certificate", settings.zeek.certificate),
        ("zeek.ca", settings.zeek.ca),
    ):
        if path:
            yield from _lifetimes(f"{key} {path}", path)


def _lifetimes(check: str, path: str) -> Iterator[Finding]:
    try:
        found = x509.load_pem_x509_certificates(Path(path).read_bytes())
    except (OSError, ValueError) as problem:
        yield error(check, str(problem), "give a PEM file that this account may read")
        return
    now_s = time.time()
    for certificate in found:
        name = certificate.subject.rfc4514_string()
        left_s = certificate.not_valid_after_utc.timestamp() - now_s
        day = f"{certificate.not_valid_after_utc:%Y-%m-%d}"
        if certificate.not_valid_before_utc.timestamp() > now_s:
            yield error(check, f"{name}: not valid yet", "check the clock of this machine")
        elif left_s < 0:
            yield error(check, f"{name}: ended on {day}", "renew it, then `hub reload`")
        elif left_s < _ENDS_SOON_S:
            yield warning(check, f"{name}: ends on {day}", "renew it, then `hub reload`")
        else:
            yield ok(check, f"{name}: valid until {day}")


def _journal(settings: Settings) -> Iterator[Finding]:
    journal = settings.journal
    if not journal.path:
        return
    path = Path(journal.path)
    if not (finding := _writable("journal.path", path)):
        with suppress(OSError):
            held = sum(one.stat().st_size for one in path.glob("*.seg"))
            free = shutil.disk_usage(path if path.is_dir() else path.parent).free
            text = f"{path}: {held / 1e9:,.1f} GB; {free / 1e9:,.1f} GB free"
            if free < _LEAST_FREE_BYTES:
                finding = error("journal.path", text, "make room; a hub stops recording when the disk is full")
            elif held + free < journal.keep_bytes:
                fix = f"set journal.keep_bytes below {(held + free) // 1_000_000_000} GB, or use a larger disk"
                finding = warning("journal.path", f"{text}; the disk fills before journal.keep_bytes", fix)
            else:
                finding = ok("journal.path", text)
    if finding:
        yield finding


def _writable(check: str, folder: Path) -> Finding | None:
    """Return an error if a folder cannot be written, or made."""
    there = folder if folder.exists() else folder.parent
    if not there.exists():
        return error(check, f"{there}: no such folder", f"mkdir -p {there}")
    if not there.is_dir():
        return error(check, f"{there}: not a folder", "choose another path")
    if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
        return error(check, f"{there}: this account may not write there", f"chown {os.geteuid()} {there}")
    return None


def _stores(settings: Settings) -> Iterator[Finding]:
    for name, place in (one.partition("=")[::2] for one in settings.stores.open):
        if place and place != ":memory:":
            check = f"store {name}"
            folder = Path(place).parent
            absent = None if folder.exists() else error(check, f"{folder}: no such folder", f"mkdir -p {folder}")
            yield absent or _writable(check, folder) or ok(check, place)


def _system(loaded: Loaded) -> Iterator[Finding]:
    limits = loaded.settings.limits
    needed = descriptors_of_connections(limits)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        text = f"at most {hard:,} open files; limits.connections = {limits.connections:,} needs {needed:,}"
        yield warning("open files", text, f"LimitNOFILE={needed} in the systemd unit, or `ulimit -Hn {needed}`")
    else:
        yield ok("open files", f"enough for {limits.connections:,} connections")
    available = available_bytes()
    budget = memory_limit_bytes(limits.memory_bytes)
    text = f"budget {budget / 1e6:,.0f} MB of {available / 1e6:,.0f} MB"
    if limits.memory_bytes > available * MEMORY_PART:
        fix = (
            f"set limits.memory_bytes to {int(available * MEMORY_PART) >> 20}MiB or less: socket buffers need the rest"
        )
        yield warning("memory", text, fix)
    else:
        yield ok("memory", text)
    yield from _clock()
    if sys.platform.startswith("linux") and os.geteuid() == 0 and Path("/run/systemd/system").exists():
        yield warning("account", "root: a hub needs no rights of root", "run it under an account of its own")


def _clock() -> Iterator[Finding]:
    """Ask the kernel whether its clock is synchronized: offsets by time, tokens and certificates depend on it."""
    if not sys.platform.startswith("linux"):
        return
    with suppress(OSError, AttributeError):
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
        if state == _TIME_ERROR:
            yield warning("clock", "not synchronized", "start chrony or systemd-timesyncd")
        elif state >= 0:
            yield ok("clock", "synchronized")
