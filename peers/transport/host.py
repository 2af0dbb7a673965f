"""`host_of`: whom a connection counts for, where something is counted by address.

Owner: nobody. Cost: a few µs a connection.
"""

from __future__ import annotations

import ipaddress

__all__ = ["host_of"]


def host_of(address: str) -> str:
    """Return the host that a connection counts for.

    Args:
        address: The address as connections show it: `127.0.0.1:50000`, `[2001:db8::1]:50000`, `unix:...`.

    Returns:
        The IPv4 address, or the network of 64 bits that one IPv6 site has. Empty for this machine, since a proxy on it
        may stand for many clients.
    """
    host = address.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        found = ipaddress.ip_address(host)
    except ValueError:  # a Unix socket
        return ""
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return "" if found.is_loopback else str(ipaddress.IPv6Address(int(found) >> 64 << 64))
        found = found.ipv4_mapped
    return "" if found.is_loopback else str(found)
