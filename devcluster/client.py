"""A small synchronous client of the API server, for starting up, for setting up nodes, and for tests.

Only requests, JSON and errors: no watches, no typed objects, no retries. The operator has its own client.
"""

import base64
import json
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from ruamel.yaml import YAML

from devcluster.connection import Connection

APPLY: Final = "application/apply-patch+yaml"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH: Final = "application/strategic-merge-patch+json"
_JSON: Final = "application/json"

Item = TypeVar("Item")


class ApiError(Exception):
    """The API server said no.

    `status` is the HTTP status, `reason` the API's word for it (such as `AlreadyExists`), `body` the Status object.
    """

    def __init__(self, status: int, call: str, body: Any) -> None:
        said = body if isinstance(body, dict) else {}
        self.status = status
        self.reason: str = said.get("reason", "")
        self.body = body
        super().__init__(f"{call}: {status} {self.reason}: {said.get('message', body)}")


class Client:
    """One user's access to one API server; safe to share between threads (a connection for each)."""

    def __init__(self, server: str, token: str, authority: bytes) -> None:
        self._server, self._token, self._authority = server, token, authority
        self._local = threading.local()

    @classmethod
    def from_kubeconfig(cls, path: Path) -> "Client":
        """Read a kubeconfig of the shape that devcluster writes: token and embedded authority."""
        server, token, authority = read_kubeconfig(path)
        return cls(server, token, authority)

    def get(self, path: str) -> Any:
        """GET one object or list."""
        return self.request("GET", path)

    def post(self, path: str, body: Any) -> Any:
        """Create an object in the collection at `path`."""
        return self.request("POST", path, body)

    def put(self, path: str, body: Any) -> Any:
        """Replace the object at `path`."""
        return self.request("PUT", path, body)

    def patch(self, path: str, body: Any, content_type: str = MERGE_PATCH) -> Any:
        """Patch the object at `path`."""
        return self.request("PATCH", path, body, content_type)

    def delete(self, path: str, body: Any = None) -> Any:
        """Delete the object (or collection) at `path`; `body` is DeleteOptions."""
        return self.request("DELETE", path, body)

    def request(self, method: str, path: str, body: Any = None, content_type: str = _JSON) -> Any:
        """Send one request and give the decoded answer (text where it is not JSON).

        Raises `ApiError` for an HTTP status of 400 and more, `OSError` where the server cannot be reached.
        """
        payload = None if body is None else orjson.dumps(body)
        headers = {"Accept": _JSON}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if payload is not None:
            headers["Content-Type"] = content_type
        answer = self._connection().exchange(method, path, headers, payload)
        raw = answer.body
        decoded = orjson.loads(raw) if answer.content_type == _JSON and raw else raw.decode()
        if answer.status >= 400:
            raise ApiError(answer.status, f"{method} {path}", decoded)
        return decoded

    def close(self) -> None:
        """Drop this thread's connection; the next request opens one."""
        self._connection().close()

    def _connection(self) -> Connection:
        if not hasattr(self._local, "connection"):
            self._local.connection = Connection(self._server, self._authority)
        connection: Connection = self._local.connection
        return connection


def in_parallel(call: Callable[[Item], object], items: Iterable[Item], *, workers: int = 8) -> None:
    """Run `call` on each item, several at a time; raises the first error, and what has not begun then is left."""
    with ThreadPoolExecutor(workers) as pool:
        calls = [pool.submit(call, item) for item in items]
        try:
            for done in calls:
                done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def read_kubeconfig(path: Path) -> tuple[str, str, bytes]:
    """Server URL, bearer token and CA certificates (PEM) of the current context."""
    text = path.read_text()
    config: dict[str, Any] = json.loads(text) if text.startswith("{") else YAML(typ="safe").load(text)
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    return cluster["server"], user["token"], base64.b64decode(cluster["certificate-authority-data"])


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
