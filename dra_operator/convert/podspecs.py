"""Pods and what makes pods: claims named through `source`, and claim templates written into the pod itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dra_operator.api.fieldpath import FieldPath
from dra_operator.convert.dialect import VERSION, claim_spec, is_claim_spec
from dra_operator.convert.names import is_label, joined
from dra_operator.convert.plan import Notes, Plan
from dra_operator.convert.remarks import Untranslatable
from dra_operator.convert.values import Object, changed, dig, items, mapping, only, replaced, text
from dra_operator.convert.versions import claim_devices

_INLINE = "resourceClaimTemplates"
_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")
_POD_FIELDS = frozenset({"containers", "resourceClaims", _INLINE})
#: Groups whose objects hold no pods.
_WITHOUT_PODS = frozenset({"resource.k8s.io", "apiextensions.k8s.io", "rbac.authorization.k8s.io"})


def pod_specs(value: Object) -> Iterator[tuple[FieldPath, Object]]:
    """The pod specs in an object: a Pod's own, or those of pod templates, wherever a workload keeps them."""
    group = str(value.get("apiVersion")).rpartition("/")[0]
    if group in _WITHOUT_PODS:
        return
    if value.get("kind") == "Pod" and group == "":
        if isinstance(value.get("spec"), Mapping):
            yield ("spec",), value["spec"]
        return
    yield from _templates(value, ())


def _templates(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Object]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            spec = dig(item, "spec") if name == "template" else None
            if isinstance(spec, Mapping) and spec.keys() & _POD_FIELDS:
                yield (*path, name, "spec"), spec
            else:
                yield from _templates(item, (*path, str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _templates(item, (*path, index))


def owner_name(value: Object) -> str:
    """The name after which an object's claim templates are called."""
    name = dig(value, "metadata", "name") or dig(value, "metadata", "generateName")
    return text(name, ("metadata", "name"), "the object's name").rstrip("-")


def template(value: Object, name: str, spec: Object, metadata: Object | None = None) -> dict[str, Any]:
    """A ResourceClaimTemplate in the namespace of `value`; `metadata` is for the claims made from it."""
    namespace = dig(value, "metadata", "namespace")
    own = {"name": name, "namespace": namespace} if namespace else {"name": name}
    inner = {"metadata": metadata, "spec": spec} if metadata else {"spec": spec}
    return {"apiVersion": VERSION, "kind": "ResourceClaimTemplate", "metadata": own, "spec": inner}


def template_name(value: Object, path: FieldPath, claim: str, plan: Plan) -> str:
    """A free name for the template of a pod's claim: the same whenever it is asked for."""
    namespace = dig(value, "metadata", "namespace") or ""
    owner = owner_name(value)
    purpose = (str(value.get("kind")), namespace, owner, *map(str, path), claim)
    candidates = (joined(owner, claim, *suffix) for suffix in [(), *((str(number),) for number in range(2, 1000))])
    return plan.name_template(purpose, namespace, candidates)


def convert_pods(value: Object, plan: Plan, notes: Notes) -> tuple[Object, list[Object]]:
    """The object with v1 claims in its pods, and the claim templates that this takes. Raises Untranslatable."""
    made: list[Object] = []
    for path, spec in list(pod_specs(value)):
        converted = _pod(value, spec, path, plan, made)
        if converted is not spec:
            value = replaced(value, path, converted)
    return value, made


def _pod(value: Object, spec: Object, path: FieldPath, plan: Plan, made: list[Object]) -> Object:
    claims = items(spec.get("resourceClaims"), (*path, "resourceClaims"))
    inline = items(spec.get(_INLINE), (*path, _INLINE))
    renamed: dict[str, str] = {}
    for index, item in enumerate(inline):
        where = (*path, _INLINE, index)
        name = _inline_name(mapping(item, where), where)
        if name in renamed:
            raise Untranslatable(where, f"there are two templates {name!r}; give each its own name")
        renamed[name] = template_name(value, path, name, plan)
        made.append(template(value, renamed[name], _inline_spec(item, where), _inline_metadata(item, where)))
    used: set[str] = set()
    entries: list[Any] = []
    for index, entry in enumerate(claims):
        where = (*path, "resourceClaims", index)
        flat = _flat(mapping(entry, where), where)
        if is_claim_spec(flat):
            name = text(flat.get("name"), (*where, "name"), "the claim's name")
            rest = {field: item for field, item in flat.items() if field != "name"}
            full = template_name(value, path, name, plan)
            made.append(template(value, full, claim_spec(rest, where)))
            flat = {"name": flat["name"], "resourceClaimTemplateName": full}
        reference = flat.get("resourceClaimTemplateName")
        if isinstance(reference, str) and reference in renamed:
            used.add(reference)
            flat = {**flat, "resourceClaimTemplateName": renamed[reference]}
        entries.append(flat)
    for name, full in renamed.items():
        if name not in used:
            if any(entry.get("name") == name for entry in entries):
                raise Untranslatable(
                    (*path, _INLINE), f"the pod has a claim {name!r} besides the template of that name; rename one"
                )
            entries.append({"name": name, "resourceClaimTemplateName": full})
    if not inline and all(new is old for new, old in zip(entries, claims, strict=True)):
        return spec
    return changed(_in_place(spec, entries), **{_INLINE: None})


def _in_place(spec: Object, entries: list[Any]) -> dict[str, Any]:
    """The spec with its claims, which take the place of the inline templates where it had none."""
    if "resourceClaims" in spec:
        return {**spec, "resourceClaims": entries}
    result: dict[str, Any] = {}
    for name, item in spec.items():
        if name == _INLINE:
            result["resourceClaims"] = entries
        result[name] = item
    return result


def _flat(entry: Object, path: FieldPath) -> Object:
    if "source" not in entry:
        return entry
    only(entry, path, "name", "source")
    source = mapping(entry["source"], (*path, "source"))
    only(source, (*path, "source"), *_REFERENCES)
    given = {name: source[name] for name in _REFERENCES if source.get(name)}
    if len(given) != 1:
        raise Untranslatable(
            (*path, "source"), f"a pod's claim has one of {' and '.join(_REFERENCES)}, here are {len(given)}"
        )
    return {"name": entry.get("name"), **given}


def _inline_name(item: Object, path: FieldPath) -> str:
    name = dig(item, "metadata", "name") or item.get("name")
    found = text(name, (*path, "metadata", "name"), "the template's name")
    if not is_label(found):
        raise Untranslatable(
            (*path, "metadata", "name"), f"{found!r} is no name of a pod's claim; use lower case letters, digits and -"
        )
    return found


def _inline_metadata(item: Object, path: FieldPath) -> Object | None:
    metadata = mapping(item.get("metadata"), (*path, "metadata"))
    only(metadata, (*path, "metadata"), "name", "labels", "annotations")
    return {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)} or None


def _inline_spec(item: Object, path: FieldPath) -> Object:
    only(item, path, "name", "metadata", "spec")
    where = (*path, "spec")
    spec = mapping(item.get("spec"), where)
    if isinstance(spec.get("spec"), Mapping):
        spec, where = spec["spec"], (*where, "spec")
    if is_claim_spec(spec):
        return claim_spec(spec, where)
    if "devices" not in spec:
        raise Untranslatable(where, "the template asks for nothing; name a class with resourceClassName")
    return claim_devices(spec, where)
