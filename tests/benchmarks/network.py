"""A network of our own: a namespace with nothing but a loopback interface, and plain congestion control in it.

What a machine has for the Internet (`bbr`, which paces; firewall rules; connection tracking) would be measured on
loopback, too, and it is not what most machines have. Needs root; elsewhere the machine's own loopback is used, and the
results say which congestion control that has. Nothing outside this process and its children is changed.
"""

from __future__ import annotations

import ctypes
import fcntl
import shutil
import socket
import struct
import subprocess
from contextlib import suppress
from pathlib import Path

__all__ = ["add_address", "enter_own_network"]

_CLONE_NEWNET = 0x4000_0000
_SET_FLAGS = 0x8914
"""The request SIOCSIFFLAGS, which sets the flags of an interface."""

_UP = 0x1 | 0x40
"""The flags IFF_UP and IFF_RUNNING."""

_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_WANTED = ("cubic", "reno")
"""The first one that the kernel takes as a default; without loss they are the same."""


def enter_own_network() -> str:
    """Move this thread, and every process it starts from now on, into a network of its own, if that is allowed.

    Returns:
        What the network is now, for people.
    """
    own = ctypes.CDLL(None).unshare(_CLONE_NEWNET) == 0
    if own:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", _UP))
        for wanted in _WANTED:
            with suppress(OSError):
                _CONTROL.write_text(wanted)
                break
    place = "loopback in a namespace of its own" if own else "the machine's loopback (not root)"
    return f"{place}, TCP congestion control {_CONTROL.read_text().strip()}"


def add_address(address: str) -> bool:
    """Give the loopback interface of a network of our own another address, which is none of 127.0.0.0/8.

    Returns:
        Whether that was possible: it needs `ip`, of iproute2.
    """
    program = shutil.which("ip")
    if program is None:
        return False
    done = subprocess.run([program, "address", "add", f"{address}/32", "dev", "lo"], check=False, capture_output=True)
    return done.returncode == 0
