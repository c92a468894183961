"""TLS of what is served: the daemon's side, and the side of who reads its metrics on this host."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """Files for TLS, in PEM form."""

    certificate: Path  #: the daemon's, with those that link it to its authority
    key: Path  #: without a passphrase
    #: Clients must have a certificate of this authority; None lets every client read.
    client_authority: Path | None = None
    section: str = "metrics"  #: of the configuration, for messages


@dataclass(slots=True)
class ServedTls:
    """The daemon's side; reads renewed files again, so that no renewal asks for a restart."""

    files: TlsFiles
    context: ssl.SSLContext = field(init=False)
    _seen: tuple[tuple[int, int] | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._seen = self._times()
        self.context = self._loaded()

    def renewed(self) -> ssl.SSLContext:
        """The context; that of renewed files once they are complete, until then the old one."""
        times = self._times()
        if times != self._seen:
            self._seen = times
            # half of a renewal is no fault: its other half changes a time again
            with suppress(ConfigurationError):
                self.context = self._loaded()
        return self.context

    def _times(self) -> tuple[tuple[int, int] | None, ...]:
        paths = (self.files.certificate, self.files.key, self.files.client_authority)
        return tuple(version_of(path) for path in paths if path is not None)

    def _loaded(self) -> ssl.SSLContext:
        files = self.files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # without a terminal OpenSSL must not prompt for a passphrase
            context.load_cert_chain(files.certificate, files.key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"[{files.section}] tls_certificate {files.certificate} and tls_key {files.key} "
                f"cannot be used ({_reason(error)}): give a certificate and its own key, both in "
                "PEM form, readable for this user and without a passphrase."
            ) from None
        if files.client_authority is not None:
            try:
                context.load_verify_locations(files.client_authority)
            except OSError as error:
                raise ConfigurationError(
                    f"[{files.section}] tls_client_ca {files.client_authority} cannot be used "
                    f"({_reason(error)}): give certificates in PEM form, readable for this user."
                ) from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def reading_context(certificate: Path) -> ssl.SSLContext:
    """The side of who reads: only the daemon that has this certificate, or one of its authority.

    The name is not checked: the daemon is reached by the address that it listens on.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(certificate)
    return context


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error) or "unknown form"
