"""Machines as they are sold, for simulations and development clusters: the Nodes and ResourceSlices they would have."""

from dra_operator.profiles.expansion import (
    FOLDER,
    PROFILE_LABEL,
    ProfileError,
    describe,
    device_classes,
    expand,
    names,
    parse_mix,
    partition,
    ready_condition,
)

__all__ = [
    "FOLDER",
    "PROFILE_LABEL",
    "ProfileError",
    "describe",
    "device_classes",
    "expand",
    "names",
    "parse_mix",
    "partition",
    "ready_condition",
]
