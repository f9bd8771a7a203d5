"""Named formats: `format.dns1123Label().validate(text)` answers with the complaints, if any.

Source: k8s.io/apiserver `pkg/cel/library/format`; the texts are those of k8s.io/apimachinery validation.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

from dra_operator.cel.declarations import Registry
from dra_operator.cel.library.urls import is_request_uri
from dra_operator.cel.values import NONE, Optional, register

__all__ = ["FORMATS", "NamedFormat", "declare"]


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format: its name, its check, and the length of its pattern (which its cost goes by)."""

    name: str
    check: Callable[[str], list[str]]
    pattern_size: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedFormat) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


register(NamedFormat, "kubernetes.NamedFormat")

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.ASCII)
_DATETIME = re.compile(
    r"(?i)([0-9]{4}-[0-9]{2}-[0-9]{2})t([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))", re.ASCII
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)


def _regex_message(what: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}'" for example in examples)
    return f"{what} (e.g. {shown}, regex used for validation is '{pattern}')"


def _pattern_check(pattern: str, longest: int, complaint: str, prefix: bool) -> Callable[[str], list[str]]:
    compiled = re.compile(pattern, re.ASCII)

    def check(text: str) -> list[str]:
        complaints = (
            [] if len(text.encode("utf-8", "replace")) <= longest else [f"must be no more than {longest} characters"]
        )
        # As a prefix a name may still end in a hyphen.
        whole = text[:-1] + "a" if prefix and len(text) > 1 and text.endswith("-") else text
        if not compiled.fullmatch(whole):
            complaints.append(complaint)
        return complaints

    return check


_LABEL_COMPLAINT = _regex_message(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_LABEL_1035_COMPLAINT = _regex_message(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_SUBDOMAIN_COMPLAINT = _regex_message(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_NAME_COMPLAINT = _regex_message(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _NAME,
    "MyName",
    "my.name",
    "123-abc",
)
_VALUE_COMPLAINT = _regex_message(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character",
    f"({_NAME})?",
    "MyValue",
    "my_value",
    "12345",
)


def _qualified_name(text: str) -> list[str]:
    prefix, slash, name = text.partition("/")
    if not slash:
        prefix, name = "", text
    if "/" in name:
        return [
            "a qualified name "
            + _NAME_COMPLAINT.replace("must consist", "must consist", 1)
            + " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    complaints = []
    if slash:
        if not prefix:
            complaints.append("prefix part must be non-empty")
        else:
            found = _pattern_check(_SUBDOMAIN, 253, _SUBDOMAIN_COMPLAINT, False)(prefix)
            complaints += [f"prefix part {complaint}" for complaint in found]
    if not name:
        complaints.append("name part must be non-empty")
    elif len(name) > 63:
        complaints.append("name part must be no more than 63 characters")
    if not re.fullmatch(_NAME, name, re.ASCII):
        complaints.append(f"name part {_NAME_COMPLAINT}")
    return complaints


def _if(valid: Callable[[str], bool], complaint: str) -> Callable[[str], list[str]]:
    return lambda text: [] if valid(text) else [complaint]


def _is_base64(text: str) -> bool:
    try:
        b64decode(text, validate=True)
    except (Base64Error, ValueError):
        return False
    return bool(_BASE64.fullmatch(text))


def _is_date(text: str) -> bool:
    try:
        return bool(_DATE.fullmatch(text)) and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    match = _DATETIME.fullmatch(text)
    if match is None or not _is_date(match[1]):
        return False
    return int(match[2]) < 24 and int(match[3]) < 60 and int(match[4]) < 60


FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", _pattern_check(_LABEL, 63, _LABEL_COMPLAINT, False), 30),
    "dns1123Subdomain": NamedFormat(
        "DNS1123Subdomain", _pattern_check(_SUBDOMAIN, 253, _SUBDOMAIN_COMPLAINT, False), 60
    ),
    "dns1035Label": NamedFormat("DNS1035Label", _pattern_check(_LABEL_1035, 63, _LABEL_1035_COMPLAINT, False), 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _pattern_check(_LABEL, 63, _LABEL_COMPLAINT, True), 30),
    "dns1123SubdomainPrefix": NamedFormat(
        "DNS1123SubdomainPrefix", _pattern_check(_SUBDOMAIN, 253, _SUBDOMAIN_COMPLAINT, True), 60
    ),
    "dns1035LabelPrefix": NamedFormat(
        "DNS1035LabelPrefix", _pattern_check(_LABEL_1035, 63, _LABEL_1035_COMPLAINT, True), 30
    ),
    "labelValue": NamedFormat("LabelValue", _pattern_check(f"({_NAME})?", 63, _VALUE_COMPLAINT, False), 40),
    "uri": NamedFormat("URI", _if(is_request_uri, "invalid URI for request"), 1103),
    "uuid": NamedFormat("uuid", _if(lambda text: bool(_UUID.fullmatch(text)), "does not match the UUID format"), 69),
    "byte": NamedFormat("byte", _if(_is_base64, "invalid base64"), 84),
    "date": NamedFormat("date", _if(_is_date, "invalid date"), 71),
    "datetime": NamedFormat("datetime", _if(_is_datetime, "invalid datetime"), 71),
}


def declare(functions: Registry) -> None:
    """Add the named formats."""
    for name, named in FORMATS.items():
        functions.plain(f"format.{name}", f"format.{name}", " -> kubernetes.NamedFormat", _constant(named))
    functions.plain("format.named", "format-named", "string -> optional(kubernetes.NamedFormat)", _named)
    functions.member(
        "validate", "format-validate", "kubernetes.NamedFormat, string -> optional(list(string))", _validate
    )


def _constant(named: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: named


def _named(name: str) -> Optional:
    return Optional(FORMATS[name]) if name in FORMATS else NONE


def _validate(named: NamedFormat, text: str) -> Any:
    complaints = named.check(text)
    return Optional(tuple(complaints)) if complaints else NONE
