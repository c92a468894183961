"""A site that is asked over HTTPS; see `Site`."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slurm_rl_plugin.brokers.live.forwarding import Forwarding
from slurm_rl_plugin.brokers.live.job_document import job_document
from slurm_rl_plugin.brokers.live.offer_document import forwarded_offers, site_offer
from slurm_rl_plugin.brokers.live.site_connection import (
    PlainConnection,
    TlsConnection,
    numeric_address,
    service_address,
    why_refused,
)
from slurm_rl_plugin.brokers.live.strict_json import strict_object
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.errors import ConfigurationError, RequestRefused
from slurm_rl_plugin.serving.clients import read_token

#: Bytes of the longest answer that is read.
LONGEST_ANSWER = 65536
_LONGEST_WORDS = 300
#: A name that sbatch takes for one reservation.
_RESERVATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAddress:
    """Where a site is asked: its URL, and the files for token and TLS.

    Attributes:
        name: of the cluster, as `sbatch -M` takes it.
        url: of its offer service, without `/offer`; "" for one that is not asked.
        token_file: the token that the site shares.
        authority: certificates that its own must come from; None takes the system's.
        client_certificate, client_key: for a site that wants one.
    """

    name: str
    url: str = ""
    token_file: Path = Path()
    authority: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None

    def __post_init__(self) -> None:
        if not self.url:
            return
        host = service_address(self.url).hostname or ""
        address = numeric_address(host)
        why = None if address is None else why_refused(address, host)
        if why is not None:
            raise ConfigurationError(
                f"url {self.url!r} names {why}, which no site has: give the name of its host."
            )


@dataclass(frozen=True, slots=True)
class RemoteSite:
    """A site that is asked over HTTP at the address of its offer service.

    Attributes:
        address: of it.
        timeout: seconds for each step of an answer; who asks must bound all of them together.
    """

    address: SiteAddress
    timeout: float

    @property
    def name(self) -> str:
        """The name that the list of sites gives it."""
        return self.address.name

    def offer(self, request: JobRequest) -> SiteOffer | None:
        """Its answer; None where it refuses, or cannot be asked."""
        try:
            return self.answer(request)
        except (RequestRefused, ConfigurationError):
            return None

    def answer(self, request: JobRequest) -> SiteOffer:
        """Ask the site for an offer.

        Raises:
            RequestRefused: it makes none; in its own words.
            ConfigurationError: a file that is needed to ask cannot be used.
        """
        return site_offer(self._answered(job_document(request)), self.name)

    def answers(self, request: JobRequest, forwarding: Forwarding | None) -> list[SiteOffer]:
        """Ask the site for an offer and for those of the sites that it asks; its own is the first.

        Args:
            request: of the job.
            forwarding: how far it may go; None for no further.

        Raises:
            RequestRefused: there is none; in its own words.
            ConfigurationError: a file that is needed to ask cannot be used.
        """
        far = {} if forwarding is None else forwarding.document()
        document = self._answered(job_document(request) | far)
        others = [each for each in forwarded_offers(document) if each.site != self.name]
        if "error" in document and others:
            return others
        return [site_offer(document, self.name), *others]

    def accept(self, request: JobRequest) -> str:
        """Let the site bind its offer; the name of the reservation.

        Raises:
            RequestRefused: it binds none; in its own words.
            ConfigurationError: a file that is needed to ask cannot be used.
        """
        name = self._answered(job_document(request), page="/accept").get("reservation")
        if not isinstance(name, str) or _RESERVATION.fullmatch(name) is None:
            raise RequestRefused("", "names no reservation")
        return name

    def _answered(self, asked: Mapping[str, Any], page: str = "/offer") -> dict[str, Any]:
        """The object that the site answers; raises as `answer`."""
        if not self.address.url:
            raise RequestRefused("", "it has no url in the list of sites, and is not asked")
        token = read_token(self.address.token_file)
        connection = self._connection()
        try:
            connection.request(
                "POST",
                f"{urlsplit(self.address.url).path.rstrip('/')}{page}",
                body=json.dumps(asked),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            answer = connection.getresponse()
            status, body = answer.status, answer.read(LONGEST_ANSWER)
        except ssl.SSLCertVerificationError as error:
            raise RequestRefused(
                "", f"its certificate is not trusted ({error.verify_message})"
            ) from None
        except TimeoutError:
            raise RequestRefused("", f"no answer in {self.timeout:g} s") from None
        except (OSError, HTTPException) as error:
            raise RequestRefused("", f"does not answer ({_words(error)})") from None
        finally:
            connection.close()
        document = strict_object(body)
        if status != 200:
            raise RequestRefused(str(status), _said(document.get("error"), status))
        return document

    def _connection(self) -> HTTPConnection:
        parts = urlsplit(self.address.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return PlainConnection(host, parts.port or 80, timeout=self.timeout)
        return TlsConnection(host, parts.port or 443, timeout=self.timeout, tls=self._tls())

    def _tls(self) -> ssl.SSLContext:
        where = self.address
        try:
            context = ssl.create_default_context(cafile=where.authority)
            if where.client_certificate is not None:
                context.load_cert_chain(where.client_certificate, where.client_key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"site {self.name}: its certificates cannot be used ({_words(error)}): give files "
                "in PEM form."
            ) from None
        return context


def _words(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return "no such host"
    return (
        getattr(error, "reason", None)
        or getattr(error, "strerror", None)
        or str(error)
        or type(error).__name__
    )


def _said(words: object, status: int) -> str:
    """A stranger's words, in one line that moves no cursor."""
    if not isinstance(words, str) or not words:
        return f"answers {status} without a word"
    short = words[:_LONGEST_WORDS].rstrip(".")
    return "".join(sign if sign.isprintable() else "?" for sign in short)
