"""`AdminToken`: the file with the admin's token, in clear, which is made where there is none.

It is for who sets up a hub and has nothing yet: whoever may read the file is an admin. Everybody else gets a token of
his own by `hub token new`, of which the hub keeps a hash only.

Invariant: nobody but its owner, and root, can read it, not for a moment. Owner: the file. Cost: it is read at each
start and reload.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from hub.policy.policy import ADMIN
from hub.settings.config import ConfigError
from peers.users.token_file import check_private
from peers.users.tokens import Token, hash_of, new_secret

_MODE = 0o600
_FOLDER_MODE = 0o700
_MOST_BYTES = 1024
_SECRET = re.compile(r"hub_[A-Za-z0-9_-]{43,60}", re.ASCII)


def usual_place(environment: Mapping[str, str]) -> str:
    """Return where the file is if nobody says: in the folder where programs of this account keep what they must.

    Raises:
        ConfigError: There is no such folder.
    """
    state = environment.get("XDG_STATE_HOME", "")
    if not Path(state).is_absolute():  # the specification says that others are to be passed over
        home = environment.get("HOME", "")
        if not Path(home).is_absolute():
            raise ConfigError("", "access.admin_token", "no HOME to keep the admin's token in; name a file for it")
        state = f"{home}/.local/state"
    return f"{state}/topichub/admin-token"


class AdminToken:
    """The file.

    Args:
        path: Where it is, or is to be.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)

    def ensure(self) -> bool:
        """Make it if it is not there; return whether it was made.

        Raises:
            ConfigError: It cannot be made.
        """
        if self._path.exists():
            return False
        try:
            self._path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
        except OSError as error:
            reason = f"the admin's token cannot be kept here: {error.strerror}; name another file by access.admin_token"
            raise ConfigError(str(self._path), "", reason) from error
        with open(descriptor, "w", encoding="ascii") as file:  # noqa: PTH123 -- a descriptor is no path
            file.write(new_secret() + "\n")
        return True

    def secret(self) -> str:
        """Return its text.

        Raises:
            ConfigError: There is no such file, others may read it, or it holds no token.
        """
        try:
            with self._path.open("rb") as file:
                check_private(file.fileno(), self._path)
                content = file.read(_MOST_BYTES)
        except OSError as error:
            raise ConfigError(str(self._path), "", f"cannot be read: {error.strerror}") from error
        text = content.decode("ascii", "replace").strip()
        if not _SECRET.fullmatch(text):
            reason = "holds no token of a hub; remove it, and the next start makes one"
            raise ConfigError(str(self._path), "", reason)
        return text

    def token(self) -> Token:
        """Return what the hub knows of it: whoever shows it is the admin.

        Raises:
            ConfigError: As `secret`.
        """
        return Token(hash_of(self.secret()), ADMIN, datetime.fromtimestamp(0, UTC), roles=(ADMIN,), label="first")
