"""A cluster that cannot be asked: what is said, and what there is to do. And the rights that asking one takes."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from dra_operator.cli import main
from dra_operator.cli.live import SNAPSHOT_KINDS

ROLES = Path(__file__).parents[2] / "manifests" / "base" / "rbac.yaml"
COMMANDS = [
    "top nodes",
    "explain pod/p",
    "defrag",
    "migrate verify",
    "snapshot",
    "simulate --live",
    "lint --live -f node.yaml",
]


def kubeconfig(server: str) -> str:
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {}}],
        }
    )


@pytest.fixture
def refusing() -> Iterator[str]:
    """The URL of a server that answers `/STATUS/…` with that status."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = int(self.path.split("/")[1])
            body = json.dumps({"kind": "Status", "code": status, "message": f"answered with {status}"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return None

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A command that has one answer of this kind does not wait for the others."""

    httpd = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def call(command: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr of a command that must fail, its kubeconfig as given."""
    (folder / "config").write_text(text)
    (folder / "node.yaml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    with pytest.raises(SystemExit) as stop:
        main.run([*command.split(), "--kubeconfig", "config"])
    told = capsys.readouterr()
    assert (stop.value.code, told.out) == (1, "")
    return told.err.splitlines()


@pytest.fixture(autouse=True)
def _at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kubectl-dra"])


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("server", "said", "repair"),
    [
        (
            "http://127.0.0.1:1",
            "Cannot connect to host 127.0.0.1:1",
            "see that it runs and that kubeconfig config means",
        ),
        ("/401", "401 answered with 401", "kubeconfig config does not say (any more) who you are: log in anew"),
        ("/403", "403 answered with 403", "the ClusterRole dra-operator-inspect has the rights"),
        ("/500", "500 answered with 500", ""),
    ],
)
def test_a_cluster_that_does_not_answer(
    command: str,
    server: str,
    said: str,
    repair: str,
    refusing: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (line,) = call(command, kubeconfig(refusing + server if server.startswith("/") else server), tmp_path, capsys)
    assert line.startswith("error: ")
    assert said in line
    assert repair in line


def test_all_that_may_not_be_read_is_named_at_once(
    refusing: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = call("explain pod/p", kubeconfig(refusing + "/403"), tmp_path, capsys)
    for name in ("nodes (core)", "pods (core)", "resourceslices (resource.k8s.io)", "claimreports (dra-operator.dev)"):
        assert name in line


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "kubeconfig config cannot be used: while parsing"),
        ("a: [1", "; mend it, or name another file"),
        ("{current-context: x, contexts: [], clusters: [], users: []}", "it has no context x; name one with --context"),
        (
            "{current-context: x, contexts: [{name: x, context: {cluster: y, user: u}}], clusters: [], users: []}",
            "it has no cluster y; add it",
        ),
    ],
)
def test_a_kubeconfig_that_cannot_be_used(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (line,) = call("top nodes", text, tmp_path, capsys)
    assert said in line


def test_the_role_for_people_has_the_rights_that_commands_need_and_no_others() -> None:
    roles = yaml.safe_load_all(ROLES.read_text())
    (rules,) = [role["rules"] for role in roles if role["metadata"]["name"] == "dra-operator-inspect"]
    given = {(group, plural) for rule in rules for group in rule["apiGroups"] for plural in rule["resources"]}
    assert given == {(resource.group, resource.plural) for resource in SNAPSHOT_KINDS}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
