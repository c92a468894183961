"""`slurm-rl offer` as a process of its own, with TLS and a token."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.certificates import self_signed
from tests.real.daemon_under_test import RunningService, started_service


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferService(RunningService):
    """The service and what is needed to ask it."""

    @property
    def certificate(self) -> Path:
        return self.folder / "offer.pem"

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text()


@contextmanager
def offer_service(
    environment: Mapping[str, str],
    folder: Path,
    more: str = "",
    before: Sequence[str] = (),
    port: int = 0,
) -> Iterator[OfferService]:
    """Start a service with TLS and a token; killed at the end if it still runs.

    `more` are lines of [offer] and further sections, and `before` words before its command. Others
    must be able to get into the folder where these change the user.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = self_signed(folder, "offer")
    files.key.chmod(0o644)
    (folder / "token").write_text(secrets.token_hex(32))
    (folder / "slurm-rl.toml").write_text(f"""
[offer]
port = {port}
tls_certificate = "{files.certificate}"
tls_key = "{files.key}"
token_file = "{folder}/token"
{more}
""")
    with started_service("offer", environment, folder, before) as begun:
        found = begun.wait_for(r"url=https://127.0.0.1:(\d+)/offer", 60)
        yield OfferService(process=begun.process, folder=folder, port=int(found[1]))
