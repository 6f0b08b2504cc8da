"""Changes of one place of a module, each of which breaks the module or changes nothing that can be seen.

A change is in the body of a function: a comparison, a condition, a number, a sign, or a statement that is left out.
Traces, texts and what a constructor assigns stay.
"""

import ast
from collections.abc import Iterator
from typing import Final

import attrs

_OTHER_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OTHER_SIGNS: Final[dict[type[ast.operator], type[ast.operator]]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
_OTHER_FUNCTIONS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_TRACES: Final = ("trace", "_trace")
# Parts in which a change is no Python, or is at another place than its node says (format strings, before Python 3.12).
_LEFT_ALONE: Final = ("annotation", "returns", "type_params", "pattern")


@attrs.frozen(order=True)
class Mutant:
    """The change of a module's source between two offsets, in bytes of UTF-8."""

    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.line}: `{before}` becomes `{after}`"


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """All changes of the module, in the order of their places."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = set[Mutant]()
    for node, replacement in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        before = source[start:end].decode()
        found.add(Mutant(path, node.lineno, start, end, before, replacement))
    return sorted(found, key=lambda each: (each.start, each.end, each.after))


def _changes(tree: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in function.body:
                is_assigned_at_birth = function.name == "__init__" and isinstance(statement, ast.Assign)
                yield from () if is_assigned_at_birth else _changes_below(statement)


def _changes_below(node: ast.AST) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Assert | ast.Raise | ast.JoinedStr):
        return  # another function is visited by itself; what is raised is text for the most part
    if _is_trace(node):
        return
    if isinstance(node, ast.stmt):
        yield from _changed_statement(node)
    elif isinstance(node, ast.expr):
        yield from ((node, f"({changed})") for changed in _changed_expression(node))
    for name, child in ast.iter_fields(node):
        if name not in _LEFT_ALONE:
            for each in child if isinstance(child, list) else [child]:
                if isinstance(each, ast.AST):
                    yield from _changes_below(each)


def _is_trace(node: ast.AST) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return str(name).startswith(_TRACES)


def _changed_statement(node: ast.stmt) -> Iterator[tuple[ast.stmt | ast.expr, str]]:
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    changes_object = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Subscript)
    if is_call or changes_object or isinstance(node, ast.AugAssign | ast.Delete):
        yield node, "pass"
    if isinstance(node, ast.AugAssign) and type(node.op) in _OTHER_SIGNS:
        yield node, ast.unparse(ast.AugAssign(node.target, _OTHER_SIGNS[type(node.op)](), node.value))
    if isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Name | ast.Call | ast.Attribute):
        yield node.test, f"(not {ast.unparse(node.test)})"


def _changed_expression(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            yield ast.unparse(ast.Compare(left, [_OTHER_COMPARISONS[type(op)]()], comparators))
        case ast.BoolOp(op=op, values=values):
            for left_out in values:
                rest = [each for each in values if each is not left_out]
                yield ast.unparse(rest[0] if len(rest) == 1 else ast.BoolOp(op, rest))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OTHER_SIGNS:
            yield ast.unparse(ast.BinOp(left, _OTHER_SIGNS[type(op)](), right))
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in _OTHER_FUNCTIONS:
            yield ast.unparse(ast.Call(ast.Name(_OTHER_FUNCTIONS[name]), arguments, keywords))
        case ast.IfExp(body=body, orelse=orelse):
            yield from (ast.unparse(body), ast.unparse(orelse))
