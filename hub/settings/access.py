"""Who the hub is to others, who they are to it, and what these may do."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from hub.settings.ranges import LIVE, NAME_BYTES, PRINTABLE, ROLE, between, file_path

__all__ = ["AccessSettings", "TlsSettings"]

_CLAIM_BYTES = 1024
"""Issuers are URLs, which have a few dozen characters."""


def _claim(description: str) -> Meta:
    """Describe a claim of a JWT: its name, or what it must hold."""
    return Meta(pattern=PRINTABLE, description=description, extra={"most_bytes": _CLAIM_BYTES})


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the hub shows at `tls://` and `wss://`, and to peer hubs that it dials there."""

    certificate: Annotated[str, file_path("PEM file of the hub's certificate and its chain."), LIVE] = ""
    key: Annotated[
        str, file_path("PEM file of the key of that certificate; empty where the certificate's file has it."), LIVE
    ] = ""
    ca: Annotated[
        str,
        file_path(
            "PEM file of the authorities that vouch for clients and peer hubs; empty: for peer hubs the system's."
        ),
        LIVE,
    ] = ""
    crl: Annotated[
        str,
        file_path("PEM file of the revocation lists of those authorities, one of each; empty: nothing is revoked."),
        LIVE,
    ] = ""
    clients: Annotated[
        Literal["any", "asked", "required"],
        Meta(description="Whether clients are asked for a certificate of `tls.ca`: never, if they have one, always."),
    ] = "any"
    minimum: Annotated[Literal["1.2", "1.3"], Meta(description="Oldest version of TLS that listeners speak.")] = "1.2"


class AccessSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How users are recognised, and what they may do. Nothing set: everybody on this machine may do everything."""

    policy: Annotated[
        str, file_path("TOML file of roles, users, and what each may do; empty: the built-in roles alone."), LIVE
    ] = ""
    tokens: Annotated[str, file_path("File of hashed tokens, which `hub token` writes."), LIVE] = ""
    admin_token: Annotated[
        str,
        file_path("File of the admin's token, made if it is not there; empty: only where strangers could come in."),
        LIVE,
    ] = ""
    anonymous: Annotated[
        str,
        Meta(
            pattern=ROLE,
            description="Role of those who show nothing; empty: they are not let in.",
            extra={"most_bytes": NAME_BYTES},
        ),
        LIVE,
    ] = ""
    reload_closes: Annotated[
        int,
        between("%", 0, 100, "Most of the connections that a reload's policy closes without `--force`, if over ten."),
        LIVE,
    ] = 50
    peer_token: Annotated[str, file_path("File of the token that this hub shows to the hubs that it dials."), LIVE] = ""
    jwt_keys: Annotated[str, file_path("JWKS or PEM file of the keys that sign JWTs."), LIVE] = ""
    jwt_issuer: Annotated[str, _claim("Issuer (`iss`) that a JWT must have."), LIVE] = ""
    jwt_audience: Annotated[str, _claim("Audience (`aud`) that a JWT must be for."), LIVE] = ""
    jwt_user: Annotated[str, _claim("Claim of a JWT that holds the user's name."), LIVE] = "sub"
    jwt_roles: Annotated[str, _claim("Claim of a JWT that holds roles, beside those of the policy."), LIVE] = "roles"
