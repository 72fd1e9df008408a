"""Whose program is at the other end of a connection on this machine?

The kernel knows the owner of every socket. It is asked for the client's socket by its two addresses and ports: through
netlink, or in `/proc/net/tcp` where netlink cannot be used. A socket that no process holds any more has no owner, but
the kernel reports "root" for it: a client that sends a request and closes at once must not pass for root. A socket
without an owner is not ours.

Start at `is_ours`. Under which name a peer is counted: `group_of`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

ROOT = 0
HERE = "this machine"
_NETWORK_BITS = 64  # of an address of IPv6, those that name a network (RFC 4291)

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_REQUEST = 1
_ANY_STATE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_SOCKET = struct.Struct("!HH16s16s")  # the four numbers in struct inet_diag_sockid; an interface and a cookie follow
_ANY_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_QUERY = struct.Struct("=BBBxI")  # the beginning of struct inet_diag_req_v2
_OWNER = struct.Struct("=II")
_SOCKET_AT, _OWNER_AT = 20, 80  # in an answer, header included
_ANSWER_BYTES = 88


class PeerAddress(msgspec.Struct, frozen=True):
    """An address and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        return ip_address(self.host).is_loopback


class SocketOwner(msgspec.Struct, frozen=True):
    """Who holds a socket: a user, by number. `inode` is 0 if no process holds it any more."""

    uid: int
    inode: int


def address_of(name: Any) -> PeerAddress:
    """Return the address in the name of a socket, an IPv4 one in its own form."""
    found = ip_address(str(name[0]).partition("%")[0])
    mapped = getattr(found, "ipv4_mapped", None)
    return PeerAddress(str(mapped or found), int(name[1]))


def is_ours(peer: PeerAddress, local: PeerAddress) -> bool:
    """Whether a connection comes from a program of our own user, or of root, on this machine."""
    return peer.is_loopback and is_our_user(owner_of(peer, local))


def is_our_user(owner: SocketOwner | None) -> bool:
    """Whether a socket is held, by our own user or by root."""
    return owner is not None and owner.inode != 0 and owner.uid in (os.geteuid(), ROOT)


def group_of(peer: PeerAddress, owner: SocketOwner | None) -> str:
    """Return by which name a peer is counted and recorded: its address, or on this machine its user.

    Every program here has all addresses of loopback, and who has an address of IPv6 has a whole network of them.
    """
    if peer.is_loopback:
        return f"{HERE} (user {owner.uid})" if owner is not None and owner.inode else HERE
    found = ip_address(peer.host)
    return peer.host if found.version == 4 else str(ip_network((found, _NETWORK_BITS), strict=False))


def owner_of(here: PeerAddress, there: PeerAddress) -> SocketOwner | None:
    """Return who holds the socket that is bound `here` and leads `there`; None if that is not known."""
    try:
        return _by_netlink(here, there)
    except OSError as problem:
        if problem.errno == errno.ENOENT:
            return None
    try:
        return listed_owner(here, there, _listing())
    except OSError:
        return None


def _by_netlink(here: PeerAddress, there: PeerAddress) -> SocketOwner | None:
    family = socket.AF_INET6 if ":" in here.host else socket.AF_INET
    numbers = tuple([_SOCKET.pack(here.port, there.port, pad(here), pad(there)) for pad in (_padded, _widened)])
    question = _QUERY.pack(family, socket.IPPROTO_TCP, 0, _ANY_STATE) + numbers[0] + _ANY_COOKIE
    length = _HEADER.size + len(question)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
        kernel.sendto(_HEADER.pack(length, _SOCK_DIAG_BY_FAMILY, _REQUEST, 1, 0) + question, (0, 0))
        answer = kernel.recv(1 << 12, socket.MSG_DONTWAIT)
    return _owner_in(answer, numbers)


def _owner_in(answer: bytes, numbers: tuple[bytes, ...]) -> SocketOwner | None:
    """Return the owner in the kernel's answer; for a socket that only listens at the same port there is none."""
    _length, kind, *_others = _HEADER.unpack_from(answer)
    if kind != _SOCK_DIAG_BY_FAMILY:
        raise OSError(-struct.unpack_from("=i", answer, _HEADER.size)[0], "the kernel does not know the socket")
    if len(answer) < _ANSWER_BYTES or answer[_SOCKET_AT : _SOCKET_AT + _SOCKET.size] not in numbers:
        return None
    return SocketOwner(*_OWNER.unpack_from(answer, _OWNER_AT))


def _padded(address: PeerAddress) -> bytes:
    return ip_address(address.host).packed.ljust(16, b"\0")


def _widened(address: PeerAddress) -> bytes:
    """Return an address as a socket of IPv6 has it, which may lead to one of IPv4."""
    packed = ip_address(address.host).packed
    return packed if len(packed) == 16 else b"\0" * 10 + b"\xff\xff" + packed


def _listing() -> Iterator[str]:
    for name in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{name}", encoding="ascii") as lines:
                yield from lines
        except FileNotFoundError:
            continue


def listed_owner(here: PeerAddress, there: PeerAddress, lines: Iterable[str]) -> SocketOwner | None:
    """Return the owner by the lines of `/proc/net/tcp` and `tcp6`."""
    pairs = {(_hexadecimal(form(here), here), _hexadecimal(form(there), there)) for form in (_narrow, _widened)}
    for line in lines:
        words = line.split()
        if len(words) > 9 and (words[1], words[2]) in pairs:
            return SocketOwner(int(words[7]), int(words[9]))
    return None


def _narrow(address: PeerAddress) -> bytes:
    return ip_address(address.host).packed


def _hexadecimal(packed: bytes, address: PeerAddress) -> str:
    """Return an address as the kernel lists it: as numbers of this machine."""
    numbers = struct.unpack(f"={len(packed) // 4}I", packed)
    return "".join([f"{number:08X}" for number in numbers]) + f":{address.port:04X}"
