"""Which client an address of the network stands for, where each client has a share of his own."""

from __future__ import annotations

import ipaddress

#: Before the number of a user, which stands for a client of this host that the kernel vouches for.
LOCAL_USER = "uid:"
#: Bits of an IPv6 address that one client has to himself.
_IPV6_CLIENT = 64


def client_of(address: str) -> str:
    """An address; of IPv6 the network that one subscriber gets, in which he may have any."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, _IPV6_CLIENT), strict=False))
    return str(found)
