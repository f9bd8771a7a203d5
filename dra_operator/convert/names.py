"""Names that the v1 API accepts, made from names that it does not: the same name always becomes the same name."""

from __future__ import annotations

import hashlib
import re

#: Attributes and capacities: C identifiers of at most 32 characters.
MAX_IDENTIFIER = 32
MAX_LABEL = 63
MAX_SUBDOMAIN = 253

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_identifier(text: str) -> bool:
    return len(text) <= MAX_IDENTIFIER and _IDENTIFIER.fullmatch(text) is not None


def is_label(text: str) -> bool:
    return len(text) <= MAX_LABEL and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str, most: int = MAX_SUBDOMAIN) -> bool:
    return len(text) <= most and _SUBDOMAIN.fullmatch(text) is not None


def identifier(key: str) -> str:
    """`memory-gb` → `memory_gb`. Too long a name is cut and gets a hash of the whole."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", key) or "_"
    if name[0].isdigit():
        name = f"_{name}"
    return _shortened(name, key, MAX_IDENTIFIER, "_")


def label(text: str) -> str:
    """A DNS label: `GPU_0` → `gpu-0`."""
    name = re.sub(r"[^a-z0-9-]", "-", text.lower()).strip("-") or "x"
    return _shortened(name, text, MAX_LABEL, "-")


def joined(*parts: str) -> str:
    """Parts of names as one name of an object that can be a DNS label."""
    name = "-".join(parts)
    return name if is_label(name) else label(name)


def _shortened(name: str, whole: str, most: int, dash: str) -> str:
    if len(name) <= most:
        return name
    digest = hashlib.sha256(whole.encode()).hexdigest()[:6]
    return f"{name[: most - 7].rstrip(dash)}{dash}{digest}"
