"""The packet that asks a forking server for a process: `program` and `launcher` write it, `server` reads it.

Between fields stands a NUL, which arguments and variables cannot hold. This module imports nothing, as the launcher
must start in milliseconds.
"""

__all__ = ["DESCRIPTORS", "PACKET_BYTES", "REFUSED", "WORD_BYTES", "pack", "unpack"]
PACKET_BYTES = 1 << 17  # Longest arguments with their environment; the kernel takes 200 KiB
DESCRIPTORS = 16  # Most that come with a packet, three streams among them
WORD_BYTES = 16  # Longest of what a server says: an id, an exit code
REFUSED = b"no"  # What it says where only a new interpreter will do


def pack(
    arguments: list[bytes],
    environment: dict[bytes, bytes],
    folder: bytes,
    *,
    ignored: tuple[int, ...] = (),
    passed: tuple[int, ...] = (),
    bound: bool = False,
    leads: bool = False,
) -> bytes:
    """Return a packet that asks for a process."""
    flags = [b"%d" % flag for flag in (bound, leads)]
    lists = [b",".join([b"%d" % number for number in numbers]) for numbers in (ignored, passed)]
    fields = [*flags, *lists, folder, b"%d" % len(arguments), *arguments]
    packet = b"\0".join(fields + [name + b"=" + value for name, value in environment.items()])
    assert len(packet) <= PACKET_BYTES
    return packet


def unpack(packet: bytes) -> dict[str, object]:
    bound, leads, ignored, passed, folder, count, *fields = packet.split(b"\0")
    arguments, variables = fields[: int(count)], fields[int(count) :]
    return {
        "arguments": arguments,
        "environment": dict([variable.split(b"=", 1) for variable in variables]),
        "folder": folder,
        "ignored": tuple([int(number) for number in ignored.split(b",") if number]),
        "passed": tuple([int(number) for number in passed.split(b",") if number]),
        "bound": bound == b"1",
        "leads": leads == b"1",
    }
