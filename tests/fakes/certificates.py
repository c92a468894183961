"""Certificates for a test, made by openssl; the test is skipped where there is none."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from slurm_rl_plugin.serving.tls import TlsFiles


def self_signed(folder: Path, name: str) -> TlsFiles:
    """A certificate NAME.pem that vouches for itself, for the host `localhost`, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl: install the package of that name")
    files = TlsFiles(certificate=folder / f"{name}.pem", key=folder / f"{name}.key")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(files.key), "-out", str(files.certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return files
