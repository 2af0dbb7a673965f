"""`hub run`: start a hub and stay until a signal."""

from __future__ import annotations

import os
import shlex
import sys
from typing import TYPE_CHECKING

from hub.twins import remark
from peers.cli.flags import ConfigFile, Flags

if TYPE_CHECKING:
    from peers.daemon.daemon import Daemon

__all__ = ["run"]


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
    """Tell where the hub is, on standard output: the one thing that scripts and people wait for.

    The address of the page signs the admin in at the start that has made his token, and never again.
    """
    import structlog  # noqa: PLC0415 -- as above

    from peers.transport.endpoints import url_host  # noqa: PLC0415
    from peers.users.admin_token import AdminToken  # noqa: PLC0415

    access = daemon.node.settings.access
    shown = f"#token={AdminToken(access.admin_token).secret()}" if daemon.has_new_admin else ""
    print(f"topichub {daemon.node.name!r} is up")
    for endpoint in daemon.endpoints:
        print(f"  listens on {endpoint.location}")
    for endpoint in daemon.endpoints:
        if endpoint.scheme.is_websocket:
            host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(endpoint.host, endpoint.host)  # noqa: S104
            scheme = "https" if endpoint.scheme.is_secure else "http"
            print(f"  page       {scheme}://{url_host(host)}:{endpoint.port}/{shown}")
    if access.admin_token:
        print(f"  admin      HUB_TOKEN=$(cat {shlex.quote(access.admin_token)})")
    sys.stdout.flush()
    if slower := remark():
        structlog.get_logger("peers").warning(slower)
