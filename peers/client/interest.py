"""`Interest`: which prefixes a client has asked the hub for, each once, however many subscriptions want it.

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

__all__ = ["Claim", "Interest"]


class Claim:
    """One prefix and how many subscriptions want it."""

    __slots__ = ("count", "prefix", "request")

    def __init__(self, prefix: str, request: int) -> None:
        self.prefix = prefix
        self.request = request
        """The request that asks for it and was not answered yet, 0 if it was."""
        self.count = 0


class Interest:
    """What one client wants of its hub."""

    __slots__ = ("_asked", "_claims")

    def __init__(self) -> None:
        self._claims: dict[str, Claim] = {}
        self._asked: dict[int, list[Claim]] = {}  # request that was not answered → what it asks for

    def __len__(self) -> int:
        """How many different prefixes."""
        return len(self._claims)

    def claim(self, prefixes: Iterable[str], request: int) -> tuple[list[Claim], list[str]]:
        """One more subscription wants each of `prefixes`.

        Args:
            prefixes: Each once.
            request: Number of the request that will ask for those that are new.

        Returns:
            Its claims, to be released later, and the prefixes to ask the hub for.
        """
        claims, new = [], []
        for prefix in prefixes:
            claim = self._claims.get(prefix)
            if claim is None:
                claim = self._claims[prefix] = Claim(prefix, request)
                new.append(claim)
            claim.count += 1
            claims.append(claim)
        if new:
            self._asked[request] = new
        return claims, [claim.prefix for claim in new]

    def release(self, claims: Iterable[Claim]) -> list[str]:
        """One subscription less has these claims; return the prefixes that nobody wants any more."""
        gone = []
        for claim in claims:
            claim.count -= 1
            if not claim.count and self._claims.get(claim.prefix) is claim:
                del self._claims[claim.prefix]
                gone.append(claim.prefix)
        return gone

    def confirm(self, request: int) -> None:
        """The hub has carried out a request."""
        for claim in self._asked.pop(request, ()):
            claim.request = 0

    def refuse(self, request: int) -> None:
        """The hub has refused a request: nobody holds what it asked for."""
        for claim in self._asked.pop(request, ()):
            if self._claims.get(claim.prefix) is claim:
                del self._claims[claim.prefix]

    def held(self) -> list[str]:
        """Return the prefixes that the hub has confirmed."""
        return [claim.prefix for claim in self._claims.values() if not claim.request]

    def asked(self) -> dict[int, list[str]]:
        """Return what was asked and not answered, by request; what nobody wants any more is left out."""
        return {
            request: [claim.prefix for claim in claims if self._claims.get(claim.prefix) is claim]
            for request, claims in self._asked.items()
        }
