"""Which ``_target_`` paths a release instantiates.

Source: `utils/instantiate_utils.py` of each release. 0.3 instantiates anything importable; 0.4.2 introduced an allowlist
of prefixes, 0.5 extended it and added a list of targets that are refused in spite of it. The lists are harvested with the names
of the release (`tools/names.py`); what stands here is for a release whose names were not.
"""

from __future__ import annotations

from mbpack.facts.names import names
from mbpack.facts.releases import R03, R05, Release

_PREFIXES = ("megatron.", "torch.", "nvidia.", "transformers.", "numpy.", "nemo.")
_LATER_PREFIXES = (*_PREFIXES, "signal.")
_LATER_EXACT = frozenset({"functools.partial"})
#: Loaders and evaluators that are refused although their prefix is allowed (0.5 and later).
_DANGEROUS = frozenset({"torch.load", "torch.jit.load", "torch.hub.load", "numpy.load", "numpy.fromfile"})
_DANGEROUS_SUFFIXES = (".from_pretrained",)
_PRIVATE_ALLOWED = frozenset({"torch._C._nn.gelu"})

#: Fields whose value is code; a configuration file cannot give one from 0.5 on.
CALLABLE_FIELDS = frozenset({"collate_impl", "process_example_fn", "preprocess_fn", "hf_filter_lambda"})


def is_blocked(release: Release, target: str, callable_field: bool = False) -> bool:
    """Whether a release refuses to instantiate a target, for its path alone or in a field whose value is code."""
    if release <= R03:
        return False
    if callable_field:
        return release >= R05
    allowed = names(release.name).allows(target)
    if allowed is not None:
        return not allowed
    if release < R05:
        return not target.startswith(_PREFIXES)
    if target in _LATER_EXACT:
        return False
    if not target.startswith(_LATER_PREFIXES):
        return True
    if target in _DANGEROUS or target.endswith(_DANGEROUS_SUFFIXES):
        return True
    private = any(part.startswith("_") for part in target.split("."))
    return private and target not in _PRIVATE_ALLOWED
