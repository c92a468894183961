"""Asks sites over HTTPS, all at once, each at the address that was judged and at no other.

A name may come to stand for another address at any time. It is resolved once, and what is asked is
what was judged: never an address of this link only, where clouds hand out credentials, and this
host only where the URL, or this host's own name, says so.

RequestRefused has the words in which a site makes no offer or cannot be asked, ConfigurationError
names a file or URL that cannot be used.
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
#: Bytes of the longest answer that is read.
LONGEST_ANSWER = 65536
_LONGEST_WORDS = 300
#: A name that sbatch takes for one reservation.
_RESERVATION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


class PlainConnection(HTTPConnection):
    """An HTTP connection without TLS, to addresses that may be asked only."""

    def connect(self) -> None:
        """Connect to an address that may be asked."""
        self.sock = _connected(self.host, self.port, self.timeout)


class TlsConnection(HTTPSConnection, PlainConnection):
    """The same, over which HTTPSConnection begins TLS for the host that it is given."""


def service_address(url: str) -> SplitResult:
    """The parts of the URL of a service that is given a token."""
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
    """Whether nobody but this host hears what is sent there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def numeric_address(host: str) -> str | None:
    """The address that a host is in any of its spellings, such as 2852039166; None for a name."""
    try:
        found = socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return None
    return str(found[0][4][0])


def why_refused(address: str, host: str) -> str | None:
    """Why the address of a URL's host may not be asked, in words; None where it may be asked."""
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
    """Distributions give a host's own name a loopback address."""
    own = socket.gethostname().casefold()
    return host.casefold() in (own, own.partition(".")[0])


def _connected(host: str, port: int, timeout: float | None) -> socket.socket:
    """A connection to the first address that takes it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for each in found:
        address = str(each[4][0])
        if (why := why_refused(address, host)) is not None:
            raise RequestRefused("", f"it is not asked: {host} stands for {address}, {why}")
    return _first_that_takes_it(found, timeout)


def _first_that_takes_it(
    found: Sequence[tuple[int, int, int, str, tuple[str | int | bytes, ...]]], timeout: float | None
) -> socket.socket:
    failed: OSError = OSError("no address")
    for family, kind, protocol, _, address in found:
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(address)
        except OSError as error:
            connection.close()
            failed = error
        else:
            return connection
    raise failed


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAddress:
    """Where a site is asked: its URL, and the files for token and TLS."""

    name: str  #: of the cluster, as `sbatch -M` takes it
    url: str = ""  #: of its offer service, without `/offer`; "" for one that is not asked
    token_file: Path = Path()  #: the token that the site shares
    #: Certificates that its own must come from; None takes the system's.
    authority: Path | None = None
    #: client_certificate, client_key: for a site that wants one.
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
    """A site that is asked over HTTP at the address of its offer service."""

    address: SiteAddress  #: of it
    timeout: float  #: seconds for each step of an answer; who asks must bound all of them together

    @property
    def name(self) -> str:
        """The name that the list of sites gives it."""
        return self.address.name

    def answers(self, request: JobRequest, forwarding: Forwarding | None) -> list[SiteOffer]:
        """Ask the site for an offer and for those of sites that it asks; its own is the first."""
        far = {} if forwarding is None else forwarding.document()
        document = self._answered(job_document(request) | far)
        others = [each for each in forwarded_offers(document) if each.site != self.name]
        if "error" in document and others:
            return others
        return [site_offer(document, self.name), *others]

    def accept(self, request: JobRequest) -> str:
        """Let the site bind its offer; the name of the reservation."""
        name = self._answered(job_document(request), page="/accept").get("reservation")
        if not isinstance(name, str) or _RESERVATION.fullmatch(name) is None:
            raise RequestRefused("", "names no reservation")
        return name

    def _answered(self, asked: Mapping[str, Any], page: str = "/offer") -> dict[str, Any]:
        """The object that the site answers."""
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
        return TlsConnection(host, parts.port or 443, timeout=self.timeout, context=context)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAnswer:
    """What came of asking one site; a `Site` for brokers that has answered already."""

    name: str  #: of the site
    promised: SiteOffer | None = None  #: its offer; None where it makes none
    why_not: str = ""  #: in words; "" where there is an offer

    def offer(self, request: JobRequest) -> SiteOffer | None:
        """The offer already received; `request` is the one that the site was asked about."""
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
    """What each site answers, in their order, then the offers of those that they asked.

    A site that lets every step of its answer take as long as it may is not waited for: its thread
    ends with the process.

    Args:
        timeout: seconds for all of it.
        forwarding: how far the request may go from these sites; None for no further.
        places: a question takes one as long as it lasts, and is left out where none is free.
    """
    end = monotonic() + timeout
    heard: queue.SimpleQueue[tuple[str, list[SiteAnswer]]] = queue.SimpleQueue()

    free = threading.Semaphore(len(sites)) if places is None else places

    def ask(site: RemoteSite) -> None:
        try:
            answers = _answers(site, request, forwarding)
        finally:
            free.release()
        heard.put((site.name, answers))

    asked = 0
    for site in sites:
        if free.acquire(blocking=False):
            try:
                threading.Thread(target=ask, args=(site,), daemon=True).start()
                asked += 1
            except RuntimeError:  # no more threads: its question is left out
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
    site: RemoteSite, request: JobRequest, forwarding: Forwarding | None
) -> list[SiteAnswer]:
    """What came of asking a site; never raises, since a thread has nobody else to tell."""
    try:
        offers = site.answers(request, forwarding)
    except SlurmRLError as error:
        return [SiteAnswer(name=site.name, why_not=str(error))]
    except Exception as error:  # noqa: BLE001 - as above
        return [SiteAnswer(name=site.name, why_not=f"asking it failed: {error!r}")]
    answers = [SiteAnswer(name=each.site, promised=each) for each in offers]
    if offers[0].site != site.name:
        answers.append(SiteAnswer(name=site.name, why_not="makes no offer itself"))
    return answers
