"""Names, labels, finalizers: the checks that every kind shares (apimachinery `validation`)."""

from __future__ import annotations

import re

from dra_operator.cluster.memory.refusals import Cause, forbidden_field, invalid, required, too_long
from dra_operator.cluster.memory.values import Object
from dra_operator.cluster.rest import Resource

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_ANNOTATIONS_LIMIT = 256 * 1024


def dns_label(field: str, value: object) -> list[Cause]:
    text = str(value or "")
    if not text:
        return [required(field)]
    if len(text) > 63:
        return [invalid(field, text, "must be no more than 63 characters")]
    return [] if _LABEL.fullmatch(text) else [invalid(field, text, _LABEL_RULE)]


def dns_subdomain(field: str, value: object, most: int = 253) -> list[Cause]:
    text = str(value or "")
    if not text:
        return [required(field)]
    if len(text) > most:
        return [invalid(field, text, f"must be no more than {most} characters")]
    return [] if _SUBDOMAIN.fullmatch(text) else [invalid(field, text, _SUBDOMAIN_RULE)]


def qualified_name(field: str, value: object) -> list[Cause]:
    """A label or annotation key, a finalizer: `[prefix/]name`."""
    text = str(value or "")
    prefix, slash, name = text.rpartition("/")
    if slash and (not prefix or not _SUBDOMAIN.fullmatch(prefix.lower())):
        return [invalid(field, text, f"prefix part {_SUBDOMAIN_RULE}")]
    if not name or len(name) > 63 or not _QUALIFIED.fullmatch(name):
        return [
            invalid(
                field,
                text,
                f"name part must consist of {_QUALIFIED_RULE}",
            )
        ]
    return []


def device_attribute_name(field: str, value: object, *, domain_required: bool) -> list[Cause]:
    """QualifiedName of resource.k8s.io: `[domain/]C identifier`, at most 63 and 32 characters."""
    text = str(value or "")
    if not text:
        return [required(field)]
    domain, slash, name = text.rpartition("/")
    causes: list[Cause] = []
    if not slash and domain_required:
        causes.append(invalid(field, text, "must include a domain"))
    if slash:
        causes += dns_subdomain(field, domain, 63)
    if len(name) > 32:
        causes.append(too_long(field, 32))
    elif not _C_IDENTIFIER.fullmatch(name):
        causes.append(
            invalid(
                field,
                name,
                "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
            )
        )
    return causes


#: Kinds whose names must be DNS labels; all others here take subdomains.
_LABEL_NAMED = frozenset({"Namespace"})


def created(item: Object, resource: Resource) -> list[Cause]:
    """Checks of ObjectMeta on creation."""
    meta = item["metadata"]
    name = meta.get("name")
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    check = dns_label if resource.kind in _LABEL_NAMED else dns_subdomain
    return check("metadata.name", name) + _maps(item)


def updated(new: Object, old: Object) -> list[Cause]:
    """Checks of ObjectMeta on update, beyond what the server copies over from the stored object."""
    causes = _maps(new)
    if old["metadata"].get("deletionTimestamp"):
        added = [
            finalizer
            for finalizer in new["metadata"].get("finalizers") or ()
            if finalizer not in (old["metadata"].get("finalizers") or ())
        ]
        if added:
            causes.append(
                forbidden_field(
                    "metadata.finalizers",
                    "no new finalizers can be added if the object is being deleted, "
                    f"found new finalizers []string{{{', '.join(repr(finalizer) for finalizer in added)}}}",
                )
            )
    return causes


def _maps(item: Object) -> list[Cause]:
    meta = item["metadata"]
    causes: list[Cause] = []
    for key, value in (meta.get("labels") or {}).items():
        causes += qualified_name("metadata.labels", key)
        if not isinstance(value, str) or len(value) > 63 or (value and not _QUALIFIED.fullmatch(value)):
            causes.append(
                invalid(
                    "metadata.labels",
                    value,
                    f"a valid label must be an empty string or consist of {_QUALIFIED_RULE}",
                )
            )
    annotations = meta.get("annotations") or {}
    for key in annotations:
        causes += qualified_name("metadata.annotations", key.lower())
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        causes.append(too_long("metadata.annotations", _ANNOTATIONS_LIMIT))
    for index, finalizer in enumerate(meta.get("finalizers") or ()):
        field = f"metadata.finalizers[{index}]"
        causes += qualified_name(field, finalizer)
        if "/" not in str(finalizer) and finalizer not in ("kubernetes", "orphan", "foregroundDeletion"):
            causes.append(
                invalid(
                    field,
                    finalizer,
                    "name is neither a standard finalizer name nor is it fully qualified",
                )
            )
    controllers = [owner for owner in meta.get("ownerReferences") or () if owner.get("controller")]
    if len(controllers) > 1:
        causes.append(
            invalid("metadata.ownerReferences", len(controllers), "Only one reference can have Controller set to true")
        )
    for index, owner in enumerate(meta.get("ownerReferences") or ()):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                causes.append(invalid(f"metadata.ownerReferences[{index}].{field}", "", f"{field} must not be empty"))
    return causes
