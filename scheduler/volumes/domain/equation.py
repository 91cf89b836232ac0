# SPDX-License-Identifier: Apache-2.0
"""The language of ``filter_function`` and ``goodness_function``: parses a text once, and computes it for many pools.

Called by :mod:`scheduler.volumes.domain.pool_equations` and :mod:`scheduler.volumes.weights.goodness`. Tightest
first: functions ``abs max min``; ``^``; sign; ``* /``; ``+ -``; ``not``; comparisons, which chain; ``a ? b : c``;
``and``; ``or``; ``,``. A name of the form ``group.key`` is looked up; any other name, and a text in quotes, stands
for itself. A text that reads as a number is that number. Both sides of ``and`` and ``or`` are always computed.

Cinder's own parser differs in these points. It reads two operands of a chain of ``and`` or ``or``, and three parts of a
chain of ``? :``; it drops the fraction of a number that it looks up; a number in quotes is a text; and a text times a number
is that text repeatedly. With ``as_cinder`` this one does the same.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fleet.json_codec import JSONMapping

Variables = Mapping[str, JSONMapping | None]
Node = Callable[[Variables], Any]
Operation = Callable[[Any, Any], Any]

_TOKENS = re.compile(
    r"\s*(?:(?P<number>[0-9]+\.[0-9]+|[0-9]+)|(?P<name>[A-Za-z_.]+)|(?P<text>\"[^\"]*\"|'[^']*')"
    r"|(?P<mark>&&|\|\||<=|>=|!=|==|<>|[-+*/^()?:,<>!]))"
)
_COMPARISONS: Mapping[str, Operation] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
}
_AND, _OR, _NOT = ("and", "AND", "&&"), ("or", "OR", "||"), ("not", "NOT", "!")
#: Kinds of tokens that are operands.
_VALUES = ("number", "name", "text")
_FUNCTIONS: Mapping[str, Callable[..., object]] = {"abs": abs, "max": max, "min": min}
#: An equation is a few lines in a configuration file. A longer one, or a larger whole number, could stop a scheduler.
MOST_CHARACTERS = 10_000
MOST_BITS = 4096


class EquationError(ValueError):
    """An equation cannot be parsed or computed. The message says why."""


class _Token(NamedTuple):
    kind: str
    text: str


_END = _Token("end", "the end")


class Equation(NamedTuple):
    """A parsed text, and the names that it looks up."""

    node: Node
    names: frozenset[str]

    def value(self, variables: Variables) -> Any:
        """:raises EquationError: a name is not known, or the operation cannot be done"""
        try:
            return self.node(variables)
        except EquationError:
            raise
        except (ArithmeticError, TypeError, ValueError, RecursionError) as wrong:
            raise EquationError(str(wrong)) from None


@functools.lru_cache(maxsize=1024)
def parse(text: str, as_cinder: bool = False) -> Equation:
    """:raises EquationError: with the place of the mistake"""
    if len(text) > MOST_CHARACTERS:
        raise EquationError(f"the equation has {len(text)} characters, at most {MOST_CHARACTERS} are allowed")
    parser = _Parser(_split(text), as_cinder)
    try:
        node = parser.whole()
    except RecursionError:
        raise EquationError("the equation is nested too deeply") from None
    parser.expect(_END.text)
    return Equation(node, frozenset(parser.names))


def _split(text: str) -> list[_Token]:
    tokens, place = [], 0
    text = text.rstrip()
    while place < len(text):
        found = _TOKENS.match(text, place)
        if found is None:
            raise EquationError(f"cannot read {text[place : place + 20].strip()!r}")
        tokens.append(_Token(str(found.lastgroup), found[str(found.lastgroup)]))
        place = found.end()
    return [*tokens, _END]


class _Parser:
    """Recursive descent, a method per level; ``names`` collects what the equation looks up."""

    def __init__(self, tokens: list[_Token], as_cinder: bool) -> None:
        self._tokens = tokens
        self._place = 0
        self._as_cinder = as_cinder
        self.names: set[str] = set()

    def _take(self, *texts: str) -> str | None:
        """Return the next token's text and go on, if it is one of these."""
        token = self._tokens[self._place]
        if token.kind in ("number", "text") or token.text not in texts:
            return None
        self._place += 1
        return token.text

    def expect(self, text: str) -> None:
        if self._take(text) is None:
            raise EquationError(f"expected {text}, found {self._tokens[self._place].text}")

    def whole(self) -> Node:
        """``a, b, ...``: a list, if there are several."""
        parts = [self._disjunction()]
        while self._take(","):
            parts.append(self._disjunction())
        if len(parts) == 1:
            return parts[0]
        return functools.partial(_listed, parts)

    def _disjunction(self) -> Node:
        return self._chain(_OR, self._conjunction, lambda one, other: one or other)

    def _conjunction(self) -> Node:
        return self._chain(_AND, self._choice, lambda one, other: one and other)

    def _chain(self, marks: tuple[str, ...], operand: Callable[[], Node], join: Operation) -> Node:
        parts = [operand()]
        while self._take(*marks):
            parts.append(operand())
        if len(parts) == 1:
            return parts[0]
        counted = parts[:2] if self._as_cinder else parts
        return lambda variables: functools.reduce(join, [part(variables) for part in counted])

    def _choice(self) -> Node:
        condition = self._comparison()
        if not self._take("?"):
            return condition
        chosen = self._comparison()
        self.expect(":")
        other = self._comparison() if self._as_cinder else self._choice()
        while self._as_cinder and self._take("?"):
            self._comparison()
            self.expect(":")
            self._comparison()
        return lambda variables: chosen(variables) if condition(variables) else other(variables)

    def _comparison(self) -> Node:
        first, others = self._negation(), []
        while mark := self._take(*_COMPARISONS):
            others.append((_COMPARISONS[mark], self._negation()))
        if not others:
            return first

        def compared(variables: Variables) -> bool:
            one = first(variables)
            for compare, operand in others:
                other = operand(variables)
                if not compare(one, other):
                    return False
                one = other
            return True

        return compared

    def _negation(self) -> Node:
        if not self._take(*_NOT):
            return self._sum()
        operand = self._negation()
        return lambda variables: not operand(variables)

    def _sum(self) -> Node:
        return self._left({"+": operator.add, "-": operator.sub}, self._product)

    def _product(self) -> Node:
        return self._left({"*": _repeated if self._as_cinder else _times, "/": operator.truediv}, self._signed)

    def _left(self, operations: Mapping[str, Operation], operand: Callable[[], Node]) -> Node:
        node = operand()
        while mark := self._take(*operations):
            node = _binary(operations[mark], node, operand())
        return node

    def _signed(self) -> Node:
        mark = self._take("+", "-")
        if mark is None:
            return self._power()
        operand = self._signed()
        return (lambda variables: -operand(variables)) if mark == "-" else (lambda variables: +operand(variables))

    def _power(self) -> Node:
        base = self._call()
        return _binary(_power, base, self._power()) if self._take("^") else base

    def _call(self) -> Node:
        name = self._take(*_FUNCTIONS) if self._is_called() else None
        if name is None:
            return self._operand()
        function, argument = _FUNCTIONS[name], self._call()

        def called(variables: Variables) -> Any:
            value = argument(variables)
            return function(*value) if isinstance(value, list) else function(value)

        return called

    def _is_called(self) -> bool:
        """Return True if an operand follows a name: a function without one is a text like any other."""
        following = self._tokens[min(self._place + 1, len(self._tokens) - 1)]
        return following.text == "(" or (following.kind in _VALUES and following.text not in (*_AND, *_OR, *_NOT))

    def _operand(self) -> Node:
        if self._take("("):
            node = self.whole()
            self.expect(")")
            return node
        token = self._tokens[self._place]
        if token.kind not in _VALUES or token.text in (*_AND, *_OR, *_NOT):
            raise EquationError(f"expected a value, found {token.text}")
        self._place += 1
        group, _, key = token.text.partition(".")
        if token.kind == "name" and group and key and "." not in key:
            self.names.add(token.text)
            return self._looked_up(group, key)
        value = self._literal(token)
        return lambda variables: value

    def _looked_up(self, group: str, key: str) -> Node:
        def look_up(variables: Variables) -> Any:
            known = variables.get(group)
            if not isinstance(known, Mapping) or key not in known:
                raise EquationError(f"{group}.{key} is not known")
            return self._read(known[key])

        return look_up

    def _literal(self, token: _Token) -> Any:
        if token.kind != "text":
            return self._read(token.text)
        inside = token.text[1:-1]
        return inside.replace('"', "").replace("'", "") if self._as_cinder else self._read(inside)

    def _read(self, value: Any) -> Any:
        """Return a number if the value is or reads as one, or else its text without quotes."""
        if value is None or isinstance(value, list | tuple | dict):
            raise EquationError(f"{value!r:.40} is neither a number nor a text")
        if isinstance(value, float) and not self._as_cinder:
            return value
        for number in (int, float):
            try:
                return number(value)
            except ValueError:
                pass
        return str(value).replace('"', "").replace("'", "")


def _binary(operation: Operation, one: Node, other: Node) -> Node:
    return lambda variables: operation(one(variables), other(variables))


def _times(one: object, other: Any) -> Any:
    if isinstance(one, str) or isinstance(other, str):
        raise EquationError("a text cannot be multiplied")
    return one * other


def _repeated(one: object, other: Any) -> Any:
    """Multiply as :func:`_times` does; a text may also be repeated."""
    text, number = (one, other) if isinstance(one, str) else (other, one)
    if not isinstance(text, str):
        return one * other
    if not isinstance(number, int) or len(text) * number > MOST_CHARACTERS:
        raise EquationError("a text is repeated a whole number of times, and not to more than an equation may have")
    return text * number


def _listed(parts: Sequence[Node], variables: Variables) -> list[Any]:
    """A list in parentheses at the end of a list is a part of it."""
    found = [part(variables) for part in parts]
    return [*found[:-1], *found[-1]] if isinstance(found[-1], list) else found


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and exponent > 0 and base.bit_length() * exponent > MOST_BITS:
        raise EquationError("the power is too large")
    return base**exponent
