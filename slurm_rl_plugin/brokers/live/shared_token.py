"""The token that a site shares with those who may ask it, in a file of its own."""

from __future__ import annotations

import hmac
import re
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import version_of

#: Characters of the shortest token; `openssl rand -hex 32` gives 64.
SHORTEST = 32
_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{{SHORTEST},512}}", re.ASCII)
_LONGEST_FILE = 4096


def read_token(path: Path) -> str:
    """The token in a file.

    Raises:
        ConfigurationError: the file cannot be read, or holds no token.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_FILE).decode("ascii", "replace").strip()
    except OSError as error:
        raise ConfigurationError(
            f"token file {path} cannot be read ({error.strerror}): make it with `openssl rand "
            "-hex 32`, readable for this user."
        ) from None
    if _TOKEN.fullmatch(text) is None:
        raise ConfigurationError(
            f"token file {path} holds no token: write one line of at least {SHORTEST} letters "
            "and digits, as `openssl rand -hex 32` does."
        )
    return text


class SharedToken:
    """The service's side: a new token in the file counts from the next request on.

    Raises:
        ConfigurationError: see `read_token`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._version = version_of(path)
        self._token = read_token(path)

    def is_in(self, authorization: str) -> bool:
        """Whether a header `Authorization` bears the token; takes the same time for every one."""
        version = version_of(self.path)
        if version != self._version:
            try:
                self._token, self._version = read_token(self.path), version
            except ConfigurationError:  # taken away: nobody may ask until there is one again
                return False
        return hmac.compare_digest(
            authorization.encode("utf-8", "replace"), f"Bearer {self._token}".encode()
        )
