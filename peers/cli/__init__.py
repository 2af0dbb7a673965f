"""The command line `hub`. Each command is a module of its name, loaded when it is called, to start quickly."""

from __future__ import annotations

import sys

from cyclopts import App

from hub import __version__
from hub.errors import HubError
from peers.cli.formats import escaped

__all__ = ["app", "main"]

app = App(
    name="hub",
    help="A topic-prefix publish/subscribe hub: bounded queues, a choice on overflow, and no silent drops.",
    version=__version__,
)
app.command("peers.cli.run:run", name="run", help="Start a hub: listen, peer with other hubs, run until a signal.")
app.command("peers.cli.pub:pub", name="pub", help="Publish a value, lines from stdin, or a file of records.")
app.command("peers.cli.sub:sub", name="sub", help="Show messages as they come.")
app.command("peers.cli.request:request", name="request", help="Ask whoever serves a topic, and show the reply.")
app.command("peers.cli.serve:serve", name="serve", help="Answer requests with a shell command, or with themselves.")
app.command("peers.cli.names:names", name="names", help="Which service names a hub knows, and whose they are.")
app.command("peers.cli.top:top", name="top", help="Who is connected, how fast, and what was dropped: a live table.")
app.command("peers.cli.check:check", name="check", help="Ask a hub how it is; the exit code is for health checks.")
app.command("peers.cli.spark:app", name="spark", help="Process archives with Apache Spark, here or on a cluster.")
app.command("peers.cli.journal:app", name="journal", help="Look into a journal's file, export its records, check it.")
app.command("peers.cli.bench:app", name="bench", help="Measure throughput, latency and loss through a hub.")
app.command(
    "peers.cli.check_config:check_config",
    name="check-config",
    help="Show the effective settings and where each came from.",
)

EXIT_ERROR = 1
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command that the arguments name; an error that has a name is one line on stderr and exit code 1."""
    try:
        app()
    except HubError as error:
        # What a far side said may be part of it: nothing in it may steer the terminal.
        print(escaped(f"hub: {error}"), file=sys.stderr)
        sys.exit(EXIT_ERROR)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); nothing is wrong, and nothing can be written.
        sys.stderr.close()
        sys.exit(EXIT_ERROR)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
