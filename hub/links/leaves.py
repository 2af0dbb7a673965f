"""`Leaves`: which hub is the gateway of a leaf, where several hubs of the mesh are peered with the same Zeek.

Such a Zeek publishes to all of them, and would get the same from all. So one hub is its gateway; the others bring
nothing of it into the mesh, and send it nothing, until it is their turn. The hub that has had the leaf first is the
gateway, and of two at once the one with the lower id: claims of all hubs are announced to the mesh, and the least
(time, hub) wins. A claim is later than all that its hub knows of, so that a newcomer takes nothing away; hubs that know
of the same claims, and can reach the same hubs, agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hub.handlers.handler import Handler
from hub.mesh.announcement import Interests, Leaf
from hub.names.claim import LATEST_US

OnGateway = Callable[[bytes], object]  # Called with the id of the hub that is the gateway of a leaf from now on


def _untold(_: Interests) -> None: ...


class _Own:
    """A leaf of this hub."""

    __slots__ = ("gateway", "handler", "on_gateway", "published_before")

    def __init__(self, gateway: bytes, on_gateway: OnGateway) -> None:
        # The hub in the last call of `on_gateway`.
        self.gateway = gateway
        self.on_gateway = on_gateway
        # None until it is part of the hub.
        self.handler: Handler | None = None
        # How much it had published when it was left to another hub, or last before that.
        self.published_before = 0


class Leaves:
    """The leaves of this hub, and those of others that can be reached."""

    def __init__(self, hub: bytes) -> None:
        self._hub = hub
        # Endpoint → hub → since when it has it: of this hub, and of others that can be reached.
        self._claims: dict[bytes, dict[bytes, int]] = {}
        # Endpoint → the leaf of this hub, from `claim` to `release`.
        self._own: dict[bytes, _Own] = {}
        self._on_own: Callable[[Interests], object] = _untold
        # How many messages were not taken of leaves that were left to others, or not sent to them, but for those that
        # leaves have brought which are left to others now.
        self._skipped_messages = 0

    # This hub.

    def tell(self, on_own: Callable[[Interests], object]) -> None:
        """Announce the leaves of this hub to the mesh, now and with each change."""
        self._on_own = on_own
        on_own(Interests(tuple(Leaf(endpoint, self.since_us(endpoint)) for endpoint in self._own)))

    def claim(self, endpoint: bytes, now_us: int, on_gateway: OnGateway) -> bytes:
        """Claim a leaf, which this hub has or will have soon, and none of that endpoint yet.

        Returns:
            The hub that is its gateway now.
        """
        claims = self._claims.setdefault(endpoint, {})
        since_us = min(LATEST_US, max([now_us, *(1 + other_us for other_us in claims.values())]))
        claims[self._hub] = since_us
        gateway = self._gateway(claims)
        self._own[endpoint] = _Own(gateway, on_gateway)
        self._on_own(Interests((Leaf(endpoint, since_us),)))
        return gateway

    def join(self, endpoint: bytes, handler: Handler) -> None:
        """Note that a claimed leaf is a part of this hub now."""
        own = self._own[endpoint]
        own.handler = handler
        self._leave_out(own)

    def release(self, endpoint: bytes) -> None:
        """Give up the claim to a leaf."""
        own = self._own.pop(endpoint)
        self._take_in(own)
        leaf = Leaf(endpoint, self.since_us(endpoint))
        self._drop(self._hub, endpoint)
        self._on_own(Interests(removed=(leaf,)))

    def skip(self, messages: int) -> None:
        """Count messages that were not sent to a leaf, as its gateway sends them."""
        self._skipped_messages += messages

    # Other hubs.

    def hear(self, hub: bytes, held: Iterable[tuple[bytes, int]], released: Iterable[bytes]) -> None:
        """Take the leaves that another hub, which can be reached, has or no longer has."""
        for endpoint in released:
            self._drop(hub, endpoint)
        for endpoint, since_us in held:
            self._claims.setdefault(endpoint, {})[hub] = since_us
            self._look(endpoint)

    def _drop(self, hub: bytes, endpoint: bytes) -> None:
        claims = self._claims.get(endpoint, {})
        if claims.pop(hub, None) is None:
            return
        if claims:
            self._look(endpoint)
        else:
            del self._claims[endpoint]

    # Gateways.

    def gateway_of(self, endpoint: bytes) -> bytes:
        """Return the id of the hub that is the gateway of a leaf; empty if there is none."""
        claims = self._claims.get(endpoint)
        return self._gateway(claims) if claims else b""

    def since_us(self, endpoint: bytes) -> int:
        """Return since when this hub has a leaf, as it has announced it."""
        return self._claims[endpoint][self._hub]

    @staticmethod
    def _gateway(claims: Mapping[bytes, int]) -> bytes:
        return min(claims, key=lambda hub: (claims[hub], hub))

    def _look(self, endpoint: bytes) -> None:
        own = self._own.get(endpoint)
        if own is None:
            return
        gateway = self._gateway(self._claims[endpoint])
        if gateway == own.gateway:
            return
        self._take_in(own)
        own.gateway = gateway
        self._leave_out(own)
        own.on_gateway(gateway)

    def _leave_out(self, own: _Own) -> None:
        if own.handler is not None and own.gateway != self._hub:
            own.published_before = own.handler.published_messages
            own.handler.leave_out(left=True)

    def _take_in(self, own: _Own) -> None:
        self._skipped_messages += self._not_taken(own)
        if own.handler is not None:
            own.handler.leave_out(left=False)

    def _not_taken(self, own: _Own) -> int:
        if own.handler is None or own.gateway == self._hub:
            return 0
        return own.handler.published_messages - own.published_before

    # Looking at it.

    @property
    def left(self) -> int:
        """How many leaves of this hub are left to other hubs now."""
        return sum(own.gateway != self._hub for own in self._own.values())

    @property
    def skipped_messages(self) -> int:
        """How many messages of leaves, or for them, this hub did not take or send since the start, as gateways do."""
        return self._skipped_messages + sum(map(self._not_taken, self._own.values()))

    @property
    def own(self) -> Iterable[bytes]:
        return self._own.keys()
