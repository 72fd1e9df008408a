"""Whose program is at the other end is the kernel's word, and no word is a no."""

import asyncio
import os
import shutil
import socket
import subprocess

import pytest

from byleave.net import peers
from byleave.net.peers import PeerAddress, SocketOwner, address_of, is_ours, listed_owner, owner_of
from fakes.mcp_front import run, scene

other_user = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root can act as another user, with setpriv"
)
REQUEST = (
    "POST /mcp HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nContent-Type: application/json\\r\\n"
    'Content-Length: 46\\r\\n\\r\\n{{"jsonrpc":"2.0","id":1,"method":"initialize"}}'
)


def as_nobody(script: str) -> bytes:
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "bash", "-c", script]
    return subprocess.run(argv, capture_output=True, check=False, timeout=20).stdout


def pair(family: int, host: str, to: str) -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a connection: the client's, and ours."""
    with socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as listening:
        client = socket.socket(family)
        client.connect((to, listening.getsockname()[1]))
        return client, listening.accept()[0]


WAYS = {
    "IPv4": (socket.AF_INET, "127.0.0.1", "127.0.0.1"),
    "IPv6": (socket.AF_INET6, "::1", "::1"),
    "IPv4 by a socket of IPv6": (socket.AF_INET6, "127.0.0.1", "::ffff:127.0.0.1"),
}


@pytest.mark.parametrize("way", WAYS)
def test_our_own_connection_is_ours_by_both_ways_of_asking(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client, ours = pair(*WAYS[way])
    with client, ours:
        here, there = address_of(ours.getpeername()), address_of(ours.getsockname())
        expected = SocketOwner(os.geteuid(), os.fstat(client.fileno()).st_ino)
        assert owner_of(here, there) == expected
        monkeypatch.setattr(peers, "_by_netlink", _unable)
        assert owner_of(here, there) == expected
        assert is_ours(here, there)


def _unable(_here: PeerAddress, _there: PeerAddress) -> SocketOwner:
    raise PermissionError(1, "not here")


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_a_socket_that_nobody_holds_any_more_is_nobodys_though_the_kernel_says_root(family: str) -> None:
    client, ours = pair(*WAYS[family])
    with ours:
        client.close()
        here, there = address_of(ours.getpeername()), address_of(ours.getsockname())
        owner = owner_of(here, there)
        assert owner is None or owner.inode == 0
        assert not is_ours(here, there)


def test_whoever_cannot_be_found_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = PeerAddress("127.0.0.1", 1), PeerAddress("127.0.0.1", 2)
    assert owner_of(here, there) is None
    monkeypatch.setattr(peers, "_by_netlink", _unable)
    monkeypatch.setattr(peers, "_listing", lambda: iter(()))
    assert not is_ours(here, there)


def test_another_machine_is_never_ours() -> None:
    assert not is_ours(PeerAddress("192.0.2.1", 1), PeerAddress("192.0.2.2", 2))


def test_a_socket_that_listens_at_the_same_port_is_not_the_clients() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = address_of(listening.getsockname())
        assert owner_of(here, PeerAddress("127.0.0.1", 9)) is None


def test_a_listing_is_read_as_the_kernel_writes_it() -> None:
    lines = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     7        0 1 1 0",
        "   1: 0100007F:1F90 0100007F:0050 01 00000000:00000000 00:00000000 00000000  1000        0 4242 1 0",
    ]
    here, there = PeerAddress("127.0.0.1", 8080), PeerAddress("127.0.0.1", 80)
    assert listed_owner(here, there, lines) == SocketOwner(1000, 4242)
    assert listed_owner(there, here, lines) is None


@other_user
def test_another_user_of_the_machine_is_turned_away() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            script = (
                f"exec 3<>/dev/tcp/127.0.0.1/{opened.port}; printf '{REQUEST.format(port=opened.port)}' >&3; cat <&3"
            )
            assert (await asyncio.to_thread(as_nobody, script)).startswith(b"HTTP/1.1 403 ")
            assert opened.gateway.talks == []

    run(scenario)


@other_user
def test_another_user_who_sends_and_closes_at_once_does_not_pass_for_root() -> None:
    async def scenario() -> None:
        async with scene() as opened:
            # The loop stands still meanwhile: when it accepts the connection, nobody is left at the other end.
            as_nobody(f"printf '{REQUEST.format(port=opened.port)}' >/dev/tcp/127.0.0.1/{opened.port}")
            client = await opened.client()
            assert (await client.ask("GET", "/health")).status == 200
            assert opened.gateway.talks == []

    run(scenario)


@other_user
def test_another_user_without_a_token_is_refused_where_others_have_one() -> None:
    async def scenario() -> None:
        async with scene(tokens={"a": ("sha256:" + "0" * 64,)}) as opened:
            script = f"exec 3<>/dev/tcp/127.0.0.1/{opened.port}; printf '{REQUEST.format(port=opened.port)}' >&3; "
            heard = await asyncio.to_thread(as_nobody, script + "head -n 1 <&3")
            assert heard.startswith(b"HTTP/1.1 401 ")
            assert opened.gateway.talks == []

    run(scenario)
