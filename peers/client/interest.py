"""`Interest`: which prefixes and rules a client has asked the hub for, each once, however many subscriptions want it.

```
        claim: first one wants it        confirmed by the hub
(none) ─────────────────────────▶ asked ────────────────────▶ held ──last claim released──▶ (none): tell the hub
                                    └──refused──▶ (none): all claims on it are void
```

Owner: one client. No I/O. Requests are numbers of the client's; a connection that is lost takes its requests along;
`held` and `asked` say what the next one must be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable

from peers.client.routes import Addressed, Wanted

__all__ = ["Claim", "Interest"]


class Claim:
    """One prefix or rule, and how many subscriptions want it."""

    __slots__ = ("count", "request", "want")

    def __init__(self, want: Wanted, request: int) -> None:
        self.want = want
        self.request = request
        """Number of the request that asks for it and was not answered yet; 0 if it was answered."""
        # How many subscriptions want it; the claim is void when none does.
        self.count = 0


class Interest:
    """The prefixes and rules that one client wants of its hub."""

    __slots__ = ("_asked", "_claims")

    def __init__(self) -> None:
        # Prefix or rule → the claim on it; it goes with its last subscription, or with a refusal.
        self._claims: dict[Wanted, Claim] = {}
        # Number of a request that was not answered → the claims that it asks for.
        self._asked: dict[int, list[Claim]] = {}

    def __len__(self) -> int:
        """Return how many different prefixes and rules are wanted."""
        return len(self._claims)

    def claim(self, wants: Iterable[Wanted], request: int) -> tuple[list[Claim], list[Wanted]]:
        """Take note that one more subscription wants each of `wants`.

        Args:
            wants: Prefixes and rules, each once.
            request: Number of the request that will ask for those that are new.

        Returns:
            The claims of the subscription, to be released later, and what to ask the hub for.
        """
        claims, new = [], []
        for want in wants:
            if isinstance(want, Addressed):  # the hub need not be asked
                claims.append(Claim(want, 0))
                continue
            claim = self._claims.get(want)
            if claim is None:
                claim = self._claims[want] = Claim(want, request)
                new.append(claim)
            claim.count += 1
            claims.append(claim)
        if new:
            self._asked[request] = new
        return claims, [claim.want for claim in new]

    def release(self, claims: Iterable[Claim]) -> list[Wanted]:
        """Take note that one subscription less has these claims; return what nobody wants any more."""
        gone = []
        for claim in claims:
            claim.count -= 1
            if not claim.count and self._claims.get(claim.want) is claim:
                del self._claims[claim.want]
                gone.append(claim.want)
        return gone

    def confirm(self, request: int) -> None:
        """Take note that the hub has carried out a request."""
        for claim in self._asked.pop(request, ()):
            claim.request = 0

    def refuse(self, request: int) -> None:
        """Take note that the hub has refused a request: nobody holds what it asked for."""
        for claim in self._asked.pop(request, ()):
            if self._claims.get(claim.want) is claim:
                del self._claims[claim.want]

    def held(self) -> list[Wanted]:
        """Return what the hub has confirmed."""
        return [claim.want for claim in self._claims.values() if not claim.request]

    def asked(self) -> dict[int, list[Wanted]]:
        """Return what was asked and not answered, by request; what nobody wants any more is left out."""
        return {
            request: [claim.want for claim in claims if self._claims.get(claim.want) is claim]
            for request, claims in self._asked.items()
        }
