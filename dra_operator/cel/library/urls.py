"""URLs: `url`, `isURL` and the accessors, as Go's net/url splits them.

Source: k8s.io/apiserver `pkg/cel/library/urls`; RFC 3986 with Go's leniencies.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from dra_operator.cel.declarations import Registry
from dra_operator.cel.errors import EvaluationError
from dra_operator.cel.values import register

__all__ = ["Url", "declare", "is_request_uri"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*", re.ASCII)
_PORT = re.compile(r":[0-9]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})", re.ASCII)
_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})")
_HOST_CHARS = re.compile(r"""[A-Za-z0-9\-._~!$&'()*+,;=:\[\]<>"%]|[^\x00-\x7f]""")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", re.ASCII)
_PATH_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~$&+,/:;=@"
_PATH_VALID = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]/]|%[0-9a-fA-F]{2})*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in its parts; `path` is unescaped, `raw_path` as written. Equal if they print alike."""

    scheme: str
    user: str | None
    host: str
    opaque: str
    path: bytes
    raw_path: str
    query: str | None

    @property
    def hostname(self) -> str:
        name = _split_port(self.host)[0]
        return name[1:-1] if name.startswith("[") and name.endswith("]") else name

    @property
    def port(self) -> str:
        return _split_port(self.host)[1]

    @property
    def escaped_path(self) -> str:
        """The path as written if that is a valid escaping, else escaped anew."""
        if self.raw_path == "*":
            return "*"
        if _PATH_VALID.fullmatch(self.raw_path):
            return self.raw_path
        return "".join(chr(byte) if byte in _PATH_SAFE else f"%{byte:02X}" for byte in self.path)


register(Url, "kubernetes.URL")


def declare(functions: Registry) -> None:
    """Add the URL functions."""
    functions.plain("url", "string_to_url", "string -> kubernetes.URL", parse_url)
    functions.plain("isURL", "is_url_string", "string -> bool", is_request_uri)
    member = functions.member
    member("getScheme", "url_get_scheme", "kubernetes.URL -> string", lambda url: url.scheme)
    member("getHost", "url_get_host", "kubernetes.URL -> string", lambda url: url.host)
    member("getHostname", "url_get_hostname", "kubernetes.URL -> string", lambda url: url.hostname)
    member("getPort", "url_get_port", "kubernetes.URL -> string", lambda url: url.port)
    member("getEscapedPath", "url_get_escaped_path", "kubernetes.URL -> string", lambda url: url.escaped_path)
    member("getQuery", "url_get_query", "kubernetes.URL -> map(string, list(string))", query_of)


def is_request_uri(text: str) -> bool:
    """Whether a text is an absolute URI or an absolute path."""
    try:
        _parse(text, request=True)
    except EvaluationError:
        return False
    return True


def parse_url(text: str) -> Url:
    """The parts of an absolute URI or absolute path. Raises EvaluationError."""
    _parse(text, request=True)
    return _parse(text, request=False)


def _bad(text: str, reason: str) -> EvaluationError:
    return EvaluationError(f'URL parse error during conversion from string: parse "{text}": {reason}')


def _parse(text: str, *, request: bool) -> Url:
    """Go's url.ParseRequestURI (no fragment, must be absolute) or url.Parse."""
    rest = text
    if not request:
        rest, _, fragment = text.partition("#")
        if _BAD_ESCAPE.search(fragment):
            raise _bad(text, "invalid URL escape")
    if any(char < " " or char == "\x7f" for char in rest):
        raise _bad(text, "net/url: invalid control character in URL")
    if not rest and request:
        raise _bad(text, "empty url")
    if rest == "*":
        return Url("", None, "", "", b"*", "*", None)
    scheme, rest = _split_scheme(text, rest)
    query: str | None = None
    if "?" in rest:
        rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme, None, "", rest, b"", "", query)
        if request:
            raise _bad(text, "invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise _bad(text, "first path segment in URL cannot contain colon")
    user, host = None, ""
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        user, host = _split_authority(text, authority)
    if _BAD_ESCAPE.search(rest):
        raise _bad(text, "invalid URL escape")
    return Url(scheme, user, host, "", _unescape(rest), rest, query)


def _split_scheme(text: str, rest: str) -> tuple[str, str]:
    head, colon, tail = rest.partition(":")
    if not colon or not (match := _SCHEME.match(rest)):
        if rest.startswith(":"):
            raise _bad(text, "missing protocol scheme")
        return "", rest
    return (head.lower(), tail) if match.end() == len(head) else ("", rest)


def _split_authority(text: str, authority: str) -> tuple[str | None, str]:
    user, at, host = authority.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise _bad(text, "net/url: invalid userinfo")
    if at and _BAD_ESCAPE.search(user):
        raise _bad(text, "invalid URL escape")
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise _bad(text, "missing ']' in host")
        port = host[end + 1 :]
    else:
        colon = host.rfind(":")
        port = host[colon:] if colon >= 0 else ""
    if port and not _PORT.fullmatch(port):
        raise _bad(text, f'invalid port "{port}" after host')
    for char in host:
        if not _HOST_CHARS.fullmatch(char):
            raise _bad(text, f'invalid character "{char}" in host name')
    if _BAD_ESCAPE.search(host):
        raise _bad(text, "invalid URL escape")
    for escape in re.findall(r"%([0-9a-fA-F]{2})", host):
        # Go lets a host escape only bytes outside ASCII (and, in a zone, a few more).
        if int(escape, 16) < 0x80 and not host.startswith("["):
            raise _bad(text, f'invalid URL escape "%{escape}"')
    return (user if at else None), _unescape(host).decode("utf-8", "replace")


def _split_port(host: str) -> tuple[str, str]:
    colon = host.rfind(":")
    if colon >= 0 and _PORT.fullmatch(host[colon:]):
        return host[:colon], host[colon + 1 :]
    return host, ""


def _unescape(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return _ESCAPE.sub(lambda match: bytes((int(match[1], 16),)), raw)


def query_of(url: Url) -> dict[Any, Any]:
    """The query by name; what Go cannot parse is left out."""
    values: dict[Any, list[str]] = {}
    for pair in (url.query or "").split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        name, _, value = pair.partition("=")
        decoded = [_unescape(part.replace("+", " ")).decode("utf-8", "replace") for part in (name, value)]
        values.setdefault(decoded[0], []).append(decoded[1])
    return {name: tuple(found) for name, found in values.items()}
