"""Small faults that could be put into a source file, one at a time."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

_COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
             ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}  # fmt: skip


@dataclass(frozen=True)
class Mutation:
    """One fault: what stands there, what would stand there, and in which function."""

    path: str  # within the package
    line: int
    functions: tuple[int, ...]  # first lines of the functions around it, innermost first
    before: str
    after: str
    source: str  # the whole file with the fault
    text: str  # the line it begins in

    @property
    def name(self) -> str:
        """How a list of survivors names it; line numbers would not last."""
        return f"{self.path}: {self.before} → {self.after} in: {self.text}"


def mutations(path: str, text: str) -> Iterator[Mutation]:
    """Every fault that can be put into this file."""
    data = text.encode()
    lines = data.splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    for node, functions in _places(ast.parse(text), ()):
        for after in _changed(node):
            begin = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            whole = data[:begin] + after.encode() + data[end:]
            before = " ".join(data[begin:end].decode().split())
            line = lines[node.lineno - 1].decode().strip()
            yield Mutation(path, node.lineno, functions, before, after, whole.decode(), line)


def _places(
    node: ast.AST, functions: tuple[int, ...]
) -> Iterator[tuple[ast.expr | ast.stmt, tuple[int, ...]]]:
    """Each expression and statement that runs, with the functions around it."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                continue  # what stands in an f-string has no place of its own before Python 3.12
            if isinstance(child, ast.expr | ast.stmt):
                yield child, functions
            inner = functions
            if isinstance(child, ast.FunctionDef):
                first = min([child.lineno, *(one.lineno for one in child.decorator_list)])
                inner = (first, *functions)
            yield from _places(child, inner)


def _changed(node: ast.expr | ast.stmt) -> Iterator[str]:
    """What could stand in its place."""
    other = copy.deepcopy(node)
    match node, other:
        case ast.Compare(), ast.Compare():
            other.ops[0] = _COMPARED[type(node.ops[0])]()
            yield f"({ast.unparse(other)})"
        case ast.BoolOp(), ast.BoolOp():
            other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield f"({ast.unparse(other)})"
        case ast.BinOp(), ast.BinOp() if type(node.op) in _COMPUTED:
            other.op = _COMPUTED[type(node.op)]()
            yield f"({ast.unparse(other)})"
        case ast.UnaryOp(op=ast.Not()), _:
            yield f"({ast.unparse(node.operand)})"
        case ast.Constant(value=bool(value)), _:
            yield str(not value)
        case ast.Constant(value=int(value)), _:
            yield str(value + 1)
        case ast.Constant(value=float(value)), _:
            yield repr(value * 2 + 1)
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign(), _:
            yield "pass"
        case ast.Continue() | ast.Break(), _:
            yield "pass"
