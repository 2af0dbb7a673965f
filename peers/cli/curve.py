"""`hub curve`: CURVE keys of Zeek clusters. A secret key goes to its file alone, never to the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from peers.cli.texts import examples
from peers.connections.zeek_cluster.remote_end import need_curve
from peers.users.curve_keys import write_public, write_secret
from peers.zeek.zmtp.z85 import encode_key


def new(
    name: Annotated[str, Parameter(help="Name of the files, without .key and .pub.")],
    /,
) -> None:
    """Make a pair of keys: NAME.key has the secret key, NAME.pub the public one, which is also written to stdout."""
    need_curve()
    from peers.zeek.zmtp.curve import KeyPair  # noqa: PLC0415 -- it needs PyNaCl

    pair = KeyPair.new()
    secret, public = Path(f"{name}.key"), Path(f"{name}.pub")
    write_public(public, pair.public)
    try:
        write_secret(secret, pair.secret)
    except BaseException:
        public.unlink()
        raise
    print(encode_key(pair.public))


app = App(
    name="curve",
    help="CURVE keys for Zeek clusters over ZeroMQ: make a pair.",
    help_epilogue=examples("hub curve new broker", "hub curve new node"),
)
app.command(new, name="new", help="Make a pair of keys, in two files.")
