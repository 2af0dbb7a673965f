"""Which commands there are. Each is a module of its name, loaded when it is called, so that `hub` starts quickly."""

from __future__ import annotations

from cyclopts import App

from hub import __version__
from peers.cli.context_flag import fill

__all__ = ["app"]

app = App(
    name="hub",
    help="A topic-prefix publish/subscribe hub: bounded queues, a choice on overflow, and no silent drops.",
    version=__version__,
    # `peers.cli.main` tells what is wrong with a command line, in one line.
    print_error=False,
    exit_on_error=False,
    config=fill,
)
app.command("peers.cli.run:run", name="run", help="Start a hub: listen, peer with other hubs, run until a signal.")
app.command("peers.cli.pub:pub", name="pub", help="Publish a value, lines from stdin, or a file of records.")
app.command("peers.cli.sub:sub", name="sub", help="Show messages as they come.")
app.command(
    "peers.cli.consume:consume", name="consume", help="Write a named consumer's messages, and acknowledge them."
)
app.command("peers.cli.request:request", name="request", help="Ask whoever serves a topic, and show the reply.")
app.command("peers.cli.serve:serve", name="serve", help="Answer requests with a shell command, or with themselves.")
app.command("peers.cli.names:names", name="names", help="Which service names a hub knows, and whose they are.")
app.command("peers.cli.mesh:mesh", name="mesh", help="Which hubs are linked to one mesh, and how: tables or a graph.")
app.command(
    "peers.cli.trace:trace",
    name="trace",
    help="The way of a topic through a mesh, and the time of each hop: for admins.",
)
app.command("peers.cli.top:top", name="top", help="Who is connected, how fast, and what was dropped: a live table.")
app.command("peers.cli.who:who", name="who", help="Who is connected, since when, over what: for admins.")
app.command("peers.cli.users:users", name="users", help="Which users a hub knows, with their roles: for admins.")
app.command("peers.cli.kick:kick", name="kick", help="Close a connection, or all of a user: for admins.")
app.command("peers.cli.reload:reload", name="reload", help="Let a hub read its settings and users again: for admins.")
app.command("peers.cli.drain:drain", name="drain", help="Move all clients off a hub, and stop it: for admins.")
app.command("peers.cli.check:check", name="check", help="Ask a hub how it is; the exit code is for health checks.")
app.command("peers.cli.token:app", name="token", help="Tokens by which users are recognised: make, list, revoke.")
app.command("peers.cli.curve:app", name="curve", help="CURVE keys for Zeek clusters over ZeroMQ: make a pair.")
app.command("peers.cli.policy:app", name="policy", help="Is a policy right, and what may somebody do by it?")
app.command("peers.cli.context:app", name="context", help="Hubs by name, with what is shown to each: add, list, use.")
app.command("peers.cli.completion:completion", name="completion", help="Write what a shell needs to complete `hub`.")
app.command("peers.cli.store:app", name="store", help="Stores: list, read, write, watch, export and import.")
app.command("peers.cli.spark:app", name="spark", help="Process archives with Apache Spark, here or on a cluster.")
app.command("peers.cli.journal:app", name="journal", help="Look into a journal, export its records, check it.")
app.command("peers.cli.bench:app", name="bench", help="Measure throughput, latency and loss through a hub.")
app.command(
    "peers.cli.check_config:check_config",
    name="check-config",
    help="Show the effective settings and where each came from.",
)
