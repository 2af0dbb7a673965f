"""What TLS connections cost the hub: CPU time of a handshake, and memory of an idle client.

    python tests/benchmarks/tls_connections.py [--handshakes 2000] [--clients 1000]

A hub is started for each line, with default settings, and a certificate that is made for it. A handshake is TLS 1.3
with nothing resumed, from `accept` to the end of the connection, by the operating system's account of the hub's
process; beside it the same without TLS, and what OpenSSL alone takes for its side of a handshake: in this process, in
memory, and as a server (`openssl s_server`). An idle client has said HELLO and has one subscription.
"""

from __future__ import annotations

import argparse
import math
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable

import trustme
from brokers.certificate import Certificate, new_certificate

from peers.bench.running_hub import RunningHub
from peers.bench.usage import read_usage
from peers.bench.worker import raise_descriptor_limit
from peers.wire.control import encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind

_NS = 1e9
_WARM_UP = 50
_KINDS = {"ECDSA P-256": trustme.KeyType.ECDSA, "RSA 2048": trustme.KeyType.RSA}


def _hub(*schemes: str, certificate: Certificate | None = None) -> RunningHub:
    files = ("--tls-certificate", certificate.certificate, "--tls-key", certificate.key) if certificate else ()
    return RunningHub.start(schemes, files)


def _address(hub: RunningHub, scheme: str) -> tuple[str, int]:
    host, _, port = hub.url(scheme).partition("://")[2].rpartition(":")
    return host, int(port)


def _context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificate.ca)
    return context


def _end(connection: socket.socket) -> None:
    """End this side, and wait until the hub has ended its own."""
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(65536):
        pass
    connection.close()


def connection_us(pid: int, address: tuple[str, int], context: ssl.SSLContext | None, count: int) -> float:
    """Return a server's CPU time of a connection that is opened and closed, µs."""

    def connect() -> None:
        plain = socket.create_connection(address)
        _end(plain if context is None else context.wrap_socket(plain, server_hostname=address[0]))

    for _ in range(_WARM_UP):
        connect()
    time.sleep(0.2)
    before = read_usage(pid).cpu_ns
    for _ in range(count):
        connect()
    return (read_usage(pid).cpu_ns - before) / count / 1e3


def server_us(count: int, certificate: Certificate) -> float:
    """Return the same of `openssl s_server`, which also makes no tickets; NaN if it is not installed."""
    program = shutil.which("openssl")
    if program is None:
        return math.nan
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    files = ["-cert", certificate.certificate, "-key", certificate.key, "-num_tickets", "0"]
    server = subprocess.Popen(
        [program, "s_server", "-quiet", "-accept", f"127.0.0.1:{address[1]}", *files],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        time.sleep(0.5)
        return connection_us(server.pid, address, _context(certificate), count)
    finally:
        server.kill()
        server.wait()


def openssl_us(count: int, certificate: Certificate) -> float:
    """Return what OpenSSL takes for the side that listens, µs of CPU time."""
    listens = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listens.load_cert_chain(certificate.certificate, certificate.key)
    listens.num_tickets = 0
    dials = _context(certificate)
    taken_ns = 0

    def step(act: Callable[[], None]) -> bool:
        try:
            act()
        except ssl.SSLWantReadError:
            return False
        return True

    for _ in range(count):
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = dials.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
        begun_ns = time.thread_time_ns()
        server = listens.wrap_bio(to_server, to_client, server_side=True)
        taken_ns += time.thread_time_ns() - begun_ns
        is_done = False
        while not is_done:
            step(client.do_handshake)
            begun_ns = time.thread_time_ns()
            is_done = step(server.do_handshake)
            taken_ns += time.thread_time_ns() - begun_ns
    return taken_ns / count / 1e3


def idle_kib(hub: RunningHub, scheme: str, count: int, certificate: Certificate) -> float:
    """Return the hub's memory of an idle client with one subscription, KiB."""
    address, context = _address(hub, scheme), _context(certificate)

    def connect() -> socket.socket:
        connection = socket.create_connection(address)
        if scheme == "tls":
            connection = context.wrap_socket(connection, server_hostname=address[0])
        connection.sendall(Hello(protocol=1, role="client").encode())
        connection.recv(65536)
        connection.sendall(encode_subscription(Kind.SUBSCRIBE, ["/idle/one"], 1))
        connection.recv(65536)
        return connection

    for one in [connect() for _ in range(_WARM_UP)]:
        one.close()
    hub.wait_quiet()
    before = hub.usage().memory_bytes
    lines = [connect() for _ in range(count)]
    hub.wait_quiet()
    found = (hub.usage().memory_bytes - before) / count / 1024
    for one in lines:
        one.close()
    return found


def main() -> int:
    """Measure, and say what was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--handshakes", type=int, default=2000, help="connections that are opened and closed")
    parser.add_argument("--clients", type=int, default=1000, help="clients that are idle")
    arguments = parser.parse_args()
    raise_descriptor_limit()
    say = sys.stdout.write
    for name, kind in _KINDS.items():
        with new_certificate(kind) as certificate:
            alone_us = openssl_us(arguments.handshakes, certificate)
            hub = _hub("tcp", "tls", certificate=certificate)
            try:
                plain_us = connection_us(hub.pid, _address(hub, "tcp"), None, arguments.handshakes)
                tls_us = connection_us(hub.pid, _address(hub, "tls"), _context(certificate), arguments.handshakes)
            finally:
                hub.stop()
            beside_us = server_us(arguments.handshakes, certificate)
        say(
            f"{name}: {tls_us:.0f} µs of hub CPU a connection with TLS ({1e6 / tls_us:,.0f}/s for a core), "
            f"{plain_us:.0f} without; OpenSSL alone {alone_us:.0f} µs, its s_server {beside_us:.0f} µs\n"
        )
    with new_certificate() as certificate:
        for scheme in ("tcp", "tls"):
            hub = _hub(scheme, certificate=certificate)
            try:
                say(f"idle {scheme}: {idle_kib(hub, scheme, arguments.clients, certificate):.2f} KiB\n")
            finally:
                hub.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
