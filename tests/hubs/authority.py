"""An authority, and certificates of it, as files; keys are made once for a session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import trustme

__all__ = ["Authority", "Files"]


class Files(NamedTuple):
    """A certificate and its key, PEM."""

    certificate: str
    key: str


class Authority:
    """Vouches for whoever a test needs.

    Args:
        folder: Where the files go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = trustme.CA()
        self.ca = str(folder / "ca.pem")
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(self, *names: str, expired: bool = False) -> Files:
        """Make a certificate for host names and addresses."""
        until = datetime.now(UTC) - timedelta(days=1) if expired else None
        issued = self._authority.issue_cert(*names, not_after=until)
        stem = self._folder / (f"{names[0]}-expired" if expired else names[0])
        files = Files(f"{stem}.pem", f"{stem}.key")
        Path(files.certificate).unlink(missing_ok=True)
        for blob in issued.cert_chain_pems:
            blob.write_to_path(files.certificate, append=True)
        issued.private_key_pem.write_to_path(files.key)
        return files
