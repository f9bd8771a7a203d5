"""IP addresses and networks: `ip`, `cidr` and their methods.

Texts are read as Go's net/netip reads them: no leading zeros, no zones, no IPv4-mapped IPv6.
Source: k8s.io/apiserver `pkg/cel/library/ip`, `cidr`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.values import register

__all__ = ["Cidr", "Ip", "declare"]

_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Ip:
    """An address."""

    address: IPv4Address | IPv6Address

    def __str__(self) -> str:
        return str(self.address)

    @property
    def size(self) -> int:
        """The length in bytes, for the cost of comparing."""
        return self.address.max_prefixlen // 8


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network as written, host bits included."""

    address: IPv4Address | IPv6Address
    bits: int

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"

    @property
    def size(self) -> int:
        """The length of the prefix in bytes, for the cost of comparing."""
        return (self.bits + 7) // 8

    def has(self, address: IPv4Address | IPv6Address, bits: int) -> bool:
        """Whether an address agrees with this one in its first `bits` bits."""
        if address.version != self.address.version:
            return False
        shift = address.max_prefixlen - bits
        return int(address) >> shift == int(self.address) >> shift


register(Ip, "net.IP")
register(Cidr, "net.CIDR")


def declare(functions: Registry) -> None:
    """Add the address and network functions."""
    plain, member = functions.plain, functions.member
    plain("ip", "string_to_ip", "string -> net.IP", parse_ip)
    plain("ip.isCanonical", "ip_is_canonical", "string -> bool", lambda text: str(parse_ip(text)) == text)
    plain("isIP", "is_ip", "string -> bool", lambda text: _parses(parse_ip, text))
    member("family", "ip_family", "net.IP -> int", lambda ip: ip.address.version)
    member("isUnspecified", "ip_is_unspecified", "net.IP -> bool", lambda ip: ip.address.is_unspecified)
    member("isLoopback", "ip_is_loopback", "net.IP -> bool", lambda ip: ip.address.is_loopback)
    member("isLinkLocalMulticast", "ip_is_link_local_multicast", "net.IP -> bool", _is_link_local_multicast)
    member("isLinkLocalUnicast", "ip_is_link_local_unicast", "net.IP -> bool", lambda ip: ip.address.is_link_local)
    member("isGlobalUnicast", "ip_is_global_unicast", "net.IP -> bool", _is_global_unicast)
    plain("string", "ip_to_string", "net.IP -> string", str)
    plain("cidr", "string_to_cidr", "string -> net.CIDR", parse_cidr)
    plain("isCIDR", "is_cidr", "string -> bool", lambda text: _parses(parse_cidr, text))
    member("containsIP", "cidr_contains_ip_string", "net.CIDR, string -> bool", _contains_ip)
    member("containsIP", "cidr_contains_ip_ip", "net.CIDR, net.IP -> bool", _contains_ip)
    member("containsCIDR", "cidr_contains_cidr_string", "net.CIDR, string -> bool", _contains_cidr)
    member("containsCIDR", "cidr_contains_cidr", "net.CIDR, net.CIDR -> bool", _contains_cidr)
    member("ip", "cidr_ip", "net.CIDR -> net.IP", lambda cidr: Ip(cidr.address))
    member("prefixLength", "cidr_prefix_length", "net.CIDR -> int", lambda cidr: cidr.bits)
    member("masked", "cidr_masked", "net.CIDR -> net.CIDR", _masked)
    plain("string", "cidr_to_string", "net.CIDR -> string", str)


def parse_ip(text: str) -> Ip:
    """An address from its text. Raises EvaluationError."""
    if "%" in text:
        raise EvaluationError(f'IP address "{text}" with zone value is not allowed')
    return Ip(_address(text, f'IP Address "{text}" parse error during conversion from string: unable to parse IP'))


def parse_cidr(text: str) -> Cidr:
    """A network from its text. Raises EvaluationError."""
    problem = f'network address parse error during conversion from string: netip.ParsePrefix("{text}")'
    address_text, slash, bits = text.rpartition("/")
    if not slash or "%" in text or not _BITS.fullmatch(bits):
        raise EvaluationError(problem)
    address = _address(address_text, problem)
    if int(bits) > address.max_prefixlen:
        raise EvaluationError(f"{problem}: prefix length out of range")
    return Cidr(address, int(bits))


def _address(text: str, problem: str) -> IPv4Address | IPv6Address:
    try:
        address = ip_address(text) if text.isascii() else None
    except ValueError:
        address = None
    if address is None:
        raise EvaluationError(problem)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise EvaluationError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return address


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


def _is_link_local_multicast(ip: Ip) -> bool:
    number = int(ip.address)
    if ip.address.version == 4:
        return number >> 8 == 0xE00000
    return number >> 120 == 0xFF and number >> 112 & 0x0F == 2


def _is_global_unicast(ip: Ip) -> bool:
    address = ip.address
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and address != IPv4Address(0xFFFFFFFF)


def _contains_ip(cidr: Cidr, other: Any) -> bool:
    address = parse_ip(other) if isinstance(other, str) else other
    return cidr.has(address.address, cidr.bits)


def _contains_cidr(cidr: Cidr, other: Any) -> bool:
    inner = parse_cidr(other) if isinstance(other, str) else other
    return cidr.bits <= inner.bits and cidr.has(inner.address, cidr.bits)


def _masked(cidr: Cidr) -> Cidr:
    shift = cidr.address.max_prefixlen - cidr.bits
    return Cidr(type(cidr.address)(int(cidr.address) >> shift << shift), cidr.bits)
