"""Which client an address counts as, how often each may ask, and the token of a site."""

from __future__ import annotations

import hmac
import ipaddress
import pwd
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from slurm_rl_plugin.errors import ConfigurationError
from slurm_rl_plugin.whole_file import version_of

#: Before the number of a user: an address of this host for which the kernel vouches.
LOCAL_USER = "uid:"
#: The client that all users without a login name are together. One person may have 65,536 such
#: numbers (subordinate uids, in a user namespace), so they share one share.
NAMELESS = "uid:nameless"
#: One client for all users whose names the service has not looked up yet.
NEWCOMERS = "uid:new"
#: Clients that are remembered; the one that asked longest ago is forgotten first.
MOST_CLIENTS = 4096
#: Characters of the shortest token; `openssl rand -hex 32` gives 64.
SHORTEST_TOKEN = 32
_TOKEN = re.compile(rf"[A-Za-z0-9._~+/=-]{{{SHORTEST_TOKEN},512}}", re.ASCII)
_LONGEST_FILE = 4096
#: Bits of an IPv6 address that one subscriber has to himself.
_IPV6_CLIENT = 64


def client_of(address: str) -> str:
    """The client of an address: of IPv6 the whole network that one subscriber gets."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, _IPV6_CLIENT), strict=False))
    return str(found)


def login_name(number: int) -> str:
    """The login name of a user's number; "" if it has none."""
    try:
        return pwd.getpwuid(number).pw_name
    except (KeyError, OverflowError):
        return ""


class LocalUsers:
    """Users of this host and the client that each of them counts as; safe for threads.

    The name service may take seconds, so `client` never asks it: a number counts as a newcomer
    until a thread that may wait has asked for its name. Numbers without a name are kept apart, so
    that many of them make no user with a name a newcomer again.
    """

    def __init__(self, name_of: Callable[[int], str] = login_name) -> None:
        self._name_of = name_of
        self._named: OrderedDict[int, None] = OrderedDict()
        self._nameless: OrderedDict[int, None] = OrderedDict()
        self._lock = threading.Lock()

    def client(self, number: int) -> str:
        """The client that a connection of this user counts as now."""
        with self._lock:
            if number in self._named:
                return f"{LOCAL_USER}{number}"
            return NAMELESS if number in self._nameless else NEWCOMERS

    def name(self, number: int) -> str:
        """The user's login name; asks the name service each time, because accounts come and go."""
        name = self._name_of(number)
        with self._lock:
            kept, other = (self._named, self._nameless)[:: 1 if name else -1]
            other.pop(number, None)
            kept[number] = None
            kept.move_to_end(number)
            while len(kept) > MOST_CLIENTS:
                kept.popitem(last=False)
        return name


class RequestRate:
    """A leaky bucket a client, safe for threads: `per_minute`, and `at_once` without a pause."""

    def __init__(
        self, *, per_minute: float, at_once: float, monotonic: Callable[[], float]
    ) -> None:
        self._per_second = per_minute / 60.0
        self._at_once = max(at_once, 1.0)
        self._monotonic = monotonic
        self._lock = threading.Lock()
        #: client -> (requests that it may still make, when that was so).
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def pause(self, client: str, cost: float = 1.0) -> float:
        """Take `cost` <= `at_once` requests; seconds until the client may ask, 0 if it may now."""
        with self._lock:
            left = self._left_of(client)
            granted = left >= cost
            self._keep(client, left - cost * granted)
        return 0.0 if granted else (cost - left) / self._per_second

    def give_back(self, client: str, requests: float) -> None:
        """Count fewer requests of this client than were taken, or more if negative."""
        with self._lock:
            self._keep(client, min(self._at_once, self._left_of(client) + requests))

    def _left_of(self, client: str) -> float:
        """Requests that it may make now; below 0 if it owes some."""
        now = self._monotonic()
        left, since = self._left.get(client_of(client), (self._at_once, now))
        return min(self._at_once, left + (now - since) * self._per_second)

    def _keep(self, client: str, left: float) -> None:
        who = client_of(client)
        self._left[who] = (left, self._monotonic())
        self._left.move_to_end(who)
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)


def read_token(path: Path) -> str:
    """The token in a file."""
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
            f"token file {path} holds no token: write one line of at least {SHORTEST_TOKEN} "
            "letters and digits, as `openssl rand -hex 32` does."
        )
    return text


class SharedToken:
    """The token that a site shares with its clients; a new one in the file counts at once."""

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
            except ConfigurationError:  # removed: no client has the token until there is one again
                return False
        return hmac.compare_digest(
            authorization.encode("utf-8", "replace"), f"Bearer {self._token}".encode()
        )
