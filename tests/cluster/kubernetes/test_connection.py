"""Where the API server is read from, and what is said when it is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dra_operator.cluster.kubernetes.connection import NoConnection, default_namespace, load, own_namespace
from dra_operator.cluster.kubernetes.kubeconfig import loaders

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: first
clusters:
- {name: one, cluster: {server: "http://127.0.0.1:1/"}}
- {name: two, cluster: {server: "http://127.0.0.1:2"}}
contexts:
- {name: first, context: {cluster: one, user: u}}
- {name: second, context: {cluster: two, user: u}}
users:
- {name: u, user: {tokenFile: token}}
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("abc\n")
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    return path


@pytest.mark.parametrize(("context", "server"), [(None, "http://127.0.0.1:1"), ("second", "http://127.0.0.1:2")])
async def test_a_kubeconfig_is_read(kubeconfig: Path, context: str | None, server: str) -> None:
    connection = await load(str(kubeconfig), context)
    assert connection.server == server
    assert connection.tls() is None
    assert await connection.authorization() == "Bearer abc"


@pytest.mark.parametrize(
    ("context", "namespace"), [(None, "team-a"), ("first", "team-a"), ("second", "default"), ("third", "default")]
)
def test_the_namespace_is_the_contexts(
    kubeconfig: Path, context: str | None, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubeconfig.write_text(KUBECONFIG.replace("cluster: one, user: u", "cluster: one, user: u, namespace: team-a"))
    assert default_namespace(str(kubeconfig), context) == namespace
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert default_namespace(None, context) == namespace


@pytest.mark.parametrize("text", ["", "{", "contexts: 1"])
def test_the_namespace_of_a_kubeconfig_that_cannot_be_read(kubeconfig: Path, text: str) -> None:
    """What is wrong with it is said where it is connected with."""
    kubeconfig.write_text(text)
    assert default_namespace(str(kubeconfig)) == "default"


def test_the_namespace_in_a_pod_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "namespace"
    file.write_text("team-b\n")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setattr("dra_operator.cluster.kubernetes.connection.NAMESPACE_FILE", str(file))
    assert default_namespace() == "team-b"


async def test_a_token_file_is_read_again_when_it_is_old(kubeconfig: Path, tmp_path: Path) -> None:
    connection = await load(str(kubeconfig), token_refresh=60)
    now = connection._clock()
    connection._clock = lambda: now
    (tmp_path / "token").write_text("next")
    assert await connection.authorization() == "Bearer abc"
    connection._clock = lambda: now + 61
    assert await connection.authorization() == "Bearer next"


async def test_the_token_of_a_pod_is_read_again_when_kubelet_rotates_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    authority.write_text("a certificate")
    names = loaders.load_incluster_config.__globals__
    monkeypatch.setitem(names, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setitem(names, "SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    connection = await load(token_refresh=60)
    now = connection._clock()
    connection._clock = lambda: now
    assert (connection.source, connection.server) == ("service account", "https://10.0.0.1:443")
    assert await connection.authorization() == "Bearer first"
    token.unlink()
    assert await connection.authorization(renew=True) == "Bearer first", "between the old file and the new one"
    token.write_text("second")
    assert await connection.authorization() == "Bearer first"
    connection._clock = lambda: now + 61
    assert await connection.authorization() == "Bearer second"
    token.write_text("third")
    assert await connection.authorization(renew=True) == "Bearer third", "the old one was refused"


async def test_a_file_that_is_being_replaced_keeps_the_old_token(kubeconfig: Path, tmp_path: Path) -> None:
    connection = await load(str(kubeconfig), token_refresh=0)
    kubeconfig.write_text("clusters: [")  # noqa: ASYNC240
    assert await connection.authorization() == "Bearer abc"


@pytest.mark.parametrize(
    ("text", "context", "said"),
    [
        (None, None, "does not exist; name one with --kubeconfig"),
        ("clusters: [", None, "cannot be used"),
        ("", None, "cannot be used"),
        (KUBECONFIG, "third", "third"),
        (KUBECONFIG.replace("tokenFile: token", "tokenFile: nothing"), None, "nothing"),
    ],
)
async def test_what_cannot_be_read_is_said(tmp_path: Path, text: str | None, context: str | None, said: str) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(NoConnection, match=said):
        await load(str(path), context)


async def test_an_unreadable_authority_is_said(kubeconfig: Path) -> None:
    connection = await load(str(kubeconfig))
    connection.server, connection.ca_path = "https://127.0.0.1:1", "/nowhere/ca.crt"
    with pytest.raises(NoConnection, match="certificates"):
        connection.tls()


def test_outside_a_cluster_the_namespace_is_the_default() -> None:
    assert own_namespace("dra-operator") == "dra-operator"


def test_no_generated_client_is_loaded_but_for_who_wants_it() -> None:
    script = """
import sys
import dra_operator.cluster.kubernetes.connection
assert "kubernetes_asyncio.client.models" not in sys.modules
import kubernetes_asyncio
assert kubernetes_asyncio.client.V1Pod and kubernetes_asyncio.client.Configuration
"""
    subprocess.run([sys.executable, "-c", script], check=True)
