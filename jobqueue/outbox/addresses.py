"""Which addresses a webhook may go to: the host's name is resolved here, and judged by what it resolves to.

A URL that a customer typed must not make this machine talk to its own network. The connection is made to the very
address that was judged (client.py), so that a name that resolves to something else a moment later wins nothing.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

from jobqueue.conf import get_settings
from jobqueue.exceptions import WebhookError

Address = IPv4Address | IPv6Address

# What some versions of Python call global: metadata of clouds (Oracle's is in the first, Azure's the second: a public
# address that answers from within only), relays, documentation, routing within a network, site-local (where a virtual
# machine of QEMU finds its host). In a network's own NAT64 prefix nobody can tell where the IPv4 address stands.
_REFUSED: Final = tuple(
    ip_network(item)
    for item in (
        *("192.0.0.0/24", "168.63.129.16", "192.88.99.0/24"),
        *("3fff::/20", "5f00::/16", "fec0::/10", "64:ff9b:1::/48"),
    )
)
_NAT64: Final = ip_network("64:ff9b::/96")


def resolve(host: str, port: int, *, timeout: float) -> list[str]:
    """Return the addresses to connect to, best first, all of them allowed.

    Raises WebhookError: permanent where one of them is not allowed, else where the name cannot be resolved in time.
    """
    addresses = _look_up(host, port, timeout)
    for text in addresses:
        if not (is_allowed_host(host) or is_allowed(ip_address(text))):
            told = f"{host} is {text}, which is no public address" if text != host else f"{host} is no public address"
            raise WebhookError(f"{told}: JOBQUEUE['WEBHOOK_ALLOW'] does not allow it", permanent=True)
    return addresses


def _look_up(host: str, port: int, timeout: float) -> list[str]:
    """Ask the system's resolver, which knows no time-out, in a thread that may be left behind."""
    answers: list[Any] = []

    def ask() -> None:
        try:
            answers.append(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.append(error)

    asking = threading.Thread(target=ask, name="jobqueue-resolve", daemon=True)
    asking.start()
    asking.join(timeout)
    if not answers:
        raise WebhookError(f"{host} could not be resolved within {timeout:.1f} s", permanent=False)
    if isinstance(answers[0], Exception):
        raise WebhookError(f"{host} could not be resolved: {answers[0]}", permanent=False)
    # An IPv6 address may come with its zone, as in "fe80::1%eth0".
    return list(dict.fromkeys(str(found[4][0]).partition("%")[0] for found in answers[0]))


def is_allowed_host(host: str) -> bool:
    """Tell whether JOBQUEUE["WEBHOOK_ALLOW"] names the host, or its domain with a leading "*."."""
    name = host.lower().rstrip(".")
    return any(
        item == name or (item.startswith("*.") and name.endswith(item[1:])) for item in get_settings().WEBHOOK_ALLOW
    )


def is_allowed(address: Address) -> bool:
    """Tell whether an address is public, or lies in a network of JOBQUEUE["WEBHOOK_ALLOW"]."""
    forms = [address, *_embedded(address)]
    if any(form in network for form in forms for network in _networks() if form.version == network.version):
        return True
    return all(_is_public(form) for form in forms[1:] or forms)


def _networks() -> Iterator[Any]:
    for item in get_settings().WEBHOOK_ALLOW:
        try:
            yield ip_network(item)
        except ValueError:
            continue  # a name


def _embedded(address: Address) -> list[Address]:
    """Return the IPv4 addresses that an IPv6 address stands for: where a packet to it ends up."""
    if isinstance(address, IPv4Address):
        return []
    found: list[Address] = [item for item in (address.ipv4_mapped, address.sixtofour) if item is not None]
    if address.teredo is not None:
        found.extend(address.teredo)
    if address in _NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def _is_public(address: Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not address.is_unspecified
        and not any(address in network for network in _REFUSED)
    )
