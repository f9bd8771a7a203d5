"""What the plain words of a NetworkDeviceClass mean for the drivers: compiled into the spec of a DeviceClass. Pure.

Every term says for which drivers it speaks, so that none fails on a device of another one. Known drivers: DRANET (`dra.net`) and the
SR-IOV network operator's; of any other that `spec.driver` names, the words are taken as the names of its attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dra_operator.api.networkclass import NetworkDeviceClassSpec
from dra_operator.cel import CompileError, cached_selector

DRANET = "dra.net"
SRIOV = "sriovnetwork.k8snetworkplumbingwg.io"
#: What `kubectl-dra convert` names the devices of the older string dialect.
LEGACY = "legacy.dra-operator.dev"

#: Selectors in a DeviceClass (DeviceSelectorsMaxSize).
_MOST_SELECTORS = 32
_DRIVER_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


class InvalidNetworkClass(Exception):
    """The spec cannot be compiled; the text names the field and the repair."""


@dataclass(frozen=True, slots=True)
class Term:
    """One selector. `word` is the field of the NetworkDeviceClass it comes from."""

    word: str
    expression: str


@dataclass(frozen=True, slots=True)
class _Driver:
    """The terms of one driver: `rdma` and `low_latency` are true of a device that has it, `bandwidth(gbps)` of one with at least that."""

    name: str
    rdma: str
    low_latency: str
    bandwidth: Callable[[int], str]


def _attribute(driver: str, name: str, otherwise: str) -> str:
    return f'device.attributes["{driver}"].?{name}.orValue({otherwise})'


def _capacity(driver: str, name: str) -> str:
    return f'device.capacity["{driver}"].?{name}.orValue(quantity("0"))'


def _bandwidth(driver: str, attribute: str) -> Callable[[int], str]:
    """Drivers that tell a bandwidth do it as an attribute in Gbit/s or as a capacity in bit/s."""

    def term(gbps: int) -> str:
        capacity = f'{_capacity(driver, "bandwidth")}.compareTo(quantity("{gbps}G")) >= 0'
        return f"({_attribute(driver, attribute, '0')} >= {gbps} || {capacity})"

    return term


def _driver(name: str) -> _Driver:
    if name == DRANET:
        rdma, vf = _attribute(name, "rdma", "false"), _attribute(name, "isSriovVf", "false")
        low = f"({rdma} || {vf} || {_attribute(name, 'lowLatency', 'false')})"
        return _Driver(name, rdma, low, _bandwidth(name, "bandwidthGbps"))
    if name == SRIOV:
        # Its devices are virtual functions, which bypass the host's network stack.
        return _Driver(name, _attribute(name, "rdmaCapable", "false"), "true", _bandwidth(name, "bandwidthGbps"))
    spelt = ("rdma", "low_latency", "bandwidth_gbps") if name == LEGACY else ("rdma", "lowLatency", "bandwidthGbps")
    rdma, low = (_attribute(name, word, "false") for word in spelt[:2])
    return _Driver(name, rdma, low, _bandwidth(name, spelt[2]))


def drivers_of(spec: NetworkDeviceClassSpec) -> tuple[str, ...]:
    """The drivers whose devices the class is about."""
    return (spec.driver,) if spec.driver is not None else (DRANET, SRIOV)


def terms_of(spec: NetworkDeviceClassSpec) -> tuple[Term, ...]:
    """The selectors, in the order of the DeviceClass. Raises InvalidNetworkClass."""
    if spec.driver is not None and not _DRIVER_NAME.fullmatch(spec.driver):
        raise InvalidNetworkClass(f"driver: {spec.driver!r} is not a DNS name such as {DRANET}")
    drivers = [_driver(name) for name in drivers_of(spec)]
    names = ", ".join(f'"{driver.name}"' for driver in drivers)
    first = f"device.driver == {names}" if len(drivers) == 1 else f"device.driver in [{names}]"
    terms = [Term("driver", first)]
    if spec.min_bandwidth_gbps is not None:
        least = spec.min_bandwidth_gbps
        terms.append(Term("minBandwidthGbps", _guarded(drivers, lambda driver: driver.bandwidth(least))))
    for word, wanted, term in (
        ("rdma", spec.rdma, lambda driver: driver.rdma),
        ("lowLatency", spec.low_latency, lambda driver: driver.low_latency),
    ):
        if wanted is not None:
            terms.append(Term(word, _guarded(drivers, term, negated=not wanted)))
    for number, selector in enumerate(spec.selectors):
        terms.append(Term(f"selectors[{number}]", selector.cel.expression))
    for each in terms:
        try:
            cached_selector(each.expression)
        except CompileError as error:
            raise InvalidNetworkClass(f"{each.word}: the expression does not compile: {error.message}") from None
    if len(terms) > _MOST_SELECTORS:
        own = len(terms) - len(spec.selectors)
        raise InvalidNetworkClass(
            f"selectors: a DeviceClass has at most {_MOST_SELECTORS}, and {own} are needed for the other fields; join some with &&"
        )
    return tuple(terms)


def _guarded(drivers: list[_Driver], term: Callable[[_Driver], str], *, negated: bool = False) -> str:
    """The term of each driver, asked of its own devices only."""
    if len(drivers) == 1:
        text = term(drivers[0])
        return f"!{text}" if negated else text
    sign = "!" if negated else ""
    return " || ".join(f'(device.driver == "{driver.name}" && {sign}{term(driver)})' for driver in drivers)


def class_spec(spec: NetworkDeviceClassSpec) -> dict[str, Any]:
    """`selectors` and `config` of the DeviceClass. `config` goes to the driver as it is, to DRANET if none is named.

    Raises InvalidNetworkClass.
    """
    found: dict[str, Any] = {"selectors": [{"cel": {"expression": term.expression}} for term in terms_of(spec)]}
    if spec.config is not None:
        opaque = {"driver": spec.driver or DRANET, "parameters": _plain(spec.config)}
        found["config"] = [{"opaque": opaque}]
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
