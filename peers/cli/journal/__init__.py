"""`hub journal`: look into a journal, read records out of it, check it. Needs no hub, and does not disturb one.

```
ls ───▶ tallies ┐                                    tables, bar ─▶ terminal
stat ─▶ tallies ├─▶ reading ─▶ peers.journal.history
export ▶ forms ─┘                                    target ─▶ file, pipe
verify ─▶ survey ─▶ peers.journal.history           consumers ─▶ a hub that runs
take-over ─▶ peers.journal.earlier
tier ──▶ peers.journal.tier                         older ─▶ where older records are: in the tier
```

All of them only read, but for `take-over`, which makes a new one; `consumers` alone asks a hub. Each command is a
module, loaded when it is called.
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.texts import examples

__all__ = ["app"]

app = App(
    name="journal",
    help="Look into a journal, export its records, check it.",
    help_epilogue=examples("hub journal stat journal", "hub journal export journal --prefix /zeek/dns --start 100"),
)
app.command("peers.cli.journal.ls:ls", name="ls", help="List the blocks of a journal, or its topics.")
app.command("peers.cli.journal.stat:stat", name="stat", help="How much a journal holds, from when to when.")
app.command("peers.cli.journal.export:export", name="export", help="Write records as JSON lines, msgpack or frames.")
app.command("peers.cli.journal.consumers:consumers", name="consumers", help="How far named consumers are, for admins.")
app.command(
    "peers.cli.journal.take_over:take_over", name="take-over", help="Make a journal of one of an earlier version."
)
app.command("peers.cli.journal.tier:app", name="tier", help="Look into the tier of a journal, check it.")
app.command("peers.cli.journal.verify:verify", name="verify", help="Read everything and look for damage.")
