"""Requests offers from sites over HTTPS, concurrently, each at the address that was checked.

A name may change its address at any time, so it is resolved once, and the request goes to the
checked address: never to a link-local one, where clouds serve credentials, and to this host only if
the URL, or this host's own name, says so.

RequestRefused has the reason why a site makes no offer or cannot be asked; ConfigurationError names
a file or URL that cannot be used.
"""

from __future__ import annotations

import ipaddress
import json
import queue
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from slurm_rl_plugin.brokers.live.job_document import (
    Forwarding,
    forwarded_offers,
    job_document,
    site_offer,
    strict_object,
)
from slurm_rl_plugin.domain.site import JobRequest, SiteOffer
from slurm_rl_plugin.errors import ConfigurationError, RequestRefused, SlurmRLError
from slurm_rl_plugin.serving.clients import read_token

_LOOPBACK = "the loopback address"
#: Maximum bytes of a response.
LONGEST_ANSWER = 65536
_LONGEST_WORDS = 300
#: A name of one reservation for sbatch.
_RESERVATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class PlainConnection(HTTPConnection):
    """An HTTP connection without TLS, only to allowed addresses."""

    def connect(self) -> None:
        """Connect to an allowed address."""
        self.sock = _connected(self.host, self.port, self.timeout)


class TlsConnection(HTTPSConnection, PlainConnection):
    """The same with TLS."""


def service_address(url: str) -> SplitResult:
    """The parts of the URL of a service that gets a token."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # an open bracket, a port that is no number
        known = False
    if not known or parts.query or parts.fragment or parts.username is not None:
        raise ConfigurationError(f"url {url!r} is none: give one such as https://host:9344.")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ConfigurationError(f"url {url!r} would show the token to the network: give https.")
    return parts


def is_loopback(host: str) -> bool:
    """Whether the address is local to this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def numeric_address(host: str) -> str | None:
    """The address of a host in any spelling, such as 2852039166; None for a name."""
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0])


def why_refused(address: str, host: str) -> str | None:
    """Why a request must not go to the address of a URL's host; None if it may."""
    found: ipaddress.IPv4Address | ipaddress.IPv6Address
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if found.is_link_local:
        return "a link-local address"
    if found.is_multicast:
        return "a multicast address"
    if found.is_unspecified or str(found) == "255.255.255.255":
        return "no address of a host"
    if found.is_loopback and not is_loopback(host) and not _is_this_host(host):
        return _LOOPBACK
    return None


def _is_this_host(host: str) -> bool:
    """Whether it is this host's name, to which distributions give a loopback address."""
    own = socket.gethostname().casefold()
    return host.casefold() in (own, own.partition(".")[0])


