"""`Certificate`: what brokers show where TLS is measured: one for 127.0.0.1 (ECDSA, P-256), and its authority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import trustme

__all__ = ["Certificate", "new_certificate"]


class Certificate(NamedTuple):
    """PEM files."""

    certificate: str
    key: str
    ca: str


@contextmanager
def new_certificate(kind: trustme.KeyType = trustme.KeyType.ECDSA) -> Iterator[Certificate]:
    """Make one that is there for as long as a `with` statement lasts.

    Args:
        kind: Of its key.
    """
    with TemporaryDirectory(prefix="bench-tls-") as folder:
        files = Certificate(*(str(Path(folder) / name) for name in ("certificate.pem", "key.pem", "ca.pem")))
        authority = trustme.CA(key_type=kind)
        issued = authority.issue_cert("127.0.0.1", key_type=kind)
        for blob in issued.cert_chain_pems:
            blob.write_to_path(files.certificate, append=True)
        issued.private_key_pem.write_to_path(files.key)
        authority.cert_pem.write_to_path(files.ca)
        yield files
