"""What a mutant is: one change in one function, and the name under which `tests/surviving_mutants.toml` lists it.

Only functions are changed: tables and defaults are made at import. Messages stay as they are. `mutants` runs them.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

DECISIONS = {"ALLOW": "ASK", "ASK": "ALLOW", "DENY": "ASK"}
TURNED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
OTHER_CALLS = {"any": "all", "all": "any", "max": "min", "min": "max"}
OTHER_METHODS = {"partition": "rpartition", "rpartition": "partition", "find": "rfind", "rfind": "find"}
NEEDLESS_METHODS = ("casefold", "lower", "upper", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix")
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Mutant(NamedTuple):
    """One change of a file: the text between two offsets (of bytes) is replaced."""

    file: str
    function: str
    change: str
    lines: range
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a file, in the order of the text."""
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int, str], Mutant] = {}
    counted: dict[tuple[str, str], int] = defaultdict(int)
    for name, function in _functions(ast.parse(source)):
        for statement, node, text in _changes(function):
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
            if (start, end, text) in found or b" ".join(source[start:end].split()) == text.encode():
                continue
            first, last = starts[node.lineno - 1], starts[node.end_lineno or node.lineno]
            before = source[first:last].decode()
            after = (source[first:start] + text.encode() + source[end:last]).decode()
            change = f"{' '.join(before.split())} => {' '.join(after.split())}"
            counted[name, change] += 1
            if counted[name, change] > 1:
                change += f" ({counted[name, change]})"
            reach = range(min(statement.lineno, node.lineno), (node.end_lineno or node.lineno) + 1)
            found[start, end, text] = Mutant(file, name, change, reach, start, end, text)
    return sorted(found.values(), key=lambda mutant: (mutant.start, mutant.end))


def _functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield the functions of a module and the methods of its classes; what is inside of them belongs to them."""
    inside: list[tuple[str, ast.AST]] = [("", node) for node in tree.body]
    while inside:
        prefix, node = inside.pop(0)
        if isinstance(node, Function):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            inside[:0] = [(f"{prefix}{node.name}.", each) for each in node.body]
        elif isinstance(node, ast.If | ast.Try):
            inside[:0] = [(prefix, each) for each in ast.iter_child_nodes(node)]


def _changes(function: Function) -> Iterator[tuple[ast.stmt, ast.expr | ast.stmt, str]]:
    """Yield the changes of a function's body: the statement, the node in it, and what stands there instead."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    todo: list[tuple[ast.stmt, ast.AST]] = [(statement, statement) for statement in body]
    unturned: set[ast.AST] = set()
    while todo:
        statement, node = todo.pop(0)
        unturned.update(_unturned(node))
        changes = [*_by_condition(node), *_by_return(node, function)]
        for changed, text in changes if node in unturned else [*changes, *_by_node(node)]:
            yield statement, changed, text
        if isinstance(node, ast.JoinedStr):  # what a message says
            continue
        skipped = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        inner: list[tuple[ast.stmt, ast.AST]] = []
        for child in ast.iter_child_nodes(node):
            if child in skipped or (isinstance(child, ast.keyword) and child.arg == "strict"):
                continue
            inner.append((child if isinstance(child, ast.stmt) else statement, child))
        todo[:0] = inner


def _unturned(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the parts that are not negated: what notices that a part always holds, or never, notices that, too."""
    for part in node.values if isinstance(node, ast.BoolOp) else _conditions(node):
        match part:
            case ast.UnaryOp():
                yield part
            case ast.Compare(ops=[op]) if len(TURNED[type(op)]) == 1:
                yield part


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [test]
        case ast.comprehension(ifs=conditions):
            return conditions
        case ast.match_case(guard=ast.expr() as guard):
            return [guard]
    return []


def _by_condition(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield what takes a condition's choice away: it always holds, or never."""
    for test in _conditions(node):
        if isinstance(test, ast.Constant):
            continue
        named = any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(test))
        written = ast.unparse(test)
        if not isinstance(node, ast.While):
            yield test, f"(({written}) or True)" if named else "True"
        yield test, f"(({written}) and False)" if named else "False"


def _by_return(node: ast.AST, function: Function) -> Iterator[tuple[ast.expr, str]]:
    """Yield other values that the function may return by what it declares."""
    if not isinstance(node, ast.Return) or node.value is None or function.returns is None:
        return
    declared = ast.unparse(function.returns)
    if declared.endswith("None") and declared != "None" and not isinstance(node.value, ast.Constant):
        yield node.value, "None"
    if declared == "bool" and isinstance(node.value, ast.Call | ast.Name | ast.Attribute | ast.Subscript):
        yield node.value, "True"
        yield node.value, "False"


def _by_node(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.BoolOp(values=values):
            for index, value in enumerate(values):
                if not any(isinstance(inner, ast.NamedExpr) for inner in ast.walk(value)):
                    rest = values[:index] + values[index + 1 :]
                    yield node, _written(ast.BoolOp(node.op, rest) if len(rest) > 1 else rest[0])
        case ast.Compare(left=left, ops=ops, comparators=right):
            for index, op in enumerate(ops):
                for other in TURNED[type(op)]:
                    yield node, _written(ast.Compare(left, [*ops[:index], other(), *ops[index + 1 :]], right))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, _written(operand)
        case ast.Constant(value=value):
            yield from ((node, repr(other)) for other in _other_values(value))
        case ast.Name(id=name) if name in DECISIONS:
            yield node, DECISIONS[name]
        case ast.Call(func=ast.Name(id=name) as called) if name in OTHER_CALLS:
            yield called, OTHER_CALLS[name]
        case ast.Call(func=ast.Attribute(value=value, attr=method), args=args, keywords=keywords):
            if method in NEEDLESS_METHODS:
                yield node, _written(value)
            elif method in OTHER_METHODS:
                renamed = ast.Attribute(value, OTHER_METHODS[method], ast.Load())
                yield node, _written(ast.Call(renamed, args, keywords))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            yield node, _written(ast.BinOp(left, OPERATORS[type(op)](), right))
        case ast.AugAssign(target=target, op=op, value=value) if type(op) in OPERATORS:
            yield node, ast.unparse(ast.AugAssign(target, OPERATORS[type(op)](), value))
        case ast.Expr(value=ast.Call(func=called)) if ast.unparse(called) != "assert_never":
            yield node, "pass"
        case ast.Raise() | ast.Break():
            yield node, "pass" if isinstance(node, ast.Raise) else "continue"
        case ast.Continue():
            yield node, "break"


def _written(node: ast.expr) -> str:
    return f"({ast.unparse(ast.fix_missing_locations(node))})"


def _other_values(value: object) -> Iterator[object]:
    """Yield what may stand for a value; text with a blank is a message."""
    match value:
        case bool():
            yield not value
        case int():
            yield value + 1
        case str() if not any(letter.isspace() for letter in value.strip()) or value.isspace():
            yield f"XX{value}"
        case bytes():
            yield b"XX" + value
