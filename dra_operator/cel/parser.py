"""Tokens to syntax tree: recursive descent with precedence climbing, bounded in depth.

cel-go refuses what nests deeper than 250 in any one grammar rule or in operators overall; the same expressions are refused
here, so that none is accepted that the API server rejects, and recursion stays bounded.
Source: CEL.g4 of the CEL specification; limits of cel-go's parser.
"""

from __future__ import annotations

from dra_operator.cel.ast import Call, Expr, Ident, ListExpr, Literal, MapEntry, MapExpr, Select
from dra_operator.cel.errors import CompileError, Issue, compile_error
from dra_operator.cel.lexer import LexError, Token, tokens, unquote, unquote_bytes
from dra_operator.cel.macros import MacroError, expand
from dra_operator.cel.values import INT64_MAX, INT64_MIN, UINT64_MAX, Uint

__all__ = ["parse"]

_MAX_DEPTH = 250
_RELATIONS = {"<", "<=", ">", ">=", "==", "!=", "in"}
_CALC = {"*": 2, "/": 2, "%": 2, "+": 1, "-": 1}
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_KEYWORDS = ("true", "false", "null", "in")


class _Stop(Exception):
    """Parsing cannot go on."""

    def __init__(self, offset: int, message: str) -> None:
        super().__init__(message)
        self.issue = Issue(offset, message)


def parse(source: str) -> Expr:
    """The tree of an expression. Raises CompileError with the place of the first mistake."""
    try:
        return _Parser(source).start()
    except LexError as error:
        raise compile_error(source, [error.issue]) from None
    except MacroError as error:
        raise compile_error(source, [Issue(error.offset, error.message)]) from None
    except _Stop as stop:
        raise compile_error(source, [stop.issue]) from None
    except RecursionError:
        raise CompileError(f"compilation failed: expression recursion limit exceeded: {_MAX_DEPTH}") from None


