"""`hub journal tier`: look into the tier of a journal, check it. Needs no hub, and does not disturb one.

```
ls, verify, status, rebuild ─▶ shelves ─▶ peers.journal.tier.shelf ─▶ folder or S3
```

All of them only read, but for `rebuild`. Each command is a module, loaded when it is called: they need pyarrow, which
is an extra.
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.texts import examples

__all__ = ["app"]

app = App(
    name="tier",
    help="Look into the tier of a journal, check it.",
    help_epilogue=examples("hub journal tier ls /mnt/shared/hub", "hub journal tier verify /mnt/shared/hub"),
)
app.command("peers.cli.journal.tier.ls:ls", name="ls", help="List the files of a tier, or its topics.")
app.command("peers.cli.journal.tier.rebuild:rebuild", name="rebuild", help="Write lost sheets of a tier anew.")
app.command("peers.cli.journal.tier.status:status", name="status", help="How far a journal is copied to its tier.")
app.command("peers.cli.journal.tier.verify:verify", name="verify", help="Read all files and look for damage.")
