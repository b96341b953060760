"""Where a webhook may go: public addresses only, whatever a name resolves to and however an address is written."""

from collections.abc import Callable
from ipaddress import ip_address

import pytest

from jobqueue import outbox
from jobqueue.exceptions import WebhookError
from jobqueue.outbox.addresses import is_allowed, is_allowed_host, resolve
from tests.outbox.conftest import Names
from tests.outbox.receiver import Receiver

Configure = Callable[..., None]

PRIVATE = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "100.64.0.1",
    "100.100.100.200",
    "169.254.169.254",
    "168.63.129.16",
    "192.0.0.192",
    "192.88.99.1",
    "192.0.2.1",
    "198.18.0.1",
    "224.0.0.1",
    "233.252.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "fe80::1",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "ff0e::1",
    "2001:db8::1",
    "3fff::1",
    "5f00::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "64:ff9b:1:7f00:0:100:808:808",  # as a /48 it holds 127.0.0.1
    "fec0::2",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::1",
    "2001:0:7f00:1::1",
]
PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101", "2002:101:101::1"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(configure: Configure, address: str) -> None:
    configure(WEBHOOK_ALLOW=[])

    assert not is_allowed(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(configure: Configure, address: str) -> None:
    configure(WEBHOOK_ALLOW=[])

    assert is_allowed(ip_address(address))


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "fd12::5"])
def test_networks_can_be_allowed(configure: Configure, address: str) -> None:
    configure(WEBHOOK_ALLOW=["10.0.0.0/8", "fd12::/16"])

    assert is_allowed(ip_address(address))
    assert not is_allowed(ip_address("192.168.0.1"))


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("hooks.internal", True),
        ("HOOKS.internal.", True),
        ("a.b.corp.test", True),
        ("corp.test", False),
        ("evilcorp.test", False),
        ("hooks.internal.evil.test", False),
        ("10.0.0.1", False),
    ],
)
def test_hosts_can_be_allowed_by_name(configure: Configure, host: str, allowed: bool) -> None:
    configure(WEBHOOK_ALLOW=["Hooks.internal", "*.corp.test"])

    assert is_allowed_host(host) is allowed


def test_an_allowed_name_may_resolve_to_a_private_address(configure: Configure, names: Names) -> None:
    configure(WEBHOOK_ALLOW=["hooks.internal"])
    names("hooks.internal", ["10.0.0.1"])

    assert resolve("hooks.internal", 443, timeout=1) == ["10.0.0.1"]


@pytest.mark.parametrize("others", [["10.0.0.1", "1.1.1.1"], ["1.1.1.1", "10.0.0.1"], ["1.1.1.1", "::1"]])
def test_one_address_that_is_not_allowed_spoils_the_name(configure: Configure, names: Names, others: list[str]) -> None:
    configure(WEBHOOK_ALLOW=[])
    names("mixed.example.test", others)

    with pytest.raises(WebhookError, match="which is no public address") as caught:
        resolve("mixed.example.test", 443, timeout=1)

    assert caught.value.permanent


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1", "localhost"])
def test_an_address_in_disguise_is_judged_by_what_the_system_makes_of_it(configure: Configure, host: str) -> None:
    configure(WEBHOOK_ALLOW=[])

    with pytest.raises(WebhookError, match=r"127\.0\.0\.1|::1"):
        resolve(host, 443, timeout=2)


def test_a_name_that_resolves_to_something_else_a_moment_later_wins_nothing(
    target: Receiver, configure: Configure, names: Names
) -> None:
    """DNS rebinding: the connection is made to what was judged, so the second answer is never asked for."""
    configure(WEBHOOK_ALLOW=["127.0.0.2/32"], WEBHOOK_HTTP=True, WEBHOOK_TOTAL_SECONDS=1)
    names("rebinding.example.test", ["127.0.0.2"], ["127.0.0.1"])

    # The receiver listens at 127.0.0.1 only: the judged address is the one that is refused by the system.
    with pytest.raises(WebhookError, match="refused"):
        outbox.deliver_webhook(target.url(host="rebinding.example.test"), "order.paid", {})

    assert target.requests == []


def test_each_delivery_is_judged_anew(target: Receiver, configure: Configure, names: Names) -> None:
    configure(WEBHOOK_ALLOW=["127.0.0.1/32"], WEBHOOK_HTTP=True)
    names("moving.example.test", ["127.0.0.1"], ["10.0.0.1"])
    url = target.url(host="moving.example.test")

    outbox.deliver_webhook(url, "order.paid", {})
    with pytest.raises(WebhookError, match=r"moving\.example\.test is 10\.0\.0\.1"):
        outbox.deliver_webhook(url, "order.paid", {})

    assert len(target.requests) == 1


def test_a_second_address_is_tried_where_the_first_does_not_answer(
    target: Receiver, configure: Configure, names: Names
) -> None:
    configure(WEBHOOK_HTTP=True)
    names("two.example.test", ["127.0.0.2", "127.0.0.1"])

    outbox.deliver_webhook(target.url(host="two.example.test"), "order.paid", {})

    assert len(target.requests) == 1


def test_proxies_of_the_environment_are_not_used(
    target: Receiver, elsewhere: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy would resolve the name by itself, and nobody would judge what it found."""
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, elsewhere.url(""))

    outbox.deliver_webhook(target.url(), "order.paid", {})

    assert (len(target.requests), elsewhere.requests) == (1, [])
