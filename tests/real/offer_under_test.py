"""`slurm-rl offer` as a process of its own, with TLS and a token."""

from __future__ import annotations

import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.certificates import self_signed


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferService:
    """The service's process and what is needed to ask it."""

    process: subprocess.Popen[bytes]
    folder: Path
    port: int

    @property
    def log(self) -> str:
        return (self.folder / "offer.log").read_text()

    @property
    def certificate(self) -> Path:
        return self.folder / "offer.pem"

    @property
    def token(self) -> str:
        return (self.folder / "token").read_text()

    def stop(self) -> int:
        """Stop it as systemd does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


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
    log = folder / "offer.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(*before, sys.executable, "-m", "slurm_rl_plugin.cli.entry"),
                *("offer", "--config", str(folder / "slurm-rl.toml")),
            ],
            env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
            stderr=output,
            stdout=output,
            cwd="/",
        )
    try:
        end = time.monotonic() + 60
        while not (found := re.search(r"url=https://127.0.0.1:(\d+)/offer", log.read_text())):
            assert time.monotonic() < end, log.read_text()
            assert process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield OfferService(process=process, folder=folder, port=int(found[1]))
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(timeout=10)
