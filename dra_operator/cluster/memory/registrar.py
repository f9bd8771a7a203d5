"""What the API server gives a new object: its name, uid, time of creation and generation. All from a seed and a clock."""

from __future__ import annotations

import random
from collections.abc import Callable

from dra_operator.api.meta import format_time
from dra_operator.cluster.memory.kinds import Rules
from dra_operator.cluster.memory.values import Object
from dra_operator.cluster.rest import Resource

#: Letters of generated names: without vowels and look-alikes, as in apimachinery.
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE = 58


class Registrar:
    def __init__(self, clock: Callable[[], float], seed: int) -> None:
        self._clock = clock
        self._random = random.Random(seed)
        self._uids = 0
        self._issued: set[str] = set()

    def identify(self, item: Object, resource: Resource, rules: Rules, *, fresh: bool = False) -> None:
        """Name, uid, creation time and generation; what the object brings is kept unless it is `fresh`."""
        meta = item["metadata"]
        if fresh:
            for field in (
                "uid",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "resourceVersion",
            ):
                meta.pop(field, None)
        if not meta.get("name") and meta.get("generateName"):
            suffix = "".join(self._random.choices(_SUFFIX_LETTERS, k=5))
            meta["name"] = meta["generateName"][:_GENERATED_BASE] + suffix
        if not meta.get("uid"):
            meta["uid"] = self._uid(meta)
        meta.setdefault("creationTimestamp", format_time(self._clock()))
        if rules.generation and (fresh or "generation" not in meta):
            meta["generation"] = 1
        item["apiVersion"], item["kind"] = resource.api_version, resource.kind

    def _uid(self, meta: Object) -> str:
        """A uid that sorts by the age of the object's first owner, then by its own.

        A tie-break by uid then gives the order in which things were written, which creation times of whole seconds cannot:
        the pods of a Deployment come where the Deployment was applied.
        """
        self._uids += 1
        owner = next((entry["uid"] for entry in meta.get("ownerReferences") or () if entry.get("controller")), None)
        family = owner[:8] if owner in self._issued else f"{self._uids:08x}"
        own, noise = f"{self._uids:07x}", f"{self._random.getrandbits(60):015x}"
        uid = f"{family}-{own[:4]}-4{own[4:]}-a{noise[:3]}-{noise[3:]}"
        self._issued.add(uid)
        return uid