def _connected(host: str, port: int, timeout: float | None) -> socket.socket:
    """A connection to the first address that accepts it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for each in found:
        address = str(each[4][0])
        if (why := why_refused(address, host)) is not None:
            raise RequestRefused("", f"it is not asked: {host} resolves to {address}, {why}")
    failed: OSError = OSError("no address")
    for family, kind, protocol, _, where in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(where)
        except OSError as error:
            connection.close()
            failed = error
        else:
            return connection
    raise failed


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSite:
    """A site's offer service: its URL, and the files for token and TLS.

    A `timeout` is that of each step of a response, in seconds; the caller bounds the total.
    """

    name: str  #: of the cluster, for `sbatch -M`
    url: str = ""  #: without `/offer`; "" for a site that is not asked
    token_file: Path = Path()  #: the token that the site shares
    authority: Path | None = None  #: trusted certificates; None for the system's
    #: client_certificate, client_key: for a site that requires them.
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

    def answers(
        self, request: JobRequest, forwarding: Forwarding | None, timeout: float
    ) -> list[SiteOffer]:
        """The site's offer, then those of the sites to which it forwarded the request."""
        far = {} if forwarding is None else forwarding.document()
        document = self._answered(job_document(request) | far, timeout)
        others = [each for each in forwarded_offers(document) if each.site != self.name]
        if "error" in document and others:
            return others
        return [site_offer(document, self.name), *others]

    def accept(self, request: JobRequest, timeout: float) -> str:
        """Bind the site's offer; the name of the reservation."""
        name = self._answered(job_document(request), timeout, "/accept").get("reservation")
        if not isinstance(name, str) or _RESERVATION.fullmatch(name) is None:
            raise RequestRefused("", "names no reservation")
        return name

    def _answered(
        self, asked: Mapping[str, Any], timeout: float, page: str = "/offer"
    ) -> dict[str, Any]:
        """The object in the site's response."""
        if not self.url:
            raise RequestRefused("", "it has no url in the list of sites, and is not asked")
        token = read_token(self.token_file)
        connection = self._connection(timeout)
        try:
            connection.request(
                "POST",
                f"{urlsplit(self.url).path.rstrip('/')}{page}",
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
            raise RequestRefused("", f"no answer in {timeout:g} s") from None
        except (OSError, HTTPException) as error:
            raise RequestRefused("", f"does not answer ({_words(error)})") from None
        finally:
            connection.close()
        document = strict_object(body)
        if status != 200:
            raise RequestRefused(str(status), _said(document.get("error"), status))
        return document

    def _connection(self, timeout: float) -> HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return PlainConnection(host, parts.port or 80, timeout=timeout)
        try:
            context = ssl.create_default_context(cafile=self.authority)
            if self.client_certificate is not None:
                context.load_cert_chain(self.client_certificate, self.client_key, password="")
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"site {self.name}: its certificates cannot be used ({_words(error)}): give files "
                "in PEM form."
            ) from None
        return TlsConnection(host, parts.port or 443, timeout=timeout, context=context)


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
    """A site's error on one line, without control characters."""
    if not isinstance(words, str) or not words:
        return f"answers {status} without a word"
    short = words[:_LONGEST_WORDS].rstrip(".")
    return "".join(sign if sign.isprintable() else "?" for sign in short)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAnswer:
    """The result of asking one site; a `Site` for brokers."""

    name: str  #: of the site
    promised: SiteOffer | None = None  #: its offer, if any
    why_not: str = ""  #: why it makes no offer

    def offer(self, request: JobRequest) -> SiteOffer | None:
        """The offer received for the request."""
        del request
        return self.promised


def ask_sites(
    sites: Sequence[RemoteSite],
    request: JobRequest,
    timeout: float,
    monotonic: Callable[[], float],
    *,
    forwarding: Forwarding | None = None,
    places: threading.Semaphore | None = None,
) -> list[SiteAnswer]:
    """The response of each site, in their order, then offers of sites that they forwarded to.

    The thread of a slow site is abandoned at the timeout.

    Args:
        timeout: total seconds.
        forwarding: how far these sites may forward the request; None for not at all.
        places: a request to a site holds one while it lasts, and is skipped if none is free.
    """
    end = monotonic() + timeout
    heard: queue.SimpleQueue[tuple[str, list[SiteAnswer]]] = queue.SimpleQueue()
    free = threading.Semaphore(len(sites)) if places is None else places

    def ask(site: RemoteSite) -> None:
        try:
            answers = _answers(site, request, forwarding, timeout)
        finally:
            free.release()
        heard.put((site.name, answers))

    asked = 0
    for site in sites:
        if free.acquire(blocking=False):
            try:
                threading.Thread(target=ask, args=(site,), daemon=True).start()
                asked += 1
            except RuntimeError:  # no more threads: skip the site
                free.release()
    found: dict[str, list[SiteAnswer]] = {}
    while len(found) < asked and (left := end - monotonic()) > 0.0:
        try:
            name, answers = heard.get(timeout=left)
        except queue.Empty:
            break
        found[name] = answers
    late = f"no answer in {timeout:g} s"
    merged: dict[str, SiteAnswer] = {}
    for site in sites:
        for answer in found.get(site.name) or [SiteAnswer(name=site.name, why_not=late)]:
            known = merged.get(answer.name)
            if known is None or known.promised is None or answer.name == site.name:
                merged[answer.name] = answer
    own = [merged.pop(each.name) for each in sites]
    return [*own, *merged.values()]


def _answers(
    site: RemoteSite, request: JobRequest, forwarding: Forwarding | None, timeout: float
) -> list[SiteAnswer]:
    """The result of asking a site; never raises, since it runs in a thread."""
    try:
        offers = site.answers(request, forwarding, timeout)
    except SlurmRLError as error:
        return [SiteAnswer(name=site.name, why_not=str(error))]
    except Exception as error:  # noqa: BLE001 - as above
        return [SiteAnswer(name=site.name, why_not=f"asking it failed: {error!r}")]
    answers = [SiteAnswer(name=each.site, promised=each) for each in offers]
    if offers[0].site != site.name:
        answers.append(SiteAnswer(name=site.name, why_not="makes no offer itself"))
    return answers
