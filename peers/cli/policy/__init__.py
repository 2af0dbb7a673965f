"""`hub policy`: is a policy right, what may somebody do by it, and what would it change for those who are connected?

| file | |
|---|---|
| `check` | `hub policy check`, which needs no hub |
| `trial` | `hub policy test`, of files or of a hub that runs |
| `change` | `hub policy try`, which asks a hub that runs |
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.texts import examples

__all__ = ["app"]

app = App(
    name="policy",
    help="Is a policy right, and what may somebody do by it?",
    help_epilogue=examples("hub policy check policy.toml", "hub policy test alice publish /zeek/dns"),
)
app.command("peers.cli.policy.check:check", name="check", help="Read a policy, and say what is wrong with it.")
app.command("peers.cli.policy.trial:trial", name="test", help="May a user do something? Which rule says so?")
app.command("peers.cli.policy.change:change", name="try", help="What would a policy change for who is connected?")
