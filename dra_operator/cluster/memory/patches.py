"""The patch formats of the API: JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch.

Strategic merge follows the Kubernetes documentation ("Update API Objects in Place Using kubectl patch") for the list fields used
here; a list that is not in `MERGE_KEYS` is replaced whole, as the API does with atomic lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dra_operator.cluster.memory.refusals import Refused, bad_request
from dra_operator.cluster.memory.values import Object, clone

#: Lists of objects that merge, by field name, with their merge key.
MERGE_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "schedulingGates": "name",
        "containers": "name",
        "initContainers": "name",
        "ephemeralContainers": "name",
        "volumes": "name",
        "volumeMounts": "mountPath",
        "env": "name",
        "ports": "containerPort",
        "imagePullSecrets": "name",
        "hostAliases": "ip",
        "conditions": "type",
        "addresses": "type",
        "ownerReferences": "uid",
        "resourceClaims": "name",
        "resourceClaimStatuses": "name",
        "reservedFor": "uid",
        "containerStatuses": "name",
    }
)
#: Lists of scalars that merge as sets.
MERGE_SETS = frozenset({"finalizers"})


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return clone(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def strategic_patch(target: Object, patch: Object) -> Object:
    """Raises Refused (400, 422) for a directive that cannot be followed."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: clone(value) for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unable to parse the patch: unknown $patch directive {directive!r}")
    result = dict(target)
    for name, value in patch.items():
        if name.startswith("$deleteFromPrimitiveList/"):
            field = name.partition("/")[2]
            result[field] = [item for item in result.get(field) or () if item not in value]
        elif name == "$retainKeys":
            result = {field: item for field, item in result.items() if field in value}
        elif name.startswith("$"):
            continue  # $setElementOrder only orders what merges anyway
        elif value is None:
            result.pop(name, None)
        else:
            result[name] = _strategic(name, result.get(name), value)
    return result


def _strategic(name: str, current: Any, value: Any) -> Any:
    if isinstance(value, dict):
        return strategic_patch(current if isinstance(current, dict) else {}, value)
    if isinstance(value, list):
        if name in MERGE_SETS:
            present = list(current or ())
            return present + [item for item in value if item not in present]
        if name in MERGE_KEYS and all(isinstance(item, dict) for item in value):
            return _merge_list(name, MERGE_KEYS[name], current or [], value)
    return clone(value)


def _merge_list(field: str, key: str, current: list[Any], patch: list[Any]) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [clone(item) for item in patch if "$patch" not in item]
    result = list(current)
    for item in patch:
        if key not in item:
            raise Refused(
                400, "BadRequest", f"map: {item} does not contain declared merge key: {key} (in list {field})"
            )
        places = [index for index, entry in enumerate(result) if entry.get(key) == item[key]]
        if item.get("$patch") == "delete":
            for index in reversed(places):
                del result[index]
        elif places:
            result[places[0]] = strategic_patch(result[places[0]], item)
        else:
            result.append(strategic_patch({}, item))
    return result


def json_patch(target: Object, operations: Any) -> Object:
    """RFC 6902. Raises Refused: 400 for what is no patch, 422 for an operation that cannot be carried out."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    document: Any = clone(target)
    for operation in operations:
        document = _operate(document, operation)
    if not isinstance(document, dict):
        raise _unable("the result is not an object")
    return document


def _operate(document: Any, operation: Any) -> Any:
    if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
        raise bad_request("error decoding patch: an operation needs op and path")
    path = _pointer(operation["path"])
    match operation.get("op"):
        case "add":
            return _add(document, path, clone(operation.get("value")))
        case "remove":
            return _remove(document, path)[0]
        case "replace":
            if not path:
                return clone(operation.get("value"))
            _get(document, path)
            return _set(document, path, clone(operation.get("value")))
        case "test":
            if _get(document, path) != operation.get("value"):
                raise _unable(f"testing value {operation['path']} failed")
            return document
        case "move":
            document, value = _remove(document, _pointer(operation["from"]))
            return _add(document, path, value)
        case "copy":
            return _add(document, path, clone(_get(document, _pointer(operation["from"]))))
        case other:
            raise bad_request(f"error decoding patch: unknown operation {other!r}")


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _unable(why: str) -> Refused:
    return Refused(422, "Invalid", f"the server rejected our request due to an error in our request ({why})")


def _step(holder: Any, part: str) -> Any:
    try:
        return holder[int(part)] if isinstance(holder, list) else holder[part]
    except (KeyError, IndexError, ValueError, TypeError):
        raise _unable(f"there is nothing at {part!r}") from None


def _get(document: Any, path: list[str]) -> Any:
    for part in path:
        document = _step(document, part)
    return document


def _set(document: Any, path: list[str], value: Any) -> Any:
    holder = _get(document, path[:-1])
    if isinstance(holder, list):
        holder[int(path[-1])] = value
    else:
        holder[path[-1]] = value
    return document


def _add(document: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    holder = _get(document, path[:-1])
    if isinstance(holder, list):
        position = len(holder) if path[-1] == "-" else _index(path[-1], len(holder))
        holder.insert(position, value)
    elif isinstance(holder, dict):
        holder[path[-1]] = value
    else:
        raise _unable(f"cannot add below {path[:-1]}")
    return document


def _remove(document: Any, path: list[str]) -> tuple[Any, Any]:
    value = _get(document, path)
    holder = _get(document, path[:-1])
    if isinstance(holder, list):
        del holder[int(path[-1])]
    else:
        del holder[path[-1]]
    return document, value


def _index(part: str, most: int) -> int:
    if not part.isdigit() or int(part) > most:
        raise _unable(f"index {part!r} is out of range")
    return int(part)