class _Parser:
    def __init__(self, source: str) -> None:
        self.tokens = tokens(source)
        self.index = 0
        self.token = self.tokens[0]
        # How many of each grammar rule are open, as cel-go counts them; the other rules never nest deeper than these.
        self.open_expr = self.open_relation = self.open_calc = 0

    # --- tokens

    def advance(self) -> Token:
        token = self.token
        self.index += 1
        self.token = self.tokens[self.index]
        return token

    def take(self, kind: str) -> bool:
        if self.token.kind == kind:
            self.advance()
            return True
        return False

    def expect(self, kind: str) -> Token:
        if self.token.kind != kind:
            raise self.unexpected(f"expecting {kind!r}")
        return self.advance()

    def unexpected(self, wanted: str = "expecting an expression") -> _Stop:
        token = self.token
        what = "mismatched input" if token.kind != "end" else "unexpected end of input"
        shown = f" {token.text!r}" if token.kind != "end" else ""
        return _Stop(token.start, f"Syntax error: {what}{shown} {wanted}")

    @property
    def last_end(self) -> int:
        return self.tokens[self.index - 1].end

    # --- depth

    def check(self, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise _Stop(self.token.start, f"expression recursion limit exceeded: {_MAX_DEPTH}")

    def spanned(self, node: Expr, start: int, *below: Expr | None, operator: bool = False) -> Expr:
        """Note where a node stands and how many operators nest in it."""
        node.start, node.end = start, self.last_end
        node.depth = max((part.depth for part in below if part is not None), default=0) + operator
        if node.depth > _MAX_DEPTH:
            raise _Stop(node.offset, "max recursion depth exceeded")
        return node

    # --- rules

    def start(self) -> Expr:
        expr = self.expr()
        if self.token.kind != "end":
            raise self.unexpected("expecting <EOF>")
        return expr

    def expr(self) -> Expr:
        self.open_expr += 1
        self.check(self.open_expr)
        start = self.token.start
        condition = self.logical("||")
        if self.token.kind == "?":
            offset = self.advance().start
            truthy = self.logical("||")
            self.expect(":")
            falsy = self.expr()
            call = Call(offset, "_?_:_", [condition, truthy, falsy])
            condition = self.spanned(call, start, condition, truthy, falsy, operator=True)
        self.open_expr -= 1
        return condition

    def logical(self, operator: str) -> Expr:
        """A chain of `||`, or of `&&`, as one call with all its terms."""
        start, terms, offset = self.token.start, [], -1
        while True:
            terms.append(self.logical("&&") if operator == "||" else self.relation())
            if self.token.kind != operator:
                break
            token = self.advance()
            offset = token.start if offset < 0 else offset
        if len(terms) == 1:
            return terms[0]
        return self.spanned(Call(offset, f"_{operator}_", terms), start, *terms)

    def relation(self) -> Expr:
        self.open_relation += 1
        self.check(self.open_relation)
        start = self.token.start
        left = self.calc(1)
        while self.token.kind in _RELATIONS or (self.token.kind == "ident" and self.token.text == "in"):
            # The right side is a rule of its own, the left one has been closed.
            self.open_relation += 1
            self.check(self.open_relation)
            token = self.advance()
            right = self.calc(1)
            self.open_relation -= 1
            name = "@in" if token.text == "in" else f"_{token.text}_"
            left = self.spanned(Call(token.start, name, [left, right]), start, left, right, operator=True)
        self.open_relation -= 1
        return left

    def calc(self, lowest: int) -> Expr:
        self.open_calc += 1
        self.check(self.open_calc)
        start = self.token.start
        left = self.unary()
        while (precedence := _CALC.get(self.token.kind, 0)) >= lowest:
            token = self.advance()
            right = self.calc(precedence + 1)
            call = Call(token.start, f"_{token.text}_", [left, right])
            left = self.spanned(call, start, left, right, operator=True)
        self.open_calc -= 1
        return left

    def unary(self) -> Expr:
        token = self.token
        if token.kind not in ("!", "-"):
            return self.member()
        count = 0
        while self.token.kind == token.kind:
            if token.kind == "-" and not count and self.tokens[self.index + 1].kind in ("int", "float"):
                break  # a single sign is part of the number
            self.advance()
            count += 1
        operand = self.member()
        if count % 2 == 0:
            return operand
        name = "!_" if token.kind == "!" else "-_"
        return self.spanned(Call(token.start, name, [operand]), token.start, operand)

    def member(self) -> Expr:
        start = self.token.start
        node = self.primary()
        while True:
            kind = self.token.kind
            if kind == ".":
                node = self.dotted(node, start)
            elif kind == "[":
                node = self.indexed(node, start)
            elif kind == "{" and (name := _qualified_name(node)):
                raise _Stop(start, f"undeclared reference to '{name}' (in container '')")
            else:
                return node

    def dotted(self, operand: Expr, start: int) -> Expr:
        dot = self.advance()
        optional = self.take("?")
        token = self.token
        if token.kind not in ("ident", "quoted") or token.text in _KEYWORDS:
            raise self.unexpected("expecting IDENTIFIER")
        self.advance()
        if token.kind == "ident" and not optional and self.token.kind == "(":
            opening = self.advance().start
            args = self.arguments()
            expanded = expand(opening, token.text, operand, args)
            call = expanded or Call(opening, token.text, args, operand)
            return self.spanned(call, start, operand, *args, operator=True)
        name = token.text[1:-1] if token.kind == "quoted" else token.text
        select = Select(dot.start, operand, name, optional=optional)
        return self.spanned(select, start, operand, operator=True)

    def indexed(self, operand: Expr, start: int) -> Expr:
        opening = self.advance()
        optional = self.take("?")
        index = self.expr()
        self.expect("]")
        call = Call(opening.start, "_[?_]" if optional else "_[_]", [operand, index])
        return self.spanned(call, start, operand, index, operator=True)

    def arguments(self) -> list[Expr]:
        args: list[Expr] = []
        if self.take(")"):
            return args
        while True:
            args.append(self.expr())
            if self.take(")"):
                return args
            if not self.take(","):
                raise self.unexpected("expecting ')'")

    def primary(self) -> Expr:
        token = self.token
        match token.kind:
            case "(":
                self.advance()
                inner = self.expr()
                self.expect(")")
                return inner
            case "[":
                return self.list_literal()
            case "{":
                return self.map_literal()
            case "." | "ident":
                return self.name()
            case "-" | "int" | "uint" | "float" | "string" | "bytes":
                return self.literal()
        raise self.unexpected()

    def name(self) -> Expr:
        start = self.token.start
        leading_dot = self.take(".")
        token = self.token
        if token.kind != "ident":
            raise self.unexpected("expecting IDENTIFIER")
        if not leading_dot and token.text in ("true", "false", "null"):
            self.advance()
            value = None if token.text == "null" else token.text == "true"
            return Literal(start, value, start, token.end)
        if token.text in _KEYWORDS:
            raise self.unexpected("expecting IDENTIFIER")
        self.advance()
        if token.text in _RESERVED:
            raise _Stop(token.start, f"reserved identifier: {token.text}")
        if self.token.kind == "(":
            opening = self.advance().start
            args = self.arguments()
            expanded = None if leading_dot else expand(opening, token.text, None, args)
            return self.spanned(expanded or Call(opening, token.text, args), start, *args)
        return Ident(token.start, token.text, leading_dot, start, token.end)

    def list_literal(self) -> Expr:
        opening = self.advance()
        elements: list[Expr] = []
        optional: set[int] = set()
        while self.more("]", bool(elements)):
            if self.take("?"):
                optional.add(len(elements))
            elements.append(self.expr())
        self.expect("]")
        return self.spanned(ListExpr(opening.start, elements, frozenset(optional)), opening.start, *elements)

    def map_literal(self) -> Expr:
        opening = self.advance()
        entries: list[MapEntry] = []
        while self.more("}", bool(entries)):
            optional = self.take("?")
            key = self.expr()
            self.expect(":")
            entries.append(MapEntry(key, self.expr(), optional))
        self.expect("}")
        node = MapExpr(opening.start, entries)
        return self.spanned(node, opening.start, *node.children())

    def more(self, closing: str, begun: bool) -> bool:
        """Whether another element follows; one comma may stand before the closing bracket."""
        if begun and not self.take(","):
            return False
        if not begun and self.token.kind == ",":
            self.advance()
            return False
        return self.token.kind != closing

    def literal(self) -> Expr:
        start = self.token.start
        negative = self.take("-")
        token = self.token
        value: object
        match token.kind:
            case "int":
                value = _integer(token.text) * (-1 if negative else 1)
                if not INT64_MIN <= value <= INT64_MAX:
                    raise _Stop(start, "invalid int literal")
            case "float":
                value = float(token.text) * (-1 if negative else 1)
                if value in (float("inf"), float("-inf")):
                    raise _Stop(start, "invalid double literal")
            case "uint" if not negative:
                value = Uint(_integer(token.text[:-1]))
                if value > UINT64_MAX:
                    raise _Stop(start, "invalid uint literal")
            case "string" if not negative:
                value = unquote(token.text, start)
            case "bytes" if not negative:
                value = unquote_bytes(token.text, start)
            case _:
                raise self.unexpected()
        self.advance()
        return Literal(start, value, start, token.end)


def _integer(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:], 16)
    # More digits than any 64-bit number has: out of range whatever they are, and int() would refuse thousands of them.
    digits = text.lstrip("0")
    return int(digits or "0") if len(digits) <= 20 else UINT64_MAX + 1


def _qualified_name(node: Expr) -> str | None:
    """`a.b.c` as text, where a message literal could start."""
    if isinstance(node, Ident):
        return node.name
    if isinstance(node, Select) and not node.optional and not node.test:
        prefix = _qualified_name(node.operand)
        return f"{prefix}.{node.field}" if prefix else None
    return None
