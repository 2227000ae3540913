"""What a conversion of a Hugging Face configuration leaves as the classes have it."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from mbpack.learn.lists.fields import Entry, Reader

_PARALLEL = "megatron.core.model_parallel_config.ModelParallelConfig"
_MODELS = "megatron.bridge.models"


def left_alone(reader: Reader) -> Mapping[str, Entry]:
    """Fields about parallelism that no conversion mentions and every model class of Megatron-Bridge gives the same default."""
    found = reader.memo.get(left_alone)
    if found is None:
        found = reader.memo[left_alone] = _left_alone(reader)
    kept: Mapping[str, Entry] = found
    return kept


def _left_alone(reader: Reader) -> dict[str, Entry]:
    base = reader.at(_PARALLEL)
    fields = dict(base.fields) if base is not None else {}
    for module in reader.tree.modules(_MODELS):
        converts = module.name.endswith("bridge") or ".conversion" in module.name
        for node in module.body:
            if converts:
                for name in _mentioned(node):
                    fields.pop(name, None)
            if isinstance(node, ast.ClassDef):
                for item in node.body:
                    if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id in fields:
                        own = reader.at(f"{module.name}.{node.name}")
                        if own is None or base not in own.mro:
                            continue
                        if own.fields.get(item.target.id) != fields[item.target.id]:
                            del fields[item.target.id]
    return fields


def _mentioned(tree: ast.stmt) -> set[str]:
    """Attributes that are set, names of arguments, and texts."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found
