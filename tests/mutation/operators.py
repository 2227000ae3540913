"""The mutation operators: a choice of Cosmic Ray's own, and four that speak mbpack's language.

Cosmic Ray's operators are chosen so that a mutant is a plausible slip: a boundary moved by one, a comparison turned round, a
condition negated, an `and` for an `or`, a number off by one, a flag switched, a loop not entered. Its exchanges of unrelated
operators (`+` for `<<`, `==` for `is`) either crash at once or mean the same, and would only flatter the figure.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import parso
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator

_COMPARISONS = ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt")
_IDENTITY = ("Is_IsNot", "IsNot_Is")
_ARITHMETIC = ("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Div_Mul", "Mod_FloorDiv", "Pow_Mul")
_SETS = ("BitOr_BitAnd", "BitAnd_BitOr")
COSMIC_RAY = (
    *(f"ReplaceComparisonOperator_{pair}" for pair in (*_COMPARISONS, *_IDENTITY)),
    *(f"ReplaceBinaryOperator_{pair}" for pair in (*_ARITHMETIC, *_SETS)),
    "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub",
    "AddNot",
    "NumberReplacer",
    "ReplaceTrueWithFalse",
    "ReplaceFalseWithTrue",
    "ReplaceAndWithOr",
    "ReplaceOrWithAnd",
    "ReplaceBreakWithContinue",
    "ReplaceContinueWithBreak",
    "ExceptionReplacer",
    "ZeroIterationForLoop",
)

_RELEASES = ("R03", "R04", "R05", "R06", "R07", "NIGHTLY")
#: An outcome and one that differs from it in severity, consequence or time.
_OUTCOMES = {
    "REJECTED": "CRASH_STEP",
    "REJECTED_LOAD": "REJECTED",
    "CRASH_DATA": "CRASH_STEP",
    "CRASH_STEP": "SILENT",
    "CRASH_EVAL": "CRASH_STEP",
    "CRASH_RESUME": "CRASH_STEP",
    "CRASH_LATER": "CRASH_STEP",
    "SILENT": "CRASH_STEP",
    "SILENT_EVAL": "SILENT",
    "SILENT_RESUME": "SILENT",
    "IGNORED": "SILENT",
    "WASTE": "NOTE",
    "NOTE": "WASTE",
    "DERIVED": "WASTE",
    "LAUNCHER_SETS": "LAUNCHER_OVERRIDES",
    "LAUNCHER_OVERRIDES": "LAUNCHER_SETS",
}
_IMPORTED = "__import__({!r}, None, None, ['*']).{}"


def _leads_nowhere(node: Any) -> bool:
    """Whether a name is imported, bound, an attribute or a keyword rather than read."""
    parent = node.parent
    while parent is not None and not parent.type.endswith("stmt"):
        if parent.type in ("import_from", "import_name", "import_as_names"):
            return True
        parent = parent.parent
    if node.parent.type == "trailer" and node.parent.children[0].value == ".":
        return True
    return node.parent.type in ("expr_stmt", "annassign", "argument", "import_from") and node.parent.children[0] is node


class _NameReplacer(Operator):
    """Replaces a name that is read by others of the same module, whether or not the mutated module imports them."""

    module = ""

    def alternatives(self, name: str) -> tuple[str, ...]:
        raise NotImplementedError

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "name":
            others = self.alternatives(node.value)
            if others and not _leads_nowhere(node):
                yield from [(node.start_pos, node.end_pos)] * len(others)

    def mutate(self, node: Any, index: int) -> Any:
        code = _IMPORTED.format(self.module, self.alternatives(node.value)[index])
        return parso.python.tree.Name(code, node.start_pos, prefix=node.prefix)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return ()


class ReleaseBoundary(_NameReplacer):
    """A release for the one before and the one after it."""

    module = "mbpack.facts.releases"

    def alternatives(self, name: str) -> tuple[str, ...]:
        if name not in _RELEASES:
            return ()
        at = _RELEASES.index(name)
        return _RELEASES[max(0, at - 1) : at] + _RELEASES[at + 1 : at + 2]


class OutcomeReplacer(_NameReplacer):
    """An outcome (severity, consequence, time) for another."""

    module = "mbpack.rules.base"

    def alternatives(self, name: str) -> tuple[str, ...]:
        return (_OUTCOMES[name],) if name in _OUTCOMES else ()


class DropOperand(Operator):
    """One operand of `and` or `or` left out: a forgotten condition."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type in ("and_test", "or_test"):
            yield from ((operand.start_pos, operand.end_pos) for operand in node.children[::2])

    def mutate(self, node: Any, index: int) -> Any:
        kept = list(node.children)
        del kept[max(0, 2 * index - 1) : max(0, 2 * index - 1) + 2]
        code = "".join(child.get_code() for child in kept).strip()
        return parso.parse(node.get_first_leaf().prefix + code)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x and y", "y"), Example("x and y", "x", occurrence=1), Example("x or y or z", "x or z", occurrence=1))


class DropMember(Operator):
    """One member of a literal that `in` looks into left out: a forgotten case."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        yield from ((member.start_pos, member.end_pos) for member in self._members(node))

    def mutate(self, node: Any, index: int) -> Any:
        literal = node.children[2]
        kept = [member.get_code().strip() for i, member in enumerate(self._members(node)) if i != index]
        code = f"{literal.children[0].value}{', '.join(kept)},{literal.children[-1].value}"
        node.children[2] = parso.parse(literal.get_first_leaf().prefix + code)
        return node

    @staticmethod
    def _members(node: Any) -> list[Any]:
        if node.type != "comparison" or node.children[1].get_code().strip() not in ("in", "not in"):
            return []
        literal = node.children[2]
        if literal.type != "atom" or len(literal.children) != 3 or not hasattr(literal.children[1], "children"):
            return []
        if literal.children[1].type not in ("testlist_comp", "dictorsetmaker"):
            return []
        inner = literal.children[1].children
        return [] if any(child.type == "sync_comp_for" or child.type == "comp_for" for child in inner) else list(inner[::2])

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x in (1, 2)", "x in (2,)"), Example("x in {1, 2}", "x in {1,}", occurrence=1))


class NegateMembership(Operator):
    """`in` for `not in` and the reverse, which Cosmic Ray leaves alone."""

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if node.type == "comparison" and node.children[1].get_code().strip() in ("in", "not in"):
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: Any, index: int) -> Any:
        turned = "in" if node.children[1].get_code().strip() == "not in" else "not in"
        node.children[1] = parso.parse(" " + turned)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        return (Example("x in y", "x not in y"), Example("x not in y", "x in y"))


@cache
def operators() -> dict[str, Operator]:
    """Every operator of the procedure by name."""
    chosen = {name: get_operator(f"core/{name}")() for name in COSMIC_RAY}
    own = (ReleaseBoundary, OutcomeReplacer, DropOperand, DropMember, NegateMembership)
    return chosen | {operator.__name__: operator() for operator in own}
