"""A small synchronous client of the API server, for starting up, for setting up nodes, and for tests.

Only requests, JSON and errors: no watches, no typed objects, no retries. The operator has its own client.
"""

import base64
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import orjson
from ruamel.yaml import YAML

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
        self._address = urlsplit(server)
        self._token = token
        self._tls = ssl.create_default_context(cadata=authority.decode())
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
        try:
            self._send(method, path, payload, headers)
            answer = self._connection().getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise error if isinstance(error, OSError) else ConnectionError(str(error)) from error
        decoded = orjson.loads(raw) if answer.headers.get_content_type() == _JSON and raw else raw.decode()
        if answer.status >= 400:
            raise ApiError(answer.status, f"{method} {path}", decoded)
        return decoded

    def _send(self, method: str, path: str, payload: bytes | None, headers: dict[str, str]) -> None:
        """On the connection there is; where the server has closed it meanwhile, on a new one."""
        reused = hasattr(self._local, "connection")
        try:
            self._connection().request(method, path, payload, headers)
        except OSError:
            if not reused:
                raise
            self.close()
            self._connection().request(method, path, payload, headers)

    def close(self) -> None:
        """Drop this thread's connection; the next request opens one."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            del self._local.connection

    def _connection(self) -> http.client.HTTPSConnection:
        if not hasattr(self._local, "connection"):
            host, port = self._address.hostname or "", self._address.port
            self._local.connection = http.client.HTTPSConnection(host, port, timeout=60, context=self._tls)
        connection: http.client.HTTPSConnection = self._local.connection
        return connection


def in_parallel(call: Callable[[Item], object], items: Iterable[Item], *, workers: int = 8) -> None:
    """Run `call` on each item, several at a time; raises the first error once all have ended."""
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(call, item) for item in items]:
            done.result()


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
