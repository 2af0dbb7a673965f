"""`hub run`: start a hub and stay until a signal; `hub check-config`: show its settings. A flag for each key.

A text is passed on as it was given: files, the environment and flags are judged in `peers.daemon.sources`.
"""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from hub.settings.keys import KEYS, Kind, told, value_at
from hub.twins import remark
from peers.cli.texts import print_json, show
from peers.daemon.sources import flag, load

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

    from peers.daemon.daemon import Daemon


_TAKEN = {Kind.TEXTS: list[str] | None}

_FIRST_DAY = frozenset(
    {
        "listen",
        "peers",
        "name",
        "queue.overflow",
        "journal.path",
        "journal.topics",
        "stores.open",
        "access.policy",
        "tls.certificate",
    }
)
"""Flags of the first panel of the help; with `--config` these are ten."""

_FIRST = Group("Flags of the first day", sort_key=1)


def _brief(console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:  # noqa: ARG001 -- named by cyclopts
    """Print where the flags of a panel are described, in place of the panel."""
    console.print(
        f"{len(panel.entries)} more flags, one for each setting, such as --limits-memory-bytes 256MiB:\n"
        "hub check-config --explain lists them.",
        highlight=False,
    )


_REST = Group("All other settings", sort_key=2, help_formatter=_brief)

ConfigFile = Annotated[
    str | None, Parameter(group=_FIRST, help="TOML file with settings. Default: HUB_CONFIG or ./hub.toml.")
]


def _help(path: str) -> Parameter:
    key = KEYS[path]
    group = _FIRST if path in _FIRST_DAY else _REST
    taken = "" if key.kind is Kind.TEXT else f" Takes {key.expected}."
    return Parameter(name=flag(path), help=key.description + taken, group=group, show_default=False)


class _Layer:
    """Flags of the command line; None for each that was not given."""

    def layer(self) -> dict[str, Any]:
        """Return the flags as a tree, as a TOML file with the same keys would give it."""
        tree: dict[str, Any] = {}
        for path in KEYS:
            section, _, name = path.rpartition(".")
            value = getattr(self, path.replace(".", "_"))
            if section:
                tree.setdefault(section, {})[name] = value
            else:
                tree[name] = value
        return tree


if TYPE_CHECKING:
    Flags = _Layer
else:
    Flags = Parameter(name="*")(
        make_dataclass(
            "Flags",
            [
                (path.replace(".", "_"), Annotated[_TAKEN.get(key.kind, str | None), _help(path)], None)
                for path, key in KEYS.items()
            ],
            bases=(_Layer,),
            namespace={"__module__": __name__},  # cyclopts takes a class of the standard library for one value
            kw_only=True,
        )
    )


def run(
    flags: Flags | None = None,
    *,
    config: ConfigFile = None,
) -> None:
    """Start a hub: listen, peer with other hubs, and run until SIGTERM or Ctrl-C.

    Settings come from a TOML file, the environment (HUB_...) and these flags; later ones win. SIGHUP reads them again.
    """
    # Half a second of imports, which `hub run --help` does without.
    from peers.daemon.run import run as run_daemon  # noqa: PLC0415
    from peers.daemon.sources import load  # noqa: PLC0415
    from peers.workers.workers import Workers  # noqa: PLC0415

    given = (flags or Flags()).layer()
    run_daemon(lambda: load(given, os.environ, config), _announce, Workers)


def _announce(daemon: Daemon) -> None:
    """Print where the hub listens. The address of the page has the admin's token only at the start that made it."""
    import structlog  # noqa: PLC0415 -- as above

    from peers.transport.endpoints import reachable_host, url_host  # noqa: PLC0415
    from peers.users.tokens import AdminToken  # noqa: PLC0415

    access = daemon.server.settings.access
    shown = f"#token={AdminToken(access.admin_token).secret()}" if daemon.has_new_admin else ""
    print(f"topichub {daemon.server.name!r} is up")
    for endpoint in daemon.endpoints:
        print(f"  listens on {endpoint.location}")
    for endpoint in daemon.endpoints:
        if endpoint.scheme.is_websocket:
            host = reachable_host(endpoint.host)
            scheme = "https" if endpoint.scheme.is_secure else "http"
            print(f"  page       {scheme}://{url_host(host)}:{endpoint.port}/{shown}")
    if access.admin_token:
        print(f"  admin      HUB_TOKEN=$(cat {shlex.quote(access.admin_token)})")
    sys.stdout.flush()
    if slower := remark():
        structlog.get_logger("peers").warning(slower)


_NUMBERS = frozenset({Kind.COUNT, Kind.SIZE, Kind.SECONDS})


def check_config(
    flags: Flags | None = None,
    *,
    config: ConfigFile = None,
    explain: Annotated[bool, Parameter(help="Describe each setting: purpose, values, and flag.")] = False,
    json: Annotated[bool, Parameter(help="A JSON object a line, one for each setting.")] = False,
) -> None:
    """Show the settings that `hub run` would use with the same flags, and the origin of each.

    Exit code 0 if they are valid; if not, one line names key, place and cause, and the exit code is 2 if the place is a
    flag, else 1.
    """
    loaded = load((flags or Flags()).layer(), os.environ, config)
    if json:
        print_json(*told(loaded.settings, loaded.origins))
        return
    if explain:
        for path, key in KEYS.items():
            value, unit = _setting_text(value_at(loaded.settings, path)), f" {key.unit}" if key.kind in _NUMBERS else ""
            print(f"{flag(path)}\n    {key.description}\n    Takes {key.expected}.")
            print(f"    {path} = {value}{unit} ({loaded.origins[path]})\n")
        return
    rows = [
        (path, _setting_text(value_at(loaded.settings, path)), key.unit, loaded.origins[path])
        for path, key in KEYS.items()
    ]
    show(("setting", "value", "unit", "from"), rows, text_columns=range(4))


def _setting_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value) if value != "" else '""'
