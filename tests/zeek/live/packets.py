"""A capture of DNS, HTTP and TLS traffic, made from a seed: the same packets each time.

Ethernet, IPv4. Each conversation has its own client port, so that Zeek logs one connection for it. Checksums are zero:
Zeek needs `-C`.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, field

SYN, ACK, PSH_ACK, SYN_ACK, FIN_ACK = 0x02, 0x10, 0x18, 0x12, 0x11


@dataclass(slots=True)
class Capture:
    packets: list[bytes] = field(default_factory=list)

    def add(self, source: str, destination: str, protocol: int, segment: bytes) -> None:
        addresses = b"".join(bytes(map(int, host.split("."))) for host in (source, destination))
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, protocol, 0) + addresses
        self.packets.append(b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\x00" + header + segment)


def udp(capture: Capture, client: tuple[str, int], server: tuple[str, int], question: bytes, answer: bytes) -> None:
    for (source, source_port), (destination, port), payload in ((client, server, question), (server, client, answer)):
        header = struct.pack(">HHHH", source_port, port, 8 + len(payload), 0)
        capture.add(source, destination, 17, header + payload)


def tcp(capture: Capture, client: tuple[str, int], server: tuple[str, int], *turns: bytes) -> None:
    sent = {client: 1_000, server: 9_000}

    def segment(source: tuple[str, int], destination: tuple[str, int], flags: int, payload: bytes = b"") -> None:
        acknowledged = sent[destination] if flags & ACK else 0
        header = struct.pack(
            ">HHIIBBHHH", source[1], destination[1], sent[source], acknowledged, 0x50, flags, 65_535, 0, 0
        )
        capture.add(source[0], destination[0], 6, header + payload)
        sent[source] += len(payload) + bool(flags & (SYN | 0x01))

    segment(client, server, SYN)
    segment(server, client, SYN_ACK)
    segment(client, server, ACK)
    for number, turn in enumerate(turns):
        source, destination = (client, server) if number % 2 == 0 else (server, client)
        segment(source, destination, PSH_ACK, turn)
        segment(destination, source, ACK)
    segment(client, server, FIN_ACK)
    segment(server, client, FIN_ACK)
    segment(client, server, ACK)


def dns(number: int, name: str, address: bytes) -> tuple[bytes, bytes]:
    question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0\0\1\0\1"
    asked = struct.pack(">HHHHHH", number, 0x0100, 1, 0, 0, 0) + question
    answered = struct.pack(">HHHHHH", number, 0x8180, 1, 1, 0, 0) + question
    return asked, answered + b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 300, 4) + address


def http(path: bytes, host: bytes, agent: bytes, body: bytes) -> tuple[bytes, bytes]:
    request = b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nUser-Agent: " + agent + b"\r\n\r\n"
    response = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    return request, response


def tls(name: bytes, chance: random.Random) -> tuple[bytes, bytes]:
    def record(kind: int, body: bytes) -> bytes:
        message = bytes([kind]) + len(body).to_bytes(3, "big") + body
        return b"\x16\3\3" + struct.pack(">H", len(message)) + message

    listed = b"\0" + struct.pack(">H", len(name)) + name
    extension = struct.pack(">HHH", 0, len(listed) + 2, len(listed)) + listed
    client = (
        b"\3\3"
        + chance.randbytes(32)
        + b"\0"
        + b"\0\4\xc0\x2f\x00\x9c"
        + b"\1\0"
        + struct.pack(">H", len(extension))
        + extension
    )
    server = b"\3\3" + chance.randbytes(32) + b"\0" + b"\xc0\x2f" + b"\0"
    return record(1, client), record(2, server)


def capture(seed: int = 1, conversations: int = 60) -> Capture:
    chance = random.Random(seed)  # noqa: S311 -- no secret
    made = Capture()
    for number in range(conversations):
        client = (f"10.1.{chance.randrange(4)}.{chance.randrange(1, 250)}", 20_000 + number)
        server = f"192.0.2.{chance.randrange(1, 250)}"
        name = f"host{chance.randrange(1000)}.example.com"
        if number % 3 == 0:
            udp(made, client, (server, 53), *dns(number, name, chance.randbytes(4)))
        elif number % 3 == 1:
            agent = b"agent/\xff\xfe" if number % 10 == 1 else b"agent/1.0"
            tcp(made, client, (server, 80), *http(b"/%d" % number, name.encode(), agent, chance.randbytes(200)))
        else:
            tcp(made, client, (server, 443), *tls(name.encode(), chance))
    return made
