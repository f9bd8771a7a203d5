"""Objects without the names of those who use them: equal names become equal hashes, in every place that refers to them.

Kept, as allocation needs them: drivers, devices, their attributes and capacities, names of requests and of pods' claims, expressions,
priorities, taints' effects, sizes. Names, namespaces, nodes, pools, classes and labels (keys too, but for those of Kubernetes) are
hashed, with a salt; annotations, messages, opaque configuration and addresses are left out. Numbers at the end of a name stay, since
StatefulSets and readers count by them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import Any

#: Namespaces and names that say nothing about anybody.
WELL_KNOWN = frozenset(
    {
        "",
        "default",
        "kube-system",
        "kube-public",
        "kube-node-lease",
        "dra-operator",
        "default-scheduler",
        "true",
        "false",
    }
)
_KEPT_DOMAINS = re.compile(r"(^|\.)(kubernetes\.io|k8s\.io|dra-operator\.dev)$")
_KEPT_KEYS = frozenset(
    {"pod-template-hash", "controller-revision-hash", "job-name", "controller-uid", "pod-template-generation"}
)
#: Label values of these keys are facts about machines and workload controllers, not names.
_KEPT_VALUES = frozenset(
    {
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "dra-operator.dev/managed",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
        "controller-uid",
        "batch.kubernetes.io/controller-uid",
        "pod-template-generation",
    }
)
_KEPT_ANNOTATIONS = frozenset(
    {
        "resource.kubernetes.io/pod-claim-name",
        "deployment.kubernetes.io/revision",
        "dra-operator.dev/constraints",
        "dra-operator.dev/run-for",
        "dra-operator.dev/ungated-at",
        "batch.kubernetes.io/job-completion-index",
    }
)
#: Annotations whose value is a name.
_NAMING_ANNOTATIONS = frozenset({"dra-operator.dev/used-by", "dra-operator.dev/priority-class"})

#: Fields whose text (or texts) names an object.
_NAMES = frozenset(
    {
        "namespace",
        "nodeName",
        "node",
        "nodes",
        "pool",
        "deviceClassName",
        "deviceClassNames",
        "resourceClaimName",
        "resourceClaimTemplateName",
        "priorityClassName",
        "serviceName",
        "policy",
        "preemptedBy",
        "updateRevision",
        "currentRevision",
        "podGroupName",
        "runtimeClassName",
        "nominatedNodeName",
    }
)
_LABEL_MAPS = frozenset({"labels", "matchLabels", "nodeSelector"})
_LABEL_KEYS = frozenset({"topologyKey", "nodeLabel"})
#: Free text, addresses and what else only people read.
_LEFT_OUT = frozenset(
    {
        "message", "explanation", "deviceNames", "providerID", "podCIDR", "podCIDRs", "hostname", "subdomain", "addresses", "networkData",
        "uncountedTerminatedPods", "data", "drift",
    }
)  # fmt: skip
#: Of these kinds of entries `name` is the name of an object, not of a part of this one.
_NAMED_LISTS = frozenset({"ownerReferences", "reservedFor", "victims", "classes", "containers", "initContainers"})
_NAMED_FIELDS = frozenset({"metadata", "usedBy", "schedulingGroup"})


class Anonymizer:
    """`salt`: whoever does not have it cannot find out a name by trying."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt

    def object(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """The same object under other names."""
        changed: dict[str, Any] = self._mapping(item)
        if item.get("kind") == "PriorityClass":
            changed.pop("description", None)
        return changed

    def name(self, text: str) -> str:
        """`NAMESPACE/NAME` and `kind/NAME` part by part; a number at the end stays, well-known names stay."""
        if "/" in text:
            return "/".join(self.name(part) for part in text.split("/"))
        if text in WELL_KNOWN or text.startswith("system-"):
            return text
        stem, dash, number = text.rpartition("-")
        if dash and stem and number.isascii() and number.isdigit():
            return f"{self._hash(stem)}-{number}"
        return self._hash(text)

    def _hash(self, text: str) -> str:
        if text in WELL_KNOWN:
            return text
        return "x" + hashlib.blake2b(text.encode(), key=self._salt, digest_size=5).hexdigest()

    # -- walking

    def _mapping(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self._field(name, value) for name, value in item.items() if name not in _LEFT_OUT}

    def _field(self, name: str, value: Any) -> Any:
        special = self._special(name)
        if special is not None and value is not None:
            return special(value)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list):
            return [self._mapping(entry) if isinstance(entry, Mapping) else entry for entry in value]
        return value

    def _special(self, name: str) -> Callable[[Any], Any] | None:
        if name in _LABEL_MAPS:
            return self._labels
        if name == "annotations":
            return self._annotations
        if name in _NAMES:
            return self._names
        if name == "for":
            return self._owner
        if name == "topology":
            return self._topology
        if name in _LABEL_KEYS:
            return lambda value: self._label_key(str(value))
        if name in ("matchExpressions", "matchFields"):
            return self._expressions
        if name in ("taints", "tolerations", "taint"):
            return self._taints
        if name == "parameters":
            return lambda value: {}
        if name in _NAMED_FIELDS:
            return self._named
        if name in _NAMED_LISTS:
            return lambda value: [self._named(entry) for entry in value] if isinstance(value, list) else value
        return None

    def _names(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.name(value)
        if isinstance(value, list):
            return [self._names(entry) for entry in value]
        return self._named(value)

    def _named(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        changed = self._mapping(value)
        for field in ("name", "generateName"):
            text = changed.get(field)
            if isinstance(text, str):
                end = "-" if text.endswith("-") else ""
                changed[field] = self.name(text.removesuffix("-")) + end
        return changed

    # -- labels and what selects by them

    def _label_key(self, key: str) -> str:
        domain, slash, _ = key.rpartition("/")
        if key in _KEPT_KEYS or key == "metadata.name" or (slash and _KEPT_DOMAINS.search(domain)):
            return key
        return self._hash(key)

    def _label_value(self, key: str, value: Any) -> Any:
        if not isinstance(value, str) or key in _KEPT_VALUES or re.fullmatch(r"-?\d+", value):
            return value
        return self.name(value)

    def _owner(self, value: Any) -> Any:
        """`KIND/UID`, or `StatefulSet/UID/POD`."""
        kind, _, rest = str(value).partition("/")
        uid, slash, pod = rest.partition("/")
        return f"{kind}/{uid}/{self.name(pod)}" if slash else value

    def _topology(self, value: Any) -> Any:
        """Of a ClaimGroup: a label of nodes."""
        if not isinstance(value, Mapping) or not isinstance(value.get("key"), str):
            return value
        return {**value, "key": self._label_key(value["key"])}

    def _labels(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        if "nodeSelectorTerms" in value:
            return self._mapping(value)  # The nodeSelector of an allocation or slice; a pod's is a map of labels.
        return {self._label_key(key): self._label_value(key, text) for key, text in value.items()}

    def _annotations(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        kept = {key: text for key, text in value.items() if key in _KEPT_ANNOTATIONS}
        return kept | {key: self.name(text) for key, text in value.items() if key in _NAMING_ANNOTATIONS}

    def _expressions(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [
            {
                **entry,
                "key": self._label_key(str(entry.get("key"))),
                **(
                    {"values": [self._label_value(str(entry.get("key")), text) for text in entry["values"]]}
                    if isinstance(entry.get("values"), list)
                    else {}
                ),
            }
            for entry in value
            if isinstance(entry, Mapping)
        ]

    def _taints(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._taints(entry) for entry in value]
        if not isinstance(value, Mapping):
            return value
        changed = dict(value)
        if isinstance(value.get("key"), str):
            changed["key"] = self._label_key(value["key"])
        if isinstance(value.get("value"), str):
            changed["value"] = self._label_value(str(value.get("key")), value["value"])
        return changed
