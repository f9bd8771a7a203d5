"""The embedded cluster behind a real HTTP port, for commands that read a running one. It answers GETs and counts everything else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from dra_operator.cluster.memory.identity import ADMIN
from dra_operator.cluster.memory.server import MemoryServer
from dra_operator.cluster.rest import Request


class Served:
    """`kubeconfig` reaches the server; `requests` are the methods and paths it was asked."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.requests: list[tuple[str, str]] = []


@contextmanager
def serve(server: MemoryServer, folder: Path) -> Iterator[Served]:
    served = Served(folder / "kubeconfig")
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            with lock:
                served.requests.append((self.command, parts.path))
                answer = server.handle(Request("GET", parts.path, query=dict(parse_qsl(parts.query))), ADMIN)
            body = json.dumps(answer.body).encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            return None

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    served.kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{httpd.server_port}"}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    try:
        yield served
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()
