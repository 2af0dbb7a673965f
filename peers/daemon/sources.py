"""Where settings come from: a TOML file, then the environment, then flags; a later one wins, key by key.

They become layers for `hub.settings.keys.merge`, each with the name of its source ("hub.toml", "environment
HUB_QUEUE_MESSAGES", "flag --queue-messages"); URLs are checked here. The file is the one of `--config`, else of
HUB_CONFIG, else ./hub.toml where that exists, else none. `load` gives complete settings or an error, never half of
them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import msgspec

from hub.settings.keys import KEYS, ConfigError, Key, closest, merge
from hub.settings.settings import Settings
from peers.transport.endpoints import Endpoint, InvalidEndpointError, Scheme
from peers.users.files import read_toml
from peers.users.tokens import AdminToken, usual_place

DEFAULT_FILE = "hub.toml"  # Read from the working directory if it exists and no other file is named

# Variables that are no settings: the file's path, and those of the command line's clients
OTHER_VARIABLES = frozenset(
    {"HUB_CONFIG", "HUB_TOKEN", "HUB_TOKEN_FILE", "HUB_URL", "HUB_CA", "HUB_CERTIFICATE", "HUB_KEY"}
)
_LARGEST_FILE_BYTES = 1024 * 1024  # A thousand times what all keys together take
_SHOWN_CHARACTERS = 200  # Of an unknown variable's name in an error
_Layer = tuple[str, Mapping[str, object]]  # Name of the source, and a tree of plain values
_PREFIX = "HUB_"
_URLS = frozenset({"listen", "peers"})  # Keys whose flags are given once for each value: a URL may hold a comma
_SHORT_FLAGS = {
    "access.anonymous": "--anonymous",
    "peers": "--peer",
    "journal.path": "--journal",
    "stores.feeds": "--store-from",
    "stores.open": "--store",
}

# Kubernetes puts these into every pod beside a service that is called "hub"
_LINKED_BY_KUBERNETES = ("HUB_SERVICE_", "HUB_PORT")


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, and where they came from."""

    settings: Settings  # In range and consistent; the name may be empty, for that of the host
    origins: Mapping[str, str]  # For each path of `KEYS`: "default", the file's path, "environment HUB_X" or "flag --x"
    listen: tuple[Endpoint, ...]  # Parsed, as are `peers`
    peers: tuple[Endpoint, ...]


def variable(path: str) -> str:
    """Return the environment variable of a key: "queue.messages" is HUB_QUEUE_MESSAGES."""
    return _PREFIX + path.replace(".", "_").upper()


def flag(path: str) -> str:
    """Return the flag of a key: "queue.messages" is --queue-messages; one --peer adds one to `peers`."""
    return _SHORT_FLAGS.get(path) or "--" + path.replace(".", "-").replace("_", "-")


def load(flags: Mapping[str, object], environ: Mapping[str, str], config_path: str | None = None) -> Loaded:
    """Read and merge all sources, or raise a `ConfigError`.

    Args:
        flags: Nested as the TOML file is; None stands for a flag that was not given. Texts are fine for numbers.
        environ: The process's environment.
        config_path: Value of `--config`, or None.
    """
    return given(*_file(environ, config_path), *_environment(environ), *_flags(flags, ""))


def given(*layers: _Layer) -> Loaded:
    """Merge layers, or raise a `ConfigError` for an unknown key or a wrong value; a later layer wins, key by key."""
    settings, origins = merge(layers)
    listen = tuple(_listener(url, settings, origins["listen"]) for url in settings.listen)
    peers = tuple(_peer(url, settings, origins["peers"]) for url in settings.peers)
    return Loaded(settings, origins, listen, peers)


def _file(environ: Mapping[str, str], config_path: str | None) -> Iterator[_Layer]:
    named = config_path or environ.get("HUB_CONFIG")
    path = Path(named or DEFAULT_FILE)
    try:
        tree = read_toml(path, _LARGEST_FILE_BYTES, "a file of settings")
    except ConfigError as error:
        if named or not isinstance(error.__cause__, FileNotFoundError):
            raise
        return
    yield str(path), tree


def _environment(environ: Mapping[str, str]) -> Iterator[_Layer]:
    paths = {variable(path): path for path in KEYS}
    for name in sorted(environ):
        if not name.startswith(_PREFIX) or name in OTHER_VARIABLES:
            continue
        source = f"environment {name}"
        if name not in paths:
            hint = closest(name, [*paths, *OTHER_VARIABLES])
            if name.startswith(_LINKED_BY_KUBERNETES):
                hint = "; if Kubernetes set it, put enableServiceLinks: false into the pod's specification"
            shown = (name if name.isprintable() else ascii(name)[1:-1])[:_SHOWN_CHARACTERS]
            raise ConfigError(f"environment {shown}", "", f"unknown variable{hint}")
        path = paths[name]
        yield source, _nested(path, KEYS[path].from_text(environ[name]))


