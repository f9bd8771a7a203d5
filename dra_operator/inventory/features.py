"""Which allocation features are on, under the names of the in-tree allocator (`structured.Features`).

They decide what a slice means (a pool whose devices need a feature that is off is not usable), hence they belong to an inventory
and not to one problem. Feature gates of the operator itself are not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Features:
    """The defaults are those of Kubernetes 1.37 (its `incubating` allocator)."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    device_binding_and_status: bool = True
    consumable_capacity: bool = True
    fractional_capacity_range: bool = True
    list_type_attributes: bool = False
    compatibility_groups: bool = False
    derived_attributes: bool = False
    optional_node_operations: bool = False

    @classmethod
    def named(cls, names: Iterable[str] | Mapping[str, bool] | None) -> Features:
        """From a list of the features that are on (all others are off), or a map of exceptions to the defaults.

        Raises ValueError for a name that is no feature.
        """
        if names is None:
            return DEFAULT_1_37
        chosen = dict(names) if isinstance(names, Mapping) else dict.fromkeys(names, True)
        known = {_api_name(item.name): item.name for item in fields(cls)}
        unknown = sorted(set(chosen) - set(known))
        if unknown:
            raise ValueError(f"unknown feature {unknown[0]!r}; use one of {', '.join(sorted(known))}")
        if isinstance(names, Mapping):
            state = {item.name: getattr(DEFAULT_1_37, item.name) for item in fields(cls)}
        else:
            state = {item.name: False for item in fields(cls)}
        state.update({known[name]: bool(on) for name, on in chosen.items()})
        return cls(**state)


def _api_name(field_name: str) -> str:
    return "".join(part.capitalize() for part in field_name.split("_"))


DEFAULT_1_37 = Features()
