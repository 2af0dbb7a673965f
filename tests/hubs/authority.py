"""An authority, and certificates of it, as files; keys are made once for a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["Authority", "Files"]


class Files(NamedTuple):
    certificate: str
    key: str


class Authority:
    """Vouches for whoever a test needs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = str(folder / "ca.pem")
        self._authority.cert_pem.write_to_path(self.ca)

    def revoke(self, *revoked: Files) -> bytes:
        now = datetime.now(UTC)
        authority = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())
        key = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        made = x509.CertificateRevocationListBuilder(authority.subject, now, now + timedelta(days=1))
        for one in revoked:
            number = x509.load_pem_x509_certificate(Path(one.certificate).read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now)
            made = made.add_revoked_certificate(entry.build())
        return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, *names: str, expired: bool = False) -> Files:
        until = datetime.now(UTC) - timedelta(days=1) if expired else None
        issued = self._authority.issue_cert(*names, not_after=until)
        stem = self._folder / (f"{names[0]}-expired" if expired else names[0])
        files = Files(f"{stem}.pem", f"{stem}.key")
        Path(files.certificate).unlink(missing_ok=True)
        for blob in issued.cert_chain_pems:
            blob.write_to_path(files.certificate, append=True)
        issued.private_key_pem.write_to_path(files.key)
        return files
