"""An authority, and certificates of it, as files; keys are made once for a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key

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
        now, (name, key) = datetime.now(UTC), self._signer()
        made = x509.CertificateRevocationListBuilder(name, now, now + timedelta(days=1))
        for one in revoked:
            number = x509.load_pem_x509_certificate(Path(one.certificate).read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now)
            made = made.add_revoked_certificate(entry.build())
        return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _signer(self) -> tuple[x509.Name, EllipticCurvePrivateKey]:
        key = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        return x509.load_pem_x509_certificate(self._authority.cert_pem.bytes()).subject, key

    def issue_odd(self, stem: str, subject: x509.Name, names: bytes) -> Files:
        """Vouch for any subject and any bytes as its other names, as a careless authority would."""
        now, day, (name, signer) = datetime.now(UTC), timedelta(days=1), self._signer()
        key = generate_private_key(SECP256R1())
        made = x509.CertificateBuilder(
            name, subject, key.public_key(), x509.random_serial_number(), now - day, now + day
        )
        if names:
            other = x509.UnrecognizedExtension(x509.oid.ExtensionOID.SUBJECT_ALTERNATIVE_NAME, names)
            made = made.add_extension(other, critical=False)
        files = Files(f"{self._folder / stem}.pem", f"{self._folder / stem}.key")
        pem = serialization.Encoding.PEM
        Path(files.certificate).write_bytes(made.sign(signer, hashes.SHA256()).public_bytes(pem))
        form, unlocked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        Path(files.key).write_bytes(key.private_bytes(pem, form, unlocked))
        return files

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
