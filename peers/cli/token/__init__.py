"""`hub token`: tokens by which users are recognised: making them, listing them, taking them away.

They work on the file that the hub's settings name (`access.tokens`), and need no running hub; one that runs takes the
change when it reloads. A secret is written once, to standard output, and never read from a flag.

| file | |
|---|---|
| `new`, `listing`, `revoke` | the commands |
| `place` | which file, by the settings |
| `span` | how long: `30d` |
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.examples import examples

__all__ = ["app"]

app = App(
    name="token",
    help="Tokens by which users are recognised: make, list, revoke.",
    help_epilogue=examples("hub token new ann --expires 30d --role sensor", "hub token list"),
)
app.command("peers.cli.token.new:new", name="new", help="Make a token, and write it to standard output, once.")
app.command("peers.cli.token.listing:listing", name="list", help="Which tokens there are: whose, since when, until.")
app.command("peers.cli.token.revoke:revoke", name="revoke", help="Take a token away.")
