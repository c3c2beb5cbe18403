"""Small changes to a module's source, one at a time, each of which a good test should notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

SAME = frozenset(
    {
        "asarray", "ascontiguousarray", "array", "astype", "float32", "copy", "list", "tuple", "set", "sorted", "dict",
        "partial",
        "property", "cast", "setflags", "int", "float", "isinstance", "len", "zip", "range", "enumerate", "register",
        "ModelCard", "Weights", "SourceNeeds", "cache", "MappingProxyType", "Network", "super", "_card", "all", "map",
    }
)  # fmt: skip
"""Calls whose removal changes nothing, or changes no numbers, or cannot be told from a wrong type."""
ELSEWHERE = frozenset({"_card", "calibration"})
"""What is no step of a model: its card, and how its scores compare with those of others."""
NO_STEP = ("dtype", "strict", "key")
"""Keywords that change no numbers, but for those of a wrong type."""
EITHER = frozenset({"min", "max", "minimum", "maximum", "clip"})
"""Calls whose first two arguments may come in either order."""
LONG = 12
"""Literals with more elements than this are tables: a few of their numbers stand for all."""
SWAPS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip
NEGATIONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Lt: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Mutant:
    """A module with one change."""

    module: str
    line: int
    what: str
    tree: ast.Module


def mutants(module: str, source: str, only: frozenset[str] = frozenset()) -> Iterator[Mutant]:
    """Every change of the module; `only`: of these functions, classes and constants at its top.

    Left alone: annotations, docstrings, cards and other decorators, error messages and imports.
    """
    tree = ast.parse(source)
    for index, top in enumerate(tree.body):
        if only and not _names(top) & only:
            continue
        for node in _nodes(top):
            for what, change in _changes(node):
                body = [*tree.body[:index], _changed(top, node, change), *tree.body[index + 1 :]]
                yield Mutant(module, getattr(node, "lineno", 0), what, ast.Module(body, []))


def _names(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return {node.target.id} if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else set()


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what lies below it, but for what is left alone."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.JoinedStr | ast.Assert):
        return
    if isinstance(node, ast.FunctionDef | ast.Assign | ast.AnnAssign) and _names(node) & ELSEWHERE:
        return
    if isinstance(node, ast.keyword) and node.arg in NO_STEP:
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("decorator_list", "annotation", "returns", "bases", "args") and not isinstance(node, ast.Call):
            continue
        if name == "args" and isinstance(node, ast.Call) and _called(node) == "reshape":
            value = [argument for argument in value if not isinstance(argument, ast.UnaryOp)]  # −1, as any negative
        if isinstance(node, ast.Call) and _called(node) in ("register", "ModelCard", "Weights", "_card"):
            continue
        items = value if isinstance(value, list) else [value]
        if isinstance(node, ast.Tuple | ast.List) and len(items) > LONG:
            items = items[:: len(items) // 3]
        for item in items:
            if isinstance(item, ast.AST):
                yield from _nodes(item)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


Change = Callable[[ast.AST], ast.AST | None]


def _changed(top: ast.stmt, node: ast.AST, change: Change) -> ast.stmt:
    """A copy of a statement in which `change` was made of the copy of `node`; None: a statement that goes."""
    place = next(index for index, found in enumerate(ast.walk(top)) if found is node)
    made = copy.deepcopy(top)
    target = next(found for index, found in enumerate(ast.walk(made)) if index == place)

    class Replace(ast.NodeTransformer):
        def visit(self, found: ast.AST) -> ast.AST:
            if found is target:
                return change(found) or ast.Pass()
            self.generic_visit(found)
            return found

    result = ast.fix_missing_locations(Replace().visit(made))
    assert isinstance(result, ast.stmt)
    return result


def _changes(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """What can be done to one node: a text, and a function that makes the new node of its copy."""
    text = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
    short = " ".join(text.split())
    short = short if len(short) <= 70 else f"{short[:69]}…"
    match node:
        case ast.Constant(value=bool() as flag):
            yield f"{flag} → {not flag}", lambda n: ast.Constant(not flag)
        case ast.Constant(value=int() as number):
            yield f"{number} → {number + 1}", lambda n: ast.Constant(number + 1)
        case ast.Constant(value=float() as real):
            other = real * 1.1 + 0.01
            yield f"{real} → {other:.6g}", lambda n: ast.Constant(other)
        case ast.BinOp(op=op):
            if other_operator := SWAPS.get(type(op)):
                yield f"{short}: other operator", lambda n: _set(n, op=other_operator())
            yield f"{short}: left side only", lambda n: n.left  # type: ignore[attr-defined]
        case ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield f"without: {short}", lambda n: None
        case ast.If(body=[ast.Raise(), *_]):
            yield f"never: {short}", lambda n: None
        case ast.Compare(ops=[comparison]):
            negated = NEGATIONS[type(comparison)]
            yield f"{short}: negated", lambda n: _set(n, ops=[negated()])
        case ast.BoolOp(op=junction):
            swapped = ast.Or() if isinstance(junction, ast.And) else ast.And()
            yield f"{short}: and for or", lambda n: _set(n, op=swapped)
        case ast.UnaryOp(op=ast.USub()):
            yield f"{short}: without minus", lambda n: n.operand  # type: ignore[attr-defined]
        case ast.IfExp():
            yield f"{short}: always first", lambda n: n.body  # type: ignore[attr-defined]
            yield f"{short}: always second", lambda n: n.orelse  # type: ignore[attr-defined]
        case ast.Subscript(slice=place) if "::" in ast.unparse(place) and isinstance(node.ctx, ast.Load):
            yield f"{short}: whole", lambda n: n.value  # type: ignore[attr-defined]
        case ast.Tuple(elts=[ast.Constant() | ast.Name() as first, second, *_], ctx=ast.Load()) if ast.dump(
            first
        ) != ast.dump(second) and not isinstance(second, ast.Slice):
            yield f"{short}: first two swapped", _swapped
        case ast.Call():
            yield from _calls(node, short)


def _calls(node: ast.Call, short: str) -> Iterator[tuple[str, Change]]:
    name, positional = _called(node), [a for a in node.args if not isinstance(a, ast.Starred)]
    if name not in SAME:
        if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value):
            yield f"{short}: without the call", lambda n: n.func.value  # type: ignore[attr-defined]
        elif positional:
            yield f"{short}: first argument only", lambda n: n.args[0]  # type: ignore[attr-defined]
        for i in range(min(1, len(positional) - 1)):
            if ast.dump(positional[i]) != ast.dump(positional[i + 1]) and name not in EITHER:
                yield f"{short}: arguments swapped", lambda n, i=i: _exchanged(n, i)  # type: ignore[misc]
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in (*NO_STEP, None) and name not in SAME - {"Network", "sorted"}:
            yield f"{short}: without {keyword.arg}", lambda n, i=i: _without(n, i)  # type: ignore[misc]


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "cv2", "math", "onnx", "numpy_helper")


def _set(node: ast.AST, **fields: object) -> ast.AST:
    for name, value in fields.items():
        setattr(node, name, value)
    return node


def _swapped(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.Tuple)
    node.elts[:2] = node.elts[1::-1]
    return node


def _exchanged(node: ast.AST, i: int) -> ast.AST:
    assert isinstance(node, ast.Call)
    node.args[i], node.args[i + 1] = node.args[i + 1], node.args[i]
    return node


def _without(node: ast.AST, i: int) -> ast.AST:
    assert isinstance(node, ast.Call)
    del node.keywords[i]
    return node
