"""`hub context`: hubs by name, with what is shown to each, so that commands need only `--context NAME`.

They work on a file of whoever runs them (`peers.cli.contexts`), and need no running hub.
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.examples import examples

__all__ = ["app"]

app = App(
    name="context",
    help="Hubs by name, with what is shown to each: add, list, use.",
    help_epilogue=examples(
        "hub context add prod --url tls://hub.example.org:7400 --token-file prod.token", "hub context use prod"
    ),
)
app.command("peers.cli.context.add:add", name="add", help="Write a hub down under a name.")
app.command("peers.cli.context.ls:ls", name="ls", help="Which there are, and which one is in use.")
app.command("peers.cli.context.show:show", name="show", help="What one says: the one in use, or that of a name.")
app.command("peers.cli.context.use:use", name="use", help="Take one where no hub is named, from now on.")
app.command("peers.cli.context.rm:rm", name="rm", help="Forget one. Files that it names stay.")
