"""A complete file as its loader reads it: PyYAML's `safe_load`, not OmegaConf.

`ConfigContainer.from_yaml` (all releases, `training/utils/config_utils.py`; from 0.5 on `megatron/training/config/container.py`)
and everybody who calls `from_dict` read a saved configuration with `yaml.safe_load`. It wants a dot and a signed exponent in a
number such as ``1.0e-5``, lets the last of two equal keys win, and reads ``!!set``, which upstream writes for the adapters of every
PEFT run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mbpack.facts.patterns import lazy

from .items import Problem, walk

if TYPE_CHECKING:
    from .document import Document

_EXPONENT: Final = lazy(r"\d[eE]|\.[eE]")
#: What PyYAML takes for a number with an exponent.
_NUMBER: Final = lazy(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)[eE][-+][0-9]+\Z")
_TAGGED: Final = "!!float"
#: The set that upstream saves for an adapter; it is worked out anew when the file is loaded.
SAVED_SET: Final = "params_to_save"


def read_as_saved(document: Document) -> None:
    """Read a document, which was read as OmegaConf reads it, once more as `safe_load` does."""
    document.problems = [_mild(problem, document) for problem in document.problems]
    if document.root is None or _EXPONENT.search(document.text) is None:
        return
    for _, item in walk(document.root):
        if item.value.__class__ is float and not item.quoted:
            text = document.text[item.span.start : item.span.end]
            if "e" in text.lower() and _NUMBER.match(text) is None:
                if not document.text[: item.span.start].rstrip().endswith(_TAGGED):
                    item.value = text


def _mild(problem: Problem, document: Document) -> Problem:
    """A problem that only OmegaConf has."""
    if problem.kind == "duplicate-key":
        return Problem(problem.kind, f"{problem.message.partition(':')[0]}: the last one counts", problem.span, False)
    if problem.kind == "set":
        message = (
            "`!!set` is read by `ConfigContainer.from_dict(yaml.safe_load(...))` and refused by `ConfigContainer.from_yaml`: "
            "remove the key, which is worked out anew"
        )
        return Problem(problem.kind, message, problem.span, False)
    return problem
