"""`hub store`: stores from the command line: list, read, write, watch, export and import. See docs/stores.md.

```
get, put, erase, ls ─┐
watch ───────────────┼─▶ opening ─▶ a store, wherever in the mesh it is
export, import ──────┘   entry ───▶ how keys and values are written and read
```

Each command is a module, loaded when it is called.
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.examples import examples

__all__ = ["app"]

app = App(
    name="store",
    help="Stores: list, read, write, watch, export and import.",
    help_epilogue=examples("""hub store put status sensor-7 '{"state": "up"}'""", "hub store watch status sensor-"),
)
app.command("peers.cli.store.ls:ls", name="ls", help="List the stores of a hub, or the entries of one.")
app.command("peers.cli.store.get:get", name="get", help="Write the value of a key.")
app.command("peers.cli.store.put:put", name="put", help="Set the value of a key; write the version of its entry.")
app.command("peers.cli.store.erase:erase", name="erase", help="Take an entry away.")
app.command("peers.cli.store.watch:watch", name="watch", help="Show what is there, and then each change.")
app.command("peers.cli.store.importing:import_", name="import", help="Put the entries that JSON lines hold.")
app.command("peers.cli.store.export:export", name="export", help="Write all entries as JSON lines.")
