"""Which statements of a Python script give names their values, and which of them surely run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from memcore.formats.objects import alive, last


def spelled_out(tree: ast.Module) -> ast.Module:
    """Return a script in which what changes a name's value is an assignment: `n += 1`, `a.append(b)`."""
    _SpelledOut().visit(tree)
    return tree


class _SpelledOut(ast.NodeTransformer):
    """Makes assignments of statements that change what a name stands for."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        """Spell `n += 1` out."""
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return ast.fix_missing_locations(ast.copy_location(ast.Assign([node.target], value), node))

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """Spell `a.append(b)` and `a.extend(b)` out."""
        call = node.value
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and len(call.args) == 1):
            return node
        of, name = call.func.value, call.func.attr
        if not isinstance(of, ast.Name) or name not in ("append", "extend"):
            return node
        added = ast.List([call.args[0]], ast.Load()) if name == "append" else call.args[0]
        value = ast.BinOp(ast.Name(of.id, ast.Load()), ast.Add(), added)
        return ast.fix_missing_locations(ast.copy_location(ast.Assign([ast.Name(of.id, ast.Store())], value), node))


def of_classes(tree: ast.Module) -> set[ast.AST]:
    """Return the assignments in the bodies of classes, which give names to attributes only, and their targets."""
    found: set[ast.AST] = set()
    for node in alive(tree, 0):
        for each in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(each, ast.Assign | ast.AnnAssign):
                found |= {each, *(each.targets if isinstance(each, ast.Assign) else [each.target])}
    return found


def one_after_another(tree: ast.Module) -> dict[str, list[tuple[int, ast.expr]]]:
    """The values of names that only statements of the script itself give, which all run in the order of their lines."""
    found: dict[str, list[tuple[int, ast.expr]]] = {}
    plain = of_classes(tree)
    for each in _statements(tree.body):
        if isinstance(each, ast.Assign) and len(each.targets) == 1 and isinstance(each.targets[0], ast.Name):
            found.setdefault(each.targets[0].id, []).append((each.lineno, each.value))
            plain.add(each.targets[0])
    for node in alive(tree, 0):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node not in plain:
            found.pop(node.id, None)
    return found


def otherwise_given(tree: ast.Module) -> set[str]:
    """Return names that loops, `with` and the parts of an unknown value are given, besides assignments."""
    plain: set[int] = set()
    found: set[str] = set()
    for node in alive(tree, 0):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            several = isinstance(node.value, ast.Tuple)
            plain |= {
                id(inner)
                for each in targets
                for inner in (each.elts if isinstance(each, ast.Tuple) and several else [each])
            }
        elif isinstance(node, ast.comprehension):
            plain |= {id(each) for each in ast.walk(node.target)}
    for node in alive(tree, 0):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in plain:
            found.add(node.id)
    return found


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run one after another, those within `with` and `if __name__ == "__main__"` too."""
    for node in body:
        yield node
        if isinstance(node, ast.With) or (isinstance(node, ast.If) and "__main__" in ast.dump(node.test)):
            yield from _statements(node.body)


def sifts(value: ast.expr, name: str) -> bool:
    """Whether a mapping only leaves out of itself what an installed release may not know.

    >>> sifts(ast.parse("{k: v for k, v in a.items() if k in known}", mode="eval").body, "a")
    True
    """
    plain = isinstance(value, ast.DictComp) and len(value.generators) == 1 and isinstance(value.key, ast.Name)
    if not plain or not isinstance(value, ast.DictComp):
        return False
    of, pair = value.generators[0], f"({ast.unparse(value.key)}, {ast.unparse(value.value)})"
    asked = all(ast.unparse(each).startswith(ast.unparse(value.key) + " in ") for each in of.ifs)
    return ast.unparse(of.iter) == f"{name}.items()" and ast.unparse(of.target) == pair and asked


def own_attribute(node: ast.expr) -> str:
    """Return `self.a` for an attribute that an object has of its own; nothing for another expression."""
    return f"self.{node.attr}" if isinstance(node, ast.Attribute) and last(node.value) == "self" else ""


_BINDS = frozenset({"bind", "remote"})


def made_by(node: ast.Call) -> str:
    """Return the class or function that a call runs; Ray's `Class.bind(a=1)` makes an object later."""
    bound = isinstance(node.func, ast.Attribute) and node.func.attr in _BINDS
    return last(node.func.value) if bound and isinstance(node.func, ast.Attribute) else last(node.func)


def constructors(tree: ast.Module) -> dict[str, ast.FunctionDef]:
    """Return what is called to make objects of the script's own classes."""
    classes = [each for each in alive(tree, 0) if isinstance(each, ast.ClassDef)]
    return {
        each.name: inner
        for each in classes
        for inner in each.body
        if isinstance(inner, ast.FunctionDef) and inner.name == "__init__"
    }


def alike_all(values: Iterable[ast.expr]) -> bool:
    """Return whether there are expressions and all are written alike."""
    return len({ast.dump(each) for each in values}) == 1


def end_of(node: ast.Subscript, name: str) -> ast.expr | None:
    """Return where an item of something called `name` ends that begins at its start: `input_ids[:512]`."""
    part = node.slice
    starts = isinstance(part, ast.Slice) and not part.lower and name in ast.dump(node.value)
    return part.upper if isinstance(part, ast.Slice) and starts else None


def block_of(node: ast.DictComp) -> ast.expr | None:
    """Return the size of the blocks that each list of a mapping is cut into.

    `{k: [t[i:i + 8] for i in range(0, n, 8)] for k, t in a.items()}` cuts into blocks of 8. So examples of transformers
    group the tokens of their texts (examples/pytorch/language-modeling/run_clm.py).
    """
    inner = node.value.elt if isinstance(node.value, ast.ListComp) else None
    part = inner.slice if isinstance(inner, ast.Subscript) else None
    if not isinstance(part, ast.Slice) or not isinstance(part.upper, ast.BinOp) or part.lower is None:
        return None
    plus = isinstance(part.upper.op, ast.Add) and ast.dump(part.upper.left) == ast.dump(part.lower)
    return part.upper.right if plus else None


def part_kept(node: ast.expr) -> ast.Slice | None:
    """Return the slice of a list that an expression keeps, whatever it is wrapped in: `ModuleList(list(a)[:8])`."""
    while isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    return node.slice if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) else None
