"""Where the API server is and how to prove who we are: kubeconfig or service account, read by kubernetes-asyncio.

Not a client: it holds no socket. Tokens and certificates are read again while the process runs: service account tokens are replaced every
hour, a cluster's authority once in years, and the pods that use it should not need to be told.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dra_operator.cluster.kubernetes.kubeconfig import SERVICE_HOST, Configuration, loaders

#: How the loaders say that a name leads nowhere.
_LACKING = re.compile(r"Expected object with name (\S*) in \S*/(context|cluster|user)s list")
NAMESPACE_FILE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"


class NoConnection(Exception):
    """The cluster cannot be addressed; the text says what is missing and how to give it."""


@dataclass(slots=True)
class Connection:
    """One API server and one identity. Read with `load`."""

    server: str
    ca_path: str | None
    certificate_path: str | None
    key_path: str | None
    verify: bool
    server_name: str | None
    proxy: str | None
    source: str
    _configuration: Any = field(repr=False)
    _reload: Callable[[], Any] = field(repr=False)
    _token_refresh: float = 60.0
    _clock: Callable[[], float] = time.monotonic
    _read_at: float = 0.0
    #: The context that is in use, what it was made of, and whether that may have changed.
    _context: ssl.SSLContext | None = field(default=None, init=False, repr=False)
    _material: tuple[bytes | None, ...] = field(default=(), init=False, repr=False)
    _look_again: bool = field(default=True, init=False)

    async def authorization(self, *, renew: bool = False) -> str | None:
        """The value of the Authorization header, None where a client certificate (or nothing) proves who we are.

        Read again once it is older than the refresh time, or at once with `renew` (after a 401, or a server that nobody vouches for);
        `tls` looks at its files again then. Where it cannot be read, the old one stays: a file may be about to be replaced, and the API
        server's answer tells whether it still does.
        """
        now = self._clock()
        if renew or now - self._read_at >= self._token_refresh:
            self._read_at = now
            self._look_again = True
            with contextlib.suppress(Exception):  # the loaders raise whatever a half-written file leads to
                self._take(await self._reload())
        token = self._configuration.api_key.get("BearerToken")
        if token:
            return str(token).strip()
        if self._configuration.username:
            return str(self._configuration.get_basic_auth_token())
        return None

    def _take(self, configuration: Any) -> None:
        self._configuration = configuration
        self.ca_path = configuration.ssl_ca_cert or None
        self.certificate_path = configuration.cert_file or None
        self.key_path = configuration.key_file or None

    def tls(self) -> ssl.SSLContext | None:
        """None for plain http. The same object as long as the files say the same, so that connections made with it are used again.

        Raises NoConnection when a certificate cannot be read; one that could be before is kept until it can be read again.
        """
        if not self.server.startswith("https"):
            return None
        if self._look_again or self._context is None:
            self._look_again = False
            try:
                self._read_certificates()
            except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
                if self._context is None:
                    raise NoConnection(
                        f"{self.source}: the certificates for {self.server} cannot be read: {error}"
                    ) from None
        return self._context

    def _read_certificates(self) -> None:
        """Raises OSError, ValueError."""
        paths = (self.ca_path, self.certificate_path, self.key_path)
        material = tuple(Path(path).read_bytes() if path else None for path in paths)
        if self._context is not None and material == self._material:
            return
        context = ssl.create_default_context(cafile=self.ca_path)
        if self.certificate_path:
            context.load_cert_chain(self.certificate_path, self.key_path)
        # Cluster CAs made by kubeadm and others lack the key identifiers that Python 3.13 asks for by default.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        self._context, self._material = context, material


async def load(kubeconfig: str | None = None, context: str | None = None, *, token_refresh: float = 60.0) -> Connection:
    """The connection `kubeconfig` describes, else that of `KUBECONFIG`, the service account, or `~/.kube/config`.

    Raises NoConnection.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG")
    if not path and context is None and os.environ.get(SERVICE_HOST):
        return await _connection("service account", _in_cluster, token_refresh)
    path = _existing(path or "~/.kube/config")

    async def read() -> Any:
        # Never written back: a refreshed OIDC token stays ours.
        configuration = _empty()
        await loaders.load_kube_config(path, context, configuration, persist_config=False)
        return configuration

    return await _connection(f"kubeconfig {path}", read, token_refresh)


def default_namespace(kubeconfig: str | None = None, context: str | None = None) -> str:
    """The namespace that a user means who names none, as kubectl has it: the context's; in a pod its own; else `default`.

    What is wrong with the kubeconfig is for `load` to say.
    """
    path = kubeconfig or os.environ.get("KUBECONFIG")
    if not path and context is None and os.environ.get(SERVICE_HOST):
        return own_namespace("default")
    try:
        contexts, current = loaders.list_kube_config_contexts(os.path.expanduser(path or "~/.kube/config"))
        named = current if context is None else next(each for each in contexts if each["name"] == context)
        return str(named["context"].get("namespace") or "default")
    except Exception:  # the loaders raise whatever a malformed file leads to
        return "default"


def _existing(path: str) -> str:
    path = os.path.expanduser(path)
    if not any(os.path.exists(part) for part in path.split(os.pathsep)):
        raise NoConnection(f"kubeconfig {path} does not exist; name one with --kubeconfig or the variable KUBECONFIG")
    return path


async def _in_cluster() -> Any:
    configuration = _empty()
    loaders.load_incluster_config(configuration, try_refresh_token=False)
    return configuration


def _empty() -> Any:
    # The class hands out copies of a process-wide default; we want nothing from anybody else.
    return type.__call__(Configuration)


def _reason(error: Exception) -> str:
    match error:
        case IsADirectoryError():
            return f"{error.filename} is a directory; name a file"
        case UnicodeDecodeError():
            return "it is not UTF-8 text; name another file"
        case TypeError() | AttributeError():
            return "it is empty, or has not the form of a kubeconfig; name another file"
        case _ if lacking := _LACKING.search(str(error)):
            name, kind = lacking.groups()
            return f"it has no {kind} {name}; " + (
                "name one with --context, `kubectl config get-contexts` lists them" if kind == "context" else "add it"
            )
        case _:
            # A parser tells where on lines of its own.
            return f"{' '.join(str(error).split()) or type(error).__name__}; mend it, or name another file"


async def _connection(source: str, read: Callable[[], Any], token_refresh: float) -> Connection:
    try:
        found = await read()
    except Exception as error:  # the loaders raise whatever a malformed file leads to, YAML errors included
        raise NoConnection(f"{source} cannot be used: {_reason(error)}") from None
    connection = Connection(
        server=found.host.rstrip("/"),
        ca_path=found.ssl_ca_cert or None,
        certificate_path=found.cert_file or None,
        key_path=found.key_file or None,
        verify=bool(found.verify_ssl),
        server_name=found.tls_server_name or None,
        proxy=found.proxy or None,
        source=source,
        _configuration=found,
        _reload=read,
        _token_refresh=token_refresh,
    )
    connection._read_at = connection._clock()
    return connection


def own_namespace(default: str) -> str:
    """The namespace this pod runs in, `default` outside a cluster."""
    try:
        with open(NAMESPACE_FILE, encoding="utf-8") as file:
            return file.read().strip() or default
    except OSError:
        return default
