"""Connects to a site: to the address that was looked at, and to none that no site can have.

A name may come to stand for another address at any time. It is resolved once, and what is asked is
what was judged: never an address of this link only, where clouds hand out credentials, and this
host only where the URL, or this host's own name, says so.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from slurm_rl_plugin.errors import ConfigurationError, RequestRefused

_LOOPBACK = "the loopback address"


class PlainConnection(HTTPConnection):
    """An HTTP connection without TLS, to addresses that may be asked only."""

    def connect(self) -> None:
        """Connect to an address that may be asked."""
        self.sock = _connected(self.host, self.port, self.timeout)


class TlsConnection(HTTPSConnection):
    """An HTTPS connection, to addresses that may be asked only.

    Args:
        host: that the certificate must be for.
        port: of it.
        timeout: seconds for each step.
        tls: with what.
    """

    def __init__(self, host: str, port: int, *, timeout: float, tls: ssl.SSLContext) -> None:
        super().__init__(host, port, timeout=timeout, context=tls)
        self._tls = tls

    def connect(self) -> None:
        """Connect to an address that may be asked, then begin TLS."""
        plain = _connected(self.host, self.port, self.timeout)
        try:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise


def service_address(url: str) -> SplitResult:
    """The parts of the URL of a service that is given a token.

    Raises:
        ConfigurationError: it is none, or would show the token to the network.
    """
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
    """What keeps an address from being a site's, in words; None where nothing does.

    Args:
        address: that is about to be asked.
        host: of the URL, which stands for it.
    """
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
    """A connection to the first address that takes it.

    Raises:
        RequestRefused: one of the addresses is none of a site.
        OSError: no such host, or none of its addresses takes it.
    """
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
