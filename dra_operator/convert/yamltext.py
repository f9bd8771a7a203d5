"""A YAML document rewritten: its objects changed, everything else, comments above all, as it was.

What an object becomes is laid over its tree: fields that are kept keep their node, with quotes and comments; comments of fields
that are gone move to what took their place. Where the text cannot be kept (anchors, tags) the values are written anew, and the
comments stand at the top.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import yaml as pyyaml  # type: ignore[import-untyped]
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from dra_operator.api.fieldpath import FieldPath
from dra_operator.convert.comments import lost
from dra_operator.convert.values import Object

__all__ = ["Part", "rewrite"]

#: An object in a document: its path, and what it becomes (asked with its tree, and with its plain value).
Part = tuple[FieldPath, Callable[[Any], Sequence[Object]]]

_LOADER = getattr(pyyaml, "CSafeLoader", pyyaml.SafeLoader)
_RESOLVER = pyyaml.SafeLoader("")
#: Words that are booleans to kubectl and plain text to newer YAML.
_YAML_1_1_WORDS = frozenset({"y", "Y", "n", "N", "="})


def rewrite(text: str, value: Any, parts: Sequence[Part]) -> list[str]:
    """The documents that one document becomes, without `---`; `value` is the document as plain values.

    Objects that become several stay together: in a List as items, else as documents, those that are new first.
    """
    body = _body(text)
    wanted = _spliced(value, [(path, change(_at(value, path))) for path, change in parts])
    texts = _kept(body, parts, wanted)
    if texts is None:
        dumper = _dumper(body)
        texts = [_dump(dumper, _built(document, {})) for document in wanted]
    missing = lost(body, texts)
    if missing:
        texts[-1] = "".join(f"# {comment}\n" for comment in missing) + texts[-1]
    return texts


def _body(text: str) -> str:
    """The document without its `---`."""
    first, _, rest = text.partition("\n")
    if not first.startswith("---"):
        return text
    return f"{first[3:].strip()}\n{rest}" if first[3:].strip() else rest


def _at(value: Any, path: FieldPath) -> Any:
    for step in path:
        value = value[step]
    return value


def _spliced(value: Any, results: Iterable[tuple[FieldPath, Sequence[Object]]]) -> list[Any]:
    """The documents with the results in place of the objects they come from."""
    for path, objects in sorted(results, key=lambda item: [str(step).zfill(9) for step in item[0]], reverse=True):
        if not path:
            return list(objects)
        parent = _at(value, path[:-1])
        whole = [*parent[: path[-1]], *objects, *parent[int(path[-1]) + 1 :]]
        value = _set(value, path[:-1], whole)
    return [value]


def _set(value: Any, path: FieldPath, new: Any) -> Any:
    if not path:
        return new
    if isinstance(value, list):
        return [_set(item, path[1:], new) if index == path[0] else item for index, item in enumerate(value)]
    return {**value, path[0]: _set(value[path[0]], path[1:], new)}


def _kept(body: str, parts: Sequence[Part], wanted: list[Any]) -> list[str] | None:
    """The documents with the text kept; None where that does not work."""
    if any(
        isinstance(event, pyyaml.AliasEvent) or getattr(event, "anchor", None)
        for event in pyyaml.parse(body, Loader=_LOADER)
    ):
        return None
    dumper = _dumper(body)
    try:
        tree = dumper.load(body)
        documents = _changed_tree(tree, parts)
        texts = [_dump(dumper, document) for document in documents]
        read = [pyyaml.load(text, Loader=_LOADER) for text in texts]
    except (YAMLError, pyyaml.YAMLError, NotImplementedError):  # the last from ruamel, where two comments meet
        return None
    return texts if [_plain(item) for item in read] == [_plain(item) for item in wanted] else None


def _changed_tree(tree: Any, parts: Sequence[Part]) -> list[Any]:
    for path, change in sorted(parts, key=lambda item: [str(step).zfill(9) for step in item[0]], reverse=True):
        old = _at(tree, path)
        *added, own = change(old)
        grafted = _grafted(old, own)
        fresh = [_built(item, {}) for item in added]
        if not path:
            return [*fresh, grafted]
        parent, index = _at(tree, path[:-1]), int(path[-1])
        list.__setitem__(parent, index, grafted)
        for item in reversed(fresh):
            parent.insert(index, item)
    return [tree]


def _dumper(body: str) -> YAML:
    dumper = YAML(typ="rt")
    dumper.preserve_quotes = True
    dumper.width = 2**16
    dumper.brace_single_entry_mapping_in_flow_sequence = True
    mapping, offset = _indents(body)
    dumper.indent(mapping=mapping, sequence=2 + offset, offset=offset)
    return dumper


def _indents(body: str) -> tuple[int, int]:
    """How far the text indents a mapping below its key, and `-` below its key, where they first appear; else 2 and 0."""
    mapping = offset = None
    todo = [pyyaml.compose(body, Loader=_LOADER)]
    while todo and (mapping is None or offset is None):
        node = todo.pop(0)
        if isinstance(node, pyyaml.SequenceNode):
            todo += node.value
        if not isinstance(node, pyyaml.MappingNode):
            continue
        for key, value in node.value:
            further = value.start_mark.column - key.start_mark.column
            if isinstance(value, pyyaml.SequenceNode) and not value.flow_style and value.value and offset is None:
                offset = max(further, 0)
            elif isinstance(value, pyyaml.MappingNode) and not value.flow_style and mapping is None:
                mapping = max(further, 1)
            todo.append(value)
    return mapping or 2, offset or 0


def _dump(dumper: YAML, value: Any) -> str:
    stream = io.StringIO()
    dumper.dump(value, stream)
    return stream.getvalue().removesuffix("...\n")


# --- laying values over trees


def _grafted(old: Any, new: Any) -> Any:
    """`new` with the nodes of `old` wherever they say the same."""
    if new is old:
        return old
    if isinstance(old, CommentedMap) and isinstance(new, dict):
        return _grafted_map(old, new)
    if isinstance(old, CommentedSeq) and isinstance(new, list):
        return _grafted_list(old, new)
    if not isinstance(new, dict | list) and type(_plain(old)) is type(_plain(new)) and old == new:
        return old
    return _built(new, {})


def _grafted_map(old: CommentedMap, new: dict[str, Any]) -> CommentedMap:
    fresh = CommentedMap()
    old.copy_attributes(fresh)
    orphans: dict[str, Any] = {}
    kept = _nodes(new)
    for key in old:
        if key not in new:
            if key in old.ca.items:
                orphans[key] = fresh.ca.items.pop(key)
            _collect(old[key], kept, orphans)
    added = [key for key in new if key not in old]
    for key, value in new.items():
        if key in old:
            fresh[key] = _grafted(old[key], value)
            if fresh[key] is not old[key] and not isinstance(old[key], CommentedMap | CommentedSeq):
                _move_following(fresh, key)
        else:
            tokens = orphans.pop(key, None)
            fresh[key] = _built(value, orphans)
            if tokens is not None:
                fresh.ca.items[key] = tokens
                _move_following(fresh, key)
    lines = [line for tokens in orphans.values() for line in _lines(tokens)]
    if lines:
        keys = list(new)
        home = next(iter(added), None) or (keys[-1] if keys else None)
        if home is not None:
            _put_before(fresh, home, lines)
    return fresh


def _nodes(value: Any) -> set[int]:
    """The nodes in a value that come from a tree, by id."""
    if isinstance(value, CommentedMap | CommentedSeq):
        return {id(value)}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return {node for item in inner for node in _nodes(item)}


def _collect(node: Any, kept: set[int], orphans: dict[str, Any]) -> None:
    """The comments of fields in a node that is gone, but for what of it lives on elsewhere."""
    if id(node) in kept:
        return
    if isinstance(node, CommentedMap):
        for key, item in node.items():
            if key in node.ca.items:
                orphans.setdefault(key, node.ca.items[key])
            _collect(item, kept, orphans)
    elif isinstance(node, CommentedSeq):
        for item in node:
            _collect(item, kept, orphans)


def _move_following(fresh: CommentedMap, key: str) -> None:
    """A scalar became something longer: the comment behind it would land inside of that."""
    tokens = fresh.ca.items.get(key)
    if tokens and isinstance(fresh[key], CommentedMap | CommentedSeq | LiteralScalarString):
        del fresh.ca.items[key]
        if lines := _lines(tokens):
            _put_before(fresh, key, lines)


def _grafted_list(old: CommentedSeq, new: list[Any]) -> CommentedSeq:
    fresh = CommentedSeq()
    old.copy_attributes(fresh)
    for index in [index for index in fresh.ca.items if index >= len(new)]:
        del fresh.ca.items[index]
    known = {id(item): item for item in old}
    for index, item in enumerate(new):
        if id(item) in known:
            fresh.append(item)
        else:
            fresh.append(_grafted(old[index], item) if index < len(old) and len(old) == len(new) else _built(item, {}))
    return fresh


def _built(value: Any, orphans: dict[str, Any]) -> Any:
    """A tree for plain values. Nodes in it stay as they are; comments of `orphans` go to the first field of the same name."""
    if isinstance(value, CommentedMap | CommentedSeq):
        return value
    if isinstance(value, dict):
        fresh = CommentedMap()
        for key, item in value.items():
            tokens = orphans.pop(key, None)
            fresh[key] = _built(item, orphans)
            if tokens is not None:
                fresh.ca.items[key] = tokens
        return fresh
    if isinstance(value, list):
        return CommentedSeq([_built(item, orphans) for item in value])
    return _styled(value)


def _styled(value: Any) -> Any:
    """Text in the style that every YAML reader takes for text."""
    if type(value) is not str:
        return value
    if "\n" in value.strip("\n"):
        return LiteralScalarString(value)
    tag = _RESOLVER.resolve(pyyaml.ScalarNode, value, (True, False))
    return DoubleQuotedScalarString(value) if value in _YAML_1_1_WORDS or tag != "tag:yaml.org,2002:str" else value


def _lines(tokens: Any) -> list[str]:
    """The comments in a node's tokens."""
    if tokens is None:
        return []
    if isinstance(tokens, list):
        return [line for token in tokens for line in _lines(token)]
    return [words for line in str(tokens.value).split("\n") if (words := line.strip().lstrip("#").strip())]


def _put_before(fresh: CommentedMap, key: str, lines: list[str]) -> None:
    column = fresh.lc.col if isinstance(fresh.lc.col, int) else 0
    fresh.yaml_set_comment_before_after_key(key, before="\n".join(lines), indent=column)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value
