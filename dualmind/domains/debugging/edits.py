"""One-place edits of a function: what breaks a program, and what may repair it.

Edits are of five kinds, as in mutation testing (DeMillo, Lipton and Sayward 1978). Each can be undone by another edit
of the result, so the true repair is always among the edits of a broken function.
"""

import ast
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from dualmind.domains.debugging.program import Program

EditKind = Literal["operator", "constant", "comparison", "index", "call"]
EDIT_KINDS: tuple[EditKind, ...] = get_args(EditKind)

_Node = TypeVar("_Node", ast.operator, ast.cmpop)
_OPERATORS: tuple[tuple[type[ast.operator], ...], ...] = ((ast.Add, ast.Sub, ast.Mult), (ast.FloorDiv, ast.Mod))
_COMPARISONS: tuple[tuple[type[ast.cmpop], ...], ...] = ((ast.Lt, ast.LtE, ast.Gt, ast.GtE), (ast.Eq, ast.NotEq))
_PAIRS = "functions of two numbers"  # no name of a function, so it can stand beside them
_BUILT_IN = ("min", "max")
_BUILT_IN_REDUCE = ("sum", "len")


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of one function."""

    function: str
    site: int  # which place of the function, from 0 in the order of the text's tree
    kind: EditKind
    words: str  # what it changes, for a reader: "+ -> -"
    source: str  # of the function afterwards


def edits(program: Program, name: str) -> tuple[Edit, ...]:
    """All edits of a function, each with another text; the original's is not among them."""
    (function,) = (own for own in program.functions if own.name == name)
    swaps = _call_groups(program, name)
    tree = ast.parse(function.source)
    found: dict[str, Edit] = {}
    for site, (node, in_index) in enumerate(list(_nodes(tree))):
        for kind, words, changed in list(_changes(node, in_index, swaps)):
            source = _unparse_with(tree, node, changed)
            if source != function.source:
                found.setdefault(source, Edit(name, site, kind, words, source))
    return tuple(found.values())


def _call_groups(program: Program, name: str) -> dict[str, tuple[str, ...]]:
    """Names that a call may be swapped for: earlier functions of the same kind, and built-in ones of the same form."""
    groups: dict[str, list[str]] = {"pair": []}
    for function in program.functions:
        if function.name == name:
            break
        groups.setdefault(function.kind, []).append(function.name)
    swaps = {own: tuple(group) for group in (*groups.values(), _BUILT_IN, _BUILT_IN_REDUCE) for own in group}
    return {**swaps, _PAIRS: tuple(groups["pair"])}


def _nodes(tree: ast.AST, in_index: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """All nodes, parents first, and whether each stands in an index."""
    yield tree, in_index
    for child in ast.iter_child_nodes(tree):
        index = in_index or (isinstance(tree, ast.Subscript) and child is tree.slice)
        yield from _nodes(child, index)


def _unparse_with(tree: ast.AST, node: ast.AST, changed: ast.AST) -> str:
    """The text with the fields of ``changed`` in ``node``; the tree is put back as it was."""
    before = dict(ast.iter_fields(node))
    for field, value in ast.iter_fields(changed):
        setattr(node, field, value)
    text = ast.unparse(tree)
    for field, value in before.items():
        setattr(node, field, value)
    return text


def _changes(
    node: ast.AST, in_index: bool, swaps: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[EditKind, str, ast.AST]]:
    """What a node may become: nodes of the same class."""
    match node:
        case ast.BinOp(op=op) | ast.AugAssign(op=op):
            for other in _others(type(op), _OPERATORS):
                changed = copy(node)
                changed.op = other()
                yield _kind("operator", in_index), _arrow(op, other()), changed
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for order in _others(type(op), _COMPARISONS):
                yield "comparison", _arrow(op, order()), ast.Compare(left, [order()], [right])
        case ast.Constant(value=int(number)):
            # never below 0: "-1" is an operator and a constant, which could not be changed back
            for new in range(max(0, number - 1), number + 2):
                yield _kind("constant", in_index), f"{number} -> {new}", ast.Constant(new)
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in swaps:
            yield from _call_changes(name, arguments, swaps)


def _call_changes(
    name: str, arguments: list[ast.expr], swaps: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[EditKind, str, ast.AST]]:
    for new in swaps[name]:
        if new != name:
            yield "call", f"{name} -> {new}", ast.Call(ast.Name(new), arguments, [])
    if name in swaps[_PAIRS]:  # of two numbers, so that either order is sound
        yield "call", "swap arguments", ast.Call(ast.Name(name), arguments[::-1], [])


def _others(own: type[_Node], groups: tuple[tuple[type[_Node], ...], ...]) -> Iterator[type[_Node]]:
    for group in groups:
        if own in group:
            yield from (other for other in group if other is not own)


def _kind(kind: EditKind, in_index: bool) -> EditKind:
    return "index" if in_index else kind


def _arrow(old: ast.AST, new: ast.AST) -> str:
    return f"{type(old).__name__} -> {type(new).__name__}"
