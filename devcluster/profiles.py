"""The node profiles of `dra_operator.profiles`, which offline simulations use as well, under the name they have here."""

from dra_operator.profiles import (
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
