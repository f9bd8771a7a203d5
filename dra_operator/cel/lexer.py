"""Expression text to tokens, and the escapes of string and bytes literals.

Source: CEL.g4 of the CEL specification. A token that does not lex is an error at once; there is no recovery.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from dra_operator.cel.errors import Issue

__all__ = ["LexError", "Token", "tokens", "unquote", "unquote_bytes"]


class LexError(Exception):
    """The text is not made of CEL tokens."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.message)
        self.issue = issue


class Token(NamedTuple):
    """`kind` is int, uint, float, string, bytes, ident, quoted (a backtick name), end, or the operator itself."""

    kind: str
    text: str
    start: int
    end: int


_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"""
_STRING = rf'''
    [rR]"""(?s:.*?)""" | [rR]\'\'\'(?s:.*?)\'\'\' | [rR]"[^"\n\r]*" | [rR]'[^'\n\r]*'
  | """(?:{_ESCAPE}|[^\\])*?""" | \'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\'
  | "(?:{_ESCAPE}|[^\\"\n\r])*" | '(?:{_ESCAPE}|[^\\'\n\r])*'
'''
_TOKEN = re.compile(
    rf"""
    (?P<space>[\t \r\n\f]+ | //[^\n]*)
  | (?P<bytes>[bB](?:{_STRING}))
  | (?P<string>{_STRING})
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ | \.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<ident>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<quoted>`[A-Za-z0-9_.\-/\ ]+`)
  | (?P<op>==|!=|<=|>=|&&|\|\||[-+*/%!<>.,?:()\[\]{{}}])
    """,
    re.VERBOSE | re.ASCII,
)
_ESCAPED = re.compile(
    r"\\(?:([abfnrtv\"'\\?`])|([0-3][0-7][0-7])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))"
)
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def tokens(source: str) -> list[Token]:
    """All tokens, ended by one of kind "end". Raises LexError."""
    found, offset, match = [], 0, _TOKEN.match
    while offset < len(source):
        token = match(source, offset)
        if token is None:
            shown = source[offset : offset + 1]
            raise LexError(Issue(offset, f"Syntax error: token recognition error at: {shown!r}"))
        kind = token.lastgroup or ""
        if kind != "space":
            text = token.group()
            found.append(Token(text if kind == "op" else kind, text, offset, token.end()))
        offset = token.end()
    found.append(Token("end", "<EOF>", len(source), len(source)))
    return found


def unquote(text: str, offset: int) -> str:
    """The value of a string literal. Raises LexError for an escape that is no Unicode code point."""
    body, raw = _body(text)
    if raw or "\\" not in body:
        return body

    def replace(match: re.Match[str]) -> str:
        simple, octal, *hexes = match.groups()
        if simple is not None:
            return _SIMPLE.get(simple, simple)
        code = int(octal, 8) if octal is not None else int(next(filter(None, hexes)), 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise LexError(Issue(offset, "invalid unicode code point"))
        return chr(code)

    return _ESCAPED.sub(replace, body)


def unquote_bytes(text: str, offset: int) -> bytes:
    """The value of a bytes literal, without its leading b. Raises LexError for \\u escapes, which bytes do not have."""
    body, raw = _body(text[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    value, end = bytearray(), 0
    for match in _ESCAPED.finditer(body):
        simple, octal, byte, *wide = match.groups()
        if any(wide):
            raise LexError(Issue(offset, "unable to unescape string"))
        value += body[end : match.start()].encode("utf-8", "surrogatepass")
        if simple is not None:
            value += _SIMPLE.get(simple, simple).encode()
        else:
            value.append(int(octal, 8) if octal is not None else int(byte, 16))
        end = match.end()
    return bytes(value + body[end:].encode("utf-8", "surrogatepass"))


def _body(text: str) -> tuple[str, bool]:
    """What stands between the quotes, with line ends made \\n, and whether it is raw."""
    raw = text[0] in "rR"
    text = text[raw:]
    width = 3 if text[:3] in ('"""', "'''") and len(text) >= 6 else 1
    return text[width:-width].replace("\r\n", "\n").replace("\r", "\n"), raw
