"""What belongs into an issue: versions, a redacted configuration, and the codes of what was found."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from mbpack import __version__
from mbpack.config.answers import Origin
from mbpack.config.beside import Beside, find_beside
from mbpack.config.document import Document
from mbpack.engine.result import Result
from mbpack.report.redact import Redactor, redacted

#: Packages whose versions matter, in the order they are shown: upstream's and those that mbpack stands on.
UPSTREAM = ("megatron-bridge", "megatron-core", "transformer-engine", "torch", "transformers", "megatron-energon")
OWN = (
    "typer",
    "PyYAML",
    "msgspec",
    "rich",
    "questionary",
    "omegaconf",
    "hydra-core",
    "numpy",
    "pyarrow",
    "tokenizers",
    "matplotlib",
)
_DIST = re.compile(r"^([A-Za-z0-9._]+?)-([^-]+)\.(?:dist|egg)-info$")
_PUBLIC_VERSION = re.compile(r"[0-9A-Za-z.!]{1,40}")


def issue(results: Sequence[Result]) -> str:
    """The report as Markdown, ready to be pasted."""
    redactor = Redactor()
    lines = ["```text", *versions(), "```"]
    for number, result in enumerate(results, 1):
        lines += ["", *_configuration(number, result, redactor)]
    return "\n".join(lines)


def versions() -> Iterator[str]:
    """mbpack, Python, the system, and the packages found; no path and no name of a machine or a person."""
    yield f"mbpack            {__version__}"
    yield f"Python            {platform.python_version()} ({platform.python_implementation()})"
    kernel = re.match(r"\d+(\.\d+)*", platform.release())
    libc = " ".join(platform.libc_ver()).strip()
    about = [platform.system(), kernel[0] if kernel else "", platform.machine(), libc]
    yield f"System            {' '.join(word for word in about if word)}"
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    yield f"Output            {encoding}, {'a terminal' if sys.stdout.isatty() else 'no terminal'}"
    beside = find_beside()
    found = {**installed(sys.path), **installed([beside.folder] if beside else [])}
    yield f"Megatron-Bridge   {_stated(beside)}"
    for label, names in (("upstream", UPSTREAM), ("mbpack's", OWN)):
        words = [f"{name} {found[name.lower()]}" for name in names if name.lower() in found]
        yield f"{label:<17} {', '.join(words) or 'none found'}"


def _stated(beside: Beside | None) -> str:
    if beside is None:
        return "none found beside the files"
    kind = "a checkout" if beside.where.startswith("the checkout") else "an installed package"
    return f"{public(beside.version.text)} ({kind})"


def public(version: str) -> str:
    """A version without its local part, which may name whoever built it."""
    found = _PUBLIC_VERSION.match(version)
    return (found[0] if found else "unknown") + (" (and a local part)" if "+" in version else "")


def installed(folders: Iterable[str]) -> Mapping[str, str]:
    """The versions of the packages that matter, by lower-case name, as the names of folders tell; the first one counts."""
    wanted = {name.lower() for name in (*UPSTREAM, *OWN)}
    found: dict[str, str] = {}
    for folder in folders:
        try:
            names = sorted(os.listdir(folder or "."))
        except OSError:
            continue
        for name in names:
            match = _DIST.match(name)
            package = re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""
            if match and package in wanted:
                found.setdefault(package, public(match[2]))
    return found


def _configuration(number: int, result: Result, redactor: Redactor) -> Iterator[str]:
    yield f"Configuration {number}: {', '.join(_context(result, redactor))}"
    for title, document in _sources(result):
        yield from ("", "```yaml", f"# {title}", *redacted(document, redactor), "```")
    yield ""
    yield "```text"
    for finding in result.findings:
        line = f" line {finding.setting.item.span.line}" if finding.setting.item is not None else ""
        first = ", refused first" if finding is result.first else ""
        said = f"{finding.rule.code} {finding.outcome.severity} {finding.outcome.consequence}"
        yield f"{said} {redactor.path(finding.setting.key)}{line}{first}"
    counts = f"{result.errors} errors, {result.warnings} warnings"
    yield f"{counts}, {len(result.not_checked)} not checked; verdict {result.verdict}, packing {result.mode}"
    if result.failed_rules:
        yield f"rules that failed: {', '.join(result.failed_rules)}"
    yield "```"


def _sources(result: Result) -> Iterator[tuple[str, Document]]:
    """What the configuration consists of, lowest layer first; where nothing could be judged, the files."""
    if result.run is None:
        yield from (("a file that could not be read", document) for document in result.documents)
        return
    for layer in reversed(result.run.settings.layers):
        if not layer.root.value:
            continue
        arguments = layer.origin is Origin.OVERRIDE
        kind = "arguments" if arguments else "a Python program" if layer.document.language == "python" else "a file"
        yield kind, replace(layer.document, root=layer.root)


def _context(result: Result, redactor: Redactor) -> Iterator[str]:
    context = result.context
    if context is None:
        yield "could not be read"
        return
    yield f"Megatron-Bridge {public(context.version.text)}"
    recipe = context.recipe or (redactor.mark("recipe", context.own_recipe) if context.own_recipe else "not named")
    yield f"recipe {recipe}"
    yield f"GPUs {context.gpus if context.gpus is not None else 'not said'}"
    yield f"launcher {context.launcher or 'not said'}"
