"""`Mechanisms`: by which mechanism of ZMTP nodes of Zeek clusters are spoken with, and their brokers.

| settings | `zeek+zmq://`, `zeek+log://` listeners | brokers that are dialled |
|---|---|---|
| `zeek.curve_key`, `zeek.curve_clients` | CURVE: this hub is the server | |
| `zeek.curve_broker`, `zeek.curve_node_key` | | CURVE: this hub is the client |
| none of them | NULL | NULL |

All listeners speak the same, and so do all diallers, as all nodes of a cluster do: none of them falls back to NULL.

Owner: the daemon, which makes one at the start. Keys are read then, but for those of clients, which a reload reads
again. Not here: files (`peers.users.curve_keys`), the handshake (`peers.zeek.zmtp.curve`).
"""

from __future__ import annotations

from collections.abc import Callable

from hub.config import ConfigError
from hub.errors import UsageError
from hub.settings.zeek import ZeekSettings
from peers.users.curve_keys import read_public, read_secret
from peers.zeek.zmtp.mechanism import NULL, Mechanism

__all__ = ["NO_CURVE", "Mechanisms", "need_curve"]


def need_curve() -> None:
    """See to it that CURVE can be spoken.

    Raises:
        UsageError: PyNaCl is not installed.
    """
    try:
        import nacl.bindings  # noqa: F401, PLC0415 -- optional, and only who uses CURVE pays for the import
    except ImportError as error:
        raise UsageError("CURVE needs PyNaCl, which is not installed: pip install '.[curve]'") from error


class Mechanisms:
    """What each connection gets one of.

    Args:
        settings: Which keys there are.
        allows: Whether a node may come in that has a public key; asked in each handshake.

    Raises:
        ConfigError: A key cannot be read, or one of two that belong together is missing.
        UsageError: PyNaCl is not installed.
    """

    def __init__(self, settings: ZeekSettings, allows: Callable[[bytes], bool]) -> None:
        self.served: Callable[[], Mechanism] = _null
        """Makes that of a connection of a node that has come."""
        self.dialled: Callable[[], Mechanism] = _null
        """Makes that of a connection to a broker."""
        if settings.curve_clients and not settings.curve_key:
            raise ConfigError("", "zeek.curve_key", "missing: without it, nobody is asked for zeek.curve_clients")
        if bool(settings.curve_broker) is not bool(settings.curve_node_key):
            missing = "curve_node_key" if settings.curve_broker else "curve_broker"
            raise ConfigError("", f"zeek.{missing}", "missing: zeek.curve_broker and zeek.curve_node_key go together")
        if settings.curve_key:
            self.served = _server(read_secret(settings.curve_key), allows)
        if settings.curve_broker:
            self.dialled = _client(read_secret(settings.curve_node_key), read_public(settings.curve_broker))


def _null() -> Mechanism:
    return NULL


def _server(secret: bytes, allows: Callable[[bytes], bool]) -> Callable[[], Mechanism]:
    need_curve()
    from peers.zeek.zmtp.curve.key_pair import KeyPair  # noqa: PLC0415 -- as above
    from peers.zeek.zmtp.curve.server import CurveServer  # noqa: PLC0415

    keys = KeyPair.of_secret(secret)
    return lambda: CurveServer(keys, allows)


def _client(secret: bytes, server: bytes) -> Callable[[], Mechanism]:
    need_curve()
    from peers.zeek.zmtp.curve.client import CurveClient  # noqa: PLC0415 -- as above
    from peers.zeek.zmtp.curve.key_pair import KeyPair  # noqa: PLC0415

    keys = KeyPair.of_secret(secret)
    return lambda: CurveClient(keys, server)


NO_CURVE = Mechanisms(ZeekSettings(), lambda _: False)
"""Nothing is set."""
