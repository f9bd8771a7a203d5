"""The text of a selector in the string dialect, which allows comments that CEL does not have."""

from __future__ import annotations

import re

#: String literals, which may hold anything, or a comment up to the end of its line.
_PIECE = re.compile(
    r"""(?P<string>[rR]?(?:\"\"\".*?\"\"\"|'''.*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')) | (?P<comment>(?:\#|//)[^\n]*)""",
    re.VERBOSE | re.DOTALL,
)


def split_comments(text: str) -> tuple[str, tuple[str, ...]]:
    """The expression without its comments, and the comments without their marks."""
    comments: list[str] = []

    def take(match: re.Match[str]) -> str:
        if match["comment"] is None:
            return match[0]
        comments.append(match[0].lstrip("#/").strip())
        return ""

    return _PIECE.sub(take, text).strip(), tuple(comment for comment in comments if comment)
