"""`hub curve`: keys by which nodes of Zeek clusters and their central broker know each other.

A secret key is written to its file alone, never to the terminal, and never read from a flag.

| file | |
|---|---|
| `new` | makes a pair |
"""

from __future__ import annotations

from cyclopts import App

from peers.cli.examples import examples

__all__ = ["app"]

app = App(
    name="curve",
    help="CURVE keys for Zeek clusters over ZeroMQ: make a pair.",
    help_epilogue=examples("hub curve new broker", "hub curve new node"),
)
app.command("peers.cli.curve.new:new", name="new", help="Make a pair of keys, in two files.")
