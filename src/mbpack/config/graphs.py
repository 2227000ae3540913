"""CUDA graph settings as a release reads them: two keys, three spellings, one meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mbpack.config.settings import Object
from mbpack.facts.releases import R04, R05, R06, Release
from mbpack.facts.schema import schema

if TYPE_CHECKING:
    from mbpack.config.run import Run

SCOPE, MODULES, IMPL = "model.cuda_graph_scope", "model.cuda_graph_modules", "model.cuda_graph_impl"

#: Capture scopes that Megatron-Core knows (0.16 to 0.20); anything else is a KeyError.
MODULE_NAMES = frozenset({"attn", "mlp", "moe", "moe_router", "moe_preprocess", "mamba"})
LEGACY_NAMES = frozenset({"full_iteration", "full_iteration_inference"})
#: Former switches, and the implementation that each stands for.
OLD_SWITCHES = {"model.enable_cuda_graph": "local", "model.external_cuda_graph": "transformer_engine"}


def known_names(release: Release) -> frozenset[str]:
    """What a capture scope may name in a release, once the whole iteration is taken out where it has an implementation.

    Source: Megatron-Core 0.16 to 0.19 `transformer/enums.py`, `CudaGraphScope` and `CudaGraphModule`.
    """
    if release >= R05:
        return MODULE_NAMES
    return MODULE_NAMES | (LEGACY_NAMES if release >= R04 else {"full_iteration"})


class Graphs(Struct, frozen=True):
    """``impl`` and the raw values as they are set; ``modules`` as Megatron-Core will hold them (empty: whole layer).

    ``full_iteration`` is Bridge's own test, made before Megatron-Core migrates old spellings; ``core_impl`` is the
    implementation after that migration. ``key`` is the key that carries the scope.
    """

    impl: Any
    scope: Any
    raw_modules: Any
    modules: tuple[str, ...]
    named: tuple[str, ...]
    full_iteration: bool
    core_impl: Any
    key: str

    @property
    def enabled(self) -> bool:
        """Whether any CUDA graph is captured."""
        return self.core_impl not in (None, "none")

    @property
    def scoped_te(self) -> bool:
        """Whether Transformer Engine captures layers or parts of them."""
        return bool(self.core_impl == "transformer_engine")

    @property
    def captures_attention(self) -> bool:
        """Whether attention is inside the graph: the whole iteration, whole layers, or the attn scope."""
        return self.full_iteration or (self.impl == "transformer_engine" and (not self.named or "attn" in self.named))


def scope_names(value: Any) -> tuple[str, ...]:
    """Names in a scope setting: text (comma separated), a list, an enum mapping; "full" and null mean none."""
    if value is None or (isinstance(value, str) and value in ("", "full")):
        return ()
    items = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else [value]
    return tuple(_name(item) for item in items)


def _name(item: Any) -> str:
    if isinstance(item, Object):
        members = schema(R06.name).enums.get(item.name, {})  # an enum of a saved file: its members are the same everywhere
        return next((name for name, value in members.items() if item.args[:1] == (value,)), item.name)
    return str(item).rpartition(".")[2]


def graph_impl(run: Run) -> Any:
    """The implementation that Megatron-Core is left with once a former switch, which no recipe sets, has named it."""
    impl = run.value(IMPL, "none")
    if impl == "none":
        for key, meant in OLD_SWITCHES.items():
            if run.wrote(key) and run.flag(key):
                impl = meant
    return impl


def read_graphs(run: Run) -> Graphs:
    """Read the graph settings of a run; raises Unknown where one of the keys is unknown."""
    impl, meant = run.value(IMPL, "none"), graph_impl(run)
    scope = run.value(SCOPE)
    if run.release < R05:
        names = ("",) if scope == "" else scope_names(scope)  # split at commas, an empty text is one empty name
        cleaned = tuple(name for name in names if name != "full")
        full = meant == "local" and "full_iteration" in cleaned
        return Graphs(impl, scope, None, cleaned, cleaned, full, meant, SCOPE)
    raw_modules = run.value(MODULES)
    key = SCOPE if scope is not None else MODULES
    if impl == "none" and run.release >= R06:
        return Graphs(impl, scope, raw_modules, (), (), False, meant, key)
    scope_list, module_list = scope_names(scope), scope_names(raw_modules)
    if run.release >= R06:
        named = tuple(dict.fromkeys((*module_list, *scope_list)))
        legacy = "full_iteration" in named
    else:
        named = scope_list if scope is not None else module_list  # Megatron-Core 0.18 moves the scope over the modules
        legacy = "full_iteration" in scope_list
    named = tuple(name for name in named if name not in LEGACY_NAMES and name != "full")
    full = impl == "full_iteration" or (impl == "local" and legacy)
    held = scope_list if scope is not None else module_list
    core_impl = "full_iteration" if "full_iteration" in held else meant
    modules = tuple(name for name in held if name not in LEGACY_NAMES and name != "full")
    return Graphs(impl, scope, raw_modules, modules, named, full, core_impl, key)
