"""What a client can do wrong with memory: a clear status to it, nothing to anybody else, no descriptor left."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from collections.abc import Callable, Iterator

import msgpack
import pytest

from hub.errors import CloseCode, RejectedError
from hub.messages.frame import BATCH_COUNT, FLAG_BATCH, FLAG_SHARED, encode_frame
from hub.messages.request_frame import Reply, Request, Status
from hub.quotas import QuotaLimits, Resource, SetLimits
from peers.shm import memory
from peers.shm.memory import Descriptor
from peers.wire.control import encode_subscription
from peers.wire.hello import Hello
from peers.wire.kinds import Kind
from peers.wire.shared import DESCRIPTORS, Handle, Segment, encode_released, encode_segment
from tests.descriptors import no_descriptor_left
from tests.hubs.eventually import eventually
from tests.hubs.known_tokens import KnownTokens
from tests.hubs.raw_client import RawClient, publication
from tests.shm.conftest import StartHub
from tests.shm.hubs import Ring, SharingClient, SharingHub, handle_frame, memfd, shared_settings

VALUES = msgpack.packb(b"x" * 100_000)
SEAL_WRITE, SEAL_SHRINK, SEAL_GROW = 0x8, 0x2, 0x4


@pytest.fixture
async def reader(hub: SharingHub) -> RawClient:
    return await hub.client("/")


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    yield ring
    ring.close()


def a_file() -> Descriptor:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(memory.VALUES_AT) + VALUES)
        file.flush()
        return Descriptor(os.dup(file.fileno()))


def unsealed(seals: int, size: int = memory.VALUES_AT + len(VALUES), *, fill: bool = True) -> Descriptor:
    number = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    if fill:
        os.write(number, bytes(size))
    else:
        os.truncate(number, size)
    fcntl.fcntl(number, fcntl.F_ADD_SEALS, seals)
    return Descriptor(number)


ALL = SEAL_WRITE | SEAL_SHRINK | SEAL_GROW
SHARED = 0x10 | SEAL_SHRINK | SEAL_GROW  # as a segment is sealed
WHOLE = Handle(len(VALUES))
BAD, TOO_BIG = CloseCode.BAD_DATA, CloseCode.TOO_BIG


Make = Callable[[], Descriptor]
MEMORY: dict[str, tuple[Make, str]] = {
    "a file": (a_file, "not a memfd"),
    "a socket": (lambda: Descriptor(socket.socket(socket.AF_UNIX).detach()), "not a memfd"),
    "not sealed at all": (lambda: unsealed(0), "is not sealed"),
    "not sealed against writing": (lambda: unsealed(SEAL_SHRINK | SEAL_GROW), "is not sealed"),
    "not sealed against shrinking": (lambda: unsealed(SEAL_WRITE | SEAL_GROW), "is not sealed"),
    "shorter than it claims": (lambda: unsealed(ALL, 1000), "the memfd has 1000 bytes"),
    "empty": (lambda: unsealed(ALL, 0), "the memfd has 0 bytes"),
    "holes": (lambda: unsealed(ALL, fill=False), "holes"),
}
HANDLES = {
    "no bytes": (handle_frame("/a", Handle(0)), TOO_BIG),
    "more than a frame may hold": (handle_frame("/a", Handle((16 << 20) + 1)), TOO_BIG),
    "a batch of none": (handle_frame("/a", WHOLE, count=BATCH_COUNT.pack(0), flags=FLAG_BATCH), BAD),
    "a batch of too many": (handle_frame("/a", WHOLE, count=BATCH_COUNT.pack(70_000), flags=FLAG_BATCH), BAD),
}
BLOCKS: dict[str, tuple[dict[str, int], CloseCode, str]] = {
    "not where a block begins": ({"offset": 8}, BAD, "no block"),
    "behind the end": ({"offset": 1 << 20}, BAD, "no block"),
    "far behind the end": ({"offset": (1 << 64) - 64}, BAD, "no block"),
    "across the end": ({"size_bytes": 1 << 20}, BAD, "no block"),
    "another length": ({"size_bytes": 99}, CloseCode.GONE, "gone"),
    "another generation": ({"generation": 8}, CloseCode.GONE, "gone"),
    "no such segment": ({"segment": 77}, CloseCode.NOT_ALLOWED, "not of this client"),
}
SEGMENTS: dict[str, tuple[int, Make, CloseCode, str]] = {
    "not sealed": (4096, lambda: unsealed(0, 4096), BAD, "is not sealed"),
    "sealed, but for future writing": (4096, lambda: unsealed(SEAL_SHRINK | SEAL_GROW, 4096), BAD, "is not sealed"),
    "shorter": (8192, lambda: unsealed(SHARED, 4096), BAD, "8192 are claimed"),
    "holes": (8192, lambda: unsealed(SHARED, 8192, fill=False), BAD, "holes"),
    "too large": (1 << 40, lambda: unsealed(ALL, 4096), TOO_BIG, "the limit is"),
}
Wrong = tuple[Callable[[Handle], bytes], Make | None, CloseCode, str]
WRONG: dict[str, Wrong] = {
    **{name: (lambda _: handle_frame("/a", WHOLE), make, BAD, text) for name, (make, text) in MEMORY.items()},
    **{
        name: (lambda _, frame=frame: frame, lambda: memfd(VALUES), code, "") for name, (frame, code) in HANDLES.items()
    },
    **{
        name: (lambda sound, change=change: handle_frame("/a", sound._replace(**change)), None, code, text)
        for name, (change, code, text) in BLOCKS.items()
    },
    **{
        f"segment: {name}": (lambda _, size=size: encode_segment(Segment(5, size)), make, code, text)
        for name, (size, make, code, text) in SEGMENTS.items()
    },
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_not_what_it_says(hub: SharingHub, reader: RawClient, ring: Ring, name: str) -> None:
    """The publisher is told, nothing is delivered, and what comes behind it is."""
    frame, make, code, text = WRONG[name]
    publisher = await hub.sharing()
    await publisher.open_segment(ring)
    sound = ring.fill(0, 7, VALUES)
    if make is None:
        await publisher.send(frame(sound))
    else:
        await publisher.hand_over(frame(sound), make())
    error = await publisher.error()
    is_segment = name.startswith("segment")
    count = {"a batch of none": 0, "a batch of too many": 70_000}.get(name, int(not is_segment))
    assert (error.code, error.request, error.count) == (code, 5 * is_segment, count)
    assert text in error.text
    await publisher.send(handle_frame("/a", sound))
    await publisher.publish_shared("/a", VALUES)
    await publisher.publish("/a", "behind")
    assert await reader.values(3) == [("/a", b"x" * 100_000)] * 2 + [("/a", "behind")]
    assert hub.server.shared.refused_total == 1
    assert hub.server.shared.segments == 1


async def fatal(publisher: SharingClient, text: str) -> None:
    code, said = await publisher.end()
    assert code == CloseCode.PROTOCOL_ERROR
    assert text in said


async def test_descriptors_in_a_bunch(hub: SharingHub, reader: RawClient) -> None:
    publisher = await hub.sharing()
    await publisher.hand_over(handle_frame("/a", Handle(len(VALUES))), *(memfd(VALUES) for _ in range(200)))
    with pytest.raises((EOFError, ConnectionResetError)):
        await publisher.frame()
    assert await reader.ping() == []


NO_HANDLES = (b"", b"\x00", b"\x02" + bytes(8), bytes(10), b"\x01" + bytes(28), b"\x01" * 40)
SURPLUS = "a descriptor came with a frame that has none"


@pytest.mark.parametrize(
    ("frames", "descriptors", "delivered", "text"),
    [
        ([handle_frame("/a", WHOLE)], 0, 0, "no descriptor came with the frame"),
        ([publication("/a", 1)], 1, 1, SURPLUS),
        ([bytes([byte]) for byte in handle_frame("/a", WHOLE)[:3]], 1, 0, SURPLUS),
        *(
            ([encode_frame(Kind.MESSAGES, each, key=b"/a", flags=FLAG_SHARED)], 1, 0, "no handle")
            for each in NO_HANDLES
        ),
    ],
    ids=["missing", "surplus", "byte by byte", *(f"no handle {number}" for number in range(len(NO_HANDLES)))],
)
async def test_frames_and_descriptors_that_do_not_fit(
    hub: SharingHub, frames: list[bytes], descriptors: int, delivered: int, text: str
) -> None:
    publisher, reader = await hub.sharing(), await hub.client("/")
    for frame in frames:
        await publisher.hand_over(frame, *(memfd(VALUES) for _ in range(descriptors)))
    await fatal(publisher, text)
    assert len(await reader.ping()) == delivered


async def test_generations_only_grow(hub: SharingHub, reader: RawClient, ring: Ring) -> None:
    publisher = await hub.sharing()
    await publisher.open_segment(ring)
    handle = ring.fill(0, 7, VALUES)
    await publisher.send(handle_frame("/a", handle), handle_frame("/a", handle))
    frames = await publisher.ping()
    assert [frame.kind for frame in frames].count(Kind.NOTICE) == 1
    assert await reader.values(1) == [("/a", b"x" * 100_000)]
    assert await reader.ping() == []


async def test_more_descriptors_than_the_user_may_have(hub: SharingHub, ring: Ring) -> None:
    token = KnownTokens(hub).token("alice")
    hub.server.core.quotas.adopt(QuotaLimits(users={"alice": SetLimits({Resource.DESCRIPTORS: 1})}))
    first, second = await hub.sharing(token=token), await hub.sharing(token=token)
    number = await first.open_segment(ring)
    another = Ring()
    await second.hand_over(encode_segment(Segment(3, another.size_bytes)), another.descriptor)
    error = await second.error()
    assert error.code == CloseCode.TRY_AGAIN_LATER
    assert error.text == "user alice has 1 descriptors, 1 more are too many: the limit for this user is 1"
    await first.send(encode_segment(Segment(number, 0)))
    assert await first.ping() == []
    await second.open_segment(another)
    another.close()


SEGMENTS = {
    "not sealed": (lambda: unsealed(0, 4096), 4096, CloseCode.BAD_DATA, "is not sealed"),
    "sealed, but for future writing": (
        lambda: unsealed(SEAL_SHRINK | SEAL_GROW, 4096),
        4096,
        CloseCode.BAD_DATA,
        "is not sealed",
    ),
    "shorter": (lambda: unsealed(0x10 | SEAL_SHRINK | SEAL_GROW, 4096), 8192, CloseCode.BAD_DATA, "8192 are claimed"),
    "holes": (lambda: unsealed(0x10 | SEAL_SHRINK | SEAL_GROW, 8192, fill=False), 8192, CloseCode.BAD_DATA, "holes"),
    "too large": (lambda: unsealed(ALL, 4096), 1 << 40, CloseCode.TOO_BIG, "the limit is"),
}


@pytest.mark.parametrize("name", SEGMENTS)
async def test_segments_that_are_not_what_they_say(hub: SharingHub, reader: RawClient, name: str) -> None:
    make, size, code, text = SEGMENTS[name]
    publisher = await hub.sharing()
    await publisher.hand_over(encode_segment(Segment(5, size)), make())
    error = await publisher.error()
    assert (error.code, error.request) == (code, 5)
    assert text in error.text
    assert await reader.ping() == []
    assert hub.server.shared.segments == 0


async def test_too_many_segments(start_hub: StartHub, ring: Ring) -> None:
    hub = await start_hub(settings=shared_settings(segments=2))
    publisher = await hub.sharing()
    await publisher.open_segment(ring)
    await publisher.open_segment(ring)
    await publisher.hand_over(encode_segment(Segment(5, ring.size_bytes)), ring.descriptor)
    assert (await publisher.error()).code == CloseCode.TRY_AGAIN_LATER


async def test_releasing_what_was_never_given(hub: SharingHub) -> None:
    client = await hub.sharing()
    await client.send(encode_released([(77, 5)]))
    assert await client.ping() == []
    await client.send(encode_released([(DESCRIPTORS, 1)]))
    await fatal(client, "1 descriptors, not so many were given")


async def test_a_request_whose_memory_is_wrong_is_answered(hub: SharingHub) -> None:
    service, requester = await hub.client(), await hub.sharing()
    await service.send(encode_subscription(Kind.SERVE, ["/s"], 1))
    await service.notice()
    request = Request(b"/s", 3, 0, Handle(len(VALUES)).encode(), FLAG_SHARED)
    await requester.hand_over(request.encode(), unsealed(0))
    reply = Reply.decode(await requester.frame())
    assert (reply.first, reply.status) == (3, Status.NOT_ALLOWED)
    assert b"is not sealed" in reply.values
    assert await service.ping() == []


async def test_a_reply_whose_memory_is_wrong_fails(hub: SharingHub) -> None:
    service, requester = await hub.sharing(), await hub.client()
    await service.send(encode_subscription(Kind.SERVE, ["/s"], 1))
    await service.notice()
    await requester.send(Request(b"/s", 3, 0, b"\xc0").encode())
    asked = Request.decode(await service.frame())
    answer = Reply(asked.first, Status.OK, Handle(len(VALUES)).encode(), FLAG_SHARED)
    await service.hand_over(answer.encode(), unsealed(0))
    reply = Reply.decode(await requester.frame())
    assert (reply.first, reply.status) == (3, Status.FAILED)
    assert "is not sealed" in (await service.error()).text


async def test_a_hub_without_a_descriptor(hub: SharingHub, reader: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Serves a client without shared memory; where it cannot look at memory now, it says to try again later."""
    late = await SharingClient.connect(hub.endpoint)
    await eventually(lambda: len(hub.server.connections) == 2)
    shared = memfd(VALUES)
    monkeypatch.setattr(memory, "_found_device", -1)
    with no_descriptor_left():
        await late.send(Hello(protocol=1, role="client", shared=1).encode())
        assert Hello.decode((await late.frame()).body).shared == 0
        await late.publish("/plain", 1)
        assert await reader.values(1) == [("/plain", 1)]
        with pytest.raises(RejectedError) as caught:
            memory.check_sealed(shared.number, len(VALUES))
    assert caught.value.code == CloseCode.TRY_AGAIN_LATER
    late.close()
