"""Keys of TLS that every section which serves has."""

from __future__ import annotations

from slurm_rl_plugin.configuration.keys.key import key

_REPLACED = "What replaces the file later is taken by itself."


def tls_certificate(followed: str = "", *, at_start: bool = False) -> str:
    """The certificate; `followed` says what else the file holds."""
    note = " ".join(filter(None, ("Needs `tls_key`.", followed, _REPLACED)))
    meaning = "certificate in PEM form, for HTTPS; empty for HTTP"
    made: str = key(default="", at_start=at_start, meaning=meaning, note=note)
    return made


def tls_key(note: str = "Without a passphrase.", *, at_start: bool = False) -> str:
    """Its key."""
    meaning = "key of the certificate in PEM form"
    made: str = key(default="", at_start=at_start, meaning=meaning, note=note)
    return made


def tls_client_ca(*, at_start: bool = False) -> str:
    """Whose certificates clients must have."""
    meaning = "clients must have a certificate of this authority; empty for any client"
    made: str = key(default="", at_start=at_start, meaning=meaning)
    return made