def _flags(flags: Mapping[str, object], prefix: str) -> Iterator[_Layer]:
    for name, value in flags.items():
        path = prefix + name
        if isinstance(value, Mapping):
            yield from _flags(value, path + ".")
        elif value is not None:
            known = KEYS.get(path)
            plain = _from_texts(known, value) if known else value
            yield f"flag {flag(path)}", _nested(path, plain)


def _from_texts(key: Key, value: object) -> object:
    if isinstance(value, str):
        return key.from_text(value)
    if isinstance(value, list) and key.path not in _URLS:
        return [part for text in value for part in cast("tuple[str, ...]", key.from_text(text))]
    return value


def _nested(path: str, value: object) -> dict[str, object]:
    section, _, name = path.rpartition(".")
    return {section: {name: value}} if section else {name: value}


def _listener(url: str, settings: Settings, source: str) -> Endpoint:
    try:
        endpoint = Endpoint.parse(url)
    except InvalidEndpointError as error:
        raise ConfigError(source, "listen", str(error)) from error
    if endpoint.scheme.is_websocket and endpoint.path.strip("/"):
        raise ConfigError(source, "listen", f"'{url}': leave '{endpoint.path}' out, the paths are the hub's own")
    if endpoint.scheme is Scheme.ZEEK_WS:
        text = f"'{url}': zeek+ws:// is for --peer; the hub's own server for that API is its ws:// port"
        raise ConfigError(source, "listen", text)
    if endpoint.name:
        text = f"'{url}': name is for --peer: a hub is a node with a name of a cluster that has another central broker"
        raise ConfigError(source, "listen", text)
    _check_queue(url, endpoint, settings, source, "listen")
    return endpoint


def _check_queue(url: str, endpoint: Endpoint, settings: Settings, source: str, key: str) -> None:
    queue = endpoint.queue.applied_to(settings.queue)
    for unit, asked, most in (
        ("messages", queue.messages, settings.queue_max.messages),
        ("bytes", queue.bytes, settings.queue_max.bytes),
    ):
        if asked > most:
            raise ConfigError(source, key, f"'{url}': {unit}={asked} is more than queue_max.{unit} = {most}")


def _peer(url: str, settings: Settings, source: str) -> Endpoint:
    try:
        endpoint = Endpoint.parse_peer(url)
    except InvalidEndpointError as error:
        raise ConfigError(source, "peers", str(error)) from error
    if endpoint.scheme.is_websocket:
        raise ConfigError(
            source, "peers", f"'{url}': hubs peer over tcp://, tls:// or unix://; {endpoint.scheme}:// is for clients"
        )
    _check_queue(url, endpoint, settings, source, "peers")
    return endpoint


def is_loopback(endpoint: Endpoint) -> bool:
    """Return whether only this machine reaches a listener on TCP."""
    return endpoint.host in {"localhost", "::1"} or endpoint.host.startswith("127.")


def reaches_strangers(endpoint: Endpoint, settings: Settings) -> bool:
    """Return whether a listener takes clients from the network without credentials of the transport."""
    if endpoint.scheme is Scheme.UNIX or is_loopback(endpoint):
        return False
    if endpoint.scheme is Scheme.ZEEK:
        return not settings.zeek.ca
    if endpoint.scheme in {Scheme.ZEEK_ZMQ, Scheme.ZEEK_LOG}:
        return not settings.zeek.curve_key
    return not (endpoint.scheme.is_secure and settings.tls.clients == "required")


def guarded(loaded: Loaded, environment: Mapping[str, str]) -> tuple[Loaded, bool]:
    """Return settings that let no stranger in by default, and whether the admin's token was just made."""
    settings = loaded.settings
    access = settings.access
    if not access.admin_token:
        says = access.policy or access.tokens or access.anonymous or access.jwt_keys
        if says or not any(reaches_strangers(endpoint, settings) for endpoint in loaded.listen):
            return loaded, False
        access = msgspec.structs.replace(access, admin_token=usual_place(environment))
        settings = msgspec.structs.replace(settings, access=access)
    is_new = AdminToken(access.admin_token).ensure()
    return dataclasses.replace(loaded, settings=settings), is_new
