"""`hub policy`: is a policy right, and what may somebody do by it? Needs no hub.

| file | |
|---|---|
| `check`, `trial` | the commands |
| `verdict` | what a policy says of one user and one topic, and why |
"""

from __future__ import annotations

from cyclopts import App

__all__ = ["app"]

app = App(name="policy", help="Is a policy right, and what may somebody do by it?")
app.command("peers.cli.policy.check:check", name="check", help="Read a policy, and say what is wrong with it.")
app.command("peers.cli.policy.trial:trial", name="test", help="May a user do something? Which rule says so?")
