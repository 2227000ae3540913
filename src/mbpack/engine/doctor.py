"""Examine documents: the one entry for every command that wants a verdict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from mbpack.config.assemble import UnknownRecipe, build_run
from mbpack.config.context import Context, ContextProblem, Given, resolve_context
from mbpack.config.document import Document, is_whole
from mbpack.config.evidence import Evidence
from mbpack.config.overrides import Override, OverrideProblem, as_document, parse_overrides
from mbpack.config.recognise import Recognition, looks_like, shows_nothing
from mbpack.config.run import Run
from mbpack.engine.check import Selection, check
from mbpack.engine.result import Result
from mbpack.facts.sections import SECTION_NAMES
from mbpack.rules.base import NOTE, Finding
from mbpack.rules.files.documents import document_findings
from mbpack.rules.internal import NOT_BRIDGE, UNUSABLE

if TYPE_CHECKING:
    from mbpack.config.python import Variant
    from mbpack.config.shell import Launch


class Request(Struct, frozen=True):
    """What to examine and under which circumstances.

    ``documents`` are the files, lowest layer first. ``launch`` is a launch command, ``script`` the file it stands in.
    ``searched``: the files were met in a directory rather than named, so no flag says that they are Megatron-Bridge's.
    ``look`` gathers evidence from the disk for a run. ``environ`` is the environment of the run, None where unknown.
    ``shown`` is what a program shows of its context, ``variants`` what its configuration is in each of its worlds,
    ``variable`` what it calls it. ``doubted``: environment variables whose defaults count for nothing. ``problems``: what the script or files could not give.
    ``all_releases``: where nobody names the release, those that fit are compared.
    """

    documents: Sequence[Document] = ()
    flags: Given = field(default_factory=Given)
    project: Given = field(default_factory=Given)
    selection: Selection = field(default_factory=Selection)
    overrides: Sequence[Override | OverrideProblem] = ()
    launch: Launch | None = None
    script: Document | None = None
    environ: Mapping[str, str] | None = None
    path: str | None = None
    searched: bool = False
    look: Callable[[Run], Evidence] | None = None
    shown: Given | None = None
    variants: Sequence[Variant] = ()
    variable: str = "cfg"
    doubted: Collection[str] = ()
    problems: Sequence[ContextProblem] = ()
    all_releases: bool = False


def examine(documents: Sequence[Document], flags: Given | None = None, path: str | None = None) -> Result:
    """Judge documents as layers of one configuration; see :func:`judge` for everything else."""
    return judge(Request(documents, flags or Given(), path=path))


def judge(request: Request) -> Result:
    """Judge one configuration.

    Raises:
        ContextError: a flag cannot be used: an unknown release or recipe.
    """
    if request.variants:
        from mbpack.engine.worlds import judge_worlds

        return judge_worlds(request)
    result = _judged(request)
    if request.launch is not None or (result.run is not None and result.run.settings.assumed):
        from mbpack.engine.defaults import doubt

        doubt(request, result, _judged)
    told = result.context.sources.get("bridge") if result.context is not None else None
    if request.all_releases and told in ("default", "file"):
        from mbpack.engine.over_releases import other_releases

        result.by_release = other_releases(
            result, lambda name: _judged(replace(request, flags=replace(request.flags, bridge=name)))
        )
    return result


def _judged(request: Request) -> Result:
    context = context_of(request)
    if request.launch is not None and request.launch.performance:
        from mbpack.config.launched import without_own_recipe

        context = without_own_recipe(context, request.launch)
    result = Result(request.path, context, request.documents)
    problems = [finding for document in request.documents for finding in document_findings(document)]
    if any(document.root is None for document in request.documents):
        return _unreadable(result, request, problems)
    stated = _stated(context, request)
    kinds = [looks_like(document, SECTION_NAMES) for document in request.documents]
    result.findings = _declined(kinds, request, stated)
    if result.findings:
        return result
    if len(request.documents) == 1 and _is_weights_only(request.documents[0]):
        result.findings = [replace(NOT_BRIDGE.about(_WEIGHTS_ONLY, None, request.documents[0]), outcome=NOTE)]
        return result
    overrides, places = list(request.overrides), []
    if request.launch is not None and request.script is not None:
        from mbpack.config.launched import overrides_of

        overrides, in_script = overrides_of(request.launch, context.version.release, request.script)
        overrides += request.overrides
        places = [in_script, as_document(request.overrides)]
        other = _other_launch(request.launch, in_script)
        if other is not None:
            result.findings = [other]
            return result
    try:
        run = build_run(
            context, request.documents, overrides, request.environ, override_documents=places, doubted=request.doubted
        )
    except UnknownRecipe as error:
        if not request.documents and request.launch is None and request.shown is None and not overrides:
            raise
        result.context = context = _without_recipe(context, error)
        run = build_run(
            context, request.documents, overrides, request.environ, override_documents=places, doubted=request.doubted
        )
    if request.look is not None:
        run.evidence = request.look(run)
    place = request.documents[0] if request.documents else request.script
    problems += [UNUSABLE.about(problem, place) for problem in context.problems]
    problems += [UNUSABLE.about(problem, request.script) for problem in request.problems]
    check(run, result, request.selection, problems)
    if not stated and not any(kind.marked for kind in kinds) and request.documents:
        result.findings = [_untouched(finding) for finding in result.findings]
    return result


#: Sections that every launch needs and that a converted checkpoint leaves empty. Source: 0.3 to 0.7
#: `training/model_load_save.py`, `save_megatron_model`.
_OF_A_LAUNCH = ("train", "dataset", "scheduler", "ddp", "dist")
_WEIGHTS_ONLY = (
    "this is the run_config.yaml of a checkpoint with weights only (converted, not trained): there is nothing to launch; "
    "name the checkpoint in checkpoint.pretrained_checkpoint of a recipe"
)


def _is_weights_only(document: Document) -> bool:
    """Whether a whole configuration describes a model alone."""
    root = document.root
    if root is None or not is_whole(root) or not isinstance(root.value.get("model", root).value, dict):
        return False
    return all(name in root.value and root.value[name].value is None for name in _OF_A_LAUNCH)


def _stated(context: Context, request: Request) -> str:
    """Who says that the files are Megatron-Bridge's: they themselves, a flag or the script that names them, or nobody ("")."""
    told = {context.sources.get("bridge"), context.sources.get("recipe")}
    if "directive" in told:
        return "file"
    if request.launch is not None:
        return "flag"
    return "flag" if not request.searched and ("flag" in told or "recipe" in context.sources) else ""


def _untouched(finding: Finding) -> Finding:
    """A finding whose fix is words only: nothing shows that the file is one to be changed."""
    fix = finding.fix
    return finding if fix is None or not fix.edits else replace(finding, fix=fix._replace(edits=(), safe=False))


def context_of(request: Request) -> Context:
    """Release, recipe and everything else that a verdict depends on, from flags, comments, the launch and the files.

    Raises:
        ContextError: a flag cannot be used.
    """
    documents = [*([request.script] if request.script is not None else []), *request.documents]
    launch, overrides = request.launch, list(request.overrides)
    if launch is None:
        shown = [as_document(overrides).root] if overrides else []
        roots = [root for root in shown if root is not None]
        return resolve_context(request.flags, request.project, documents, script=request.shown, arguments=roots)
    from mbpack.config.launched import flags_of, given_by

    overrides = [*parse_overrides([override.text for override in launch.overrides]), *overrides]
    shown = [as_document(overrides).root] if overrides else []
    return resolve_context(
        request.flags,
        request.project,
        documents,
        script=given_by(launch),
        options=flags_of(launch),
        arguments=[root for root in shown if root is not None],
    )


def _without_recipe(context: Context, error: UnknownRecipe) -> Context:
    """A recipe that nobody here knows leaves its values unknown, one of several that a model has is one of these; the rest is judged."""
    sources = {name: source for name, source in context.sources.items() if name != "recipe"}
    if error.meant:
        problem = ContextProblem(f"{error}; judged over these, --recipe names one", severity="info")
        return replace(context, recipe=None, recipes=error.meant, sources=sources, problems=(*context.problems, problem))
    advice = "its values are unknown; --recipe names the shipped recipe that it builds on"
    if error.mistaken:
        problem = ContextProblem(f"{error}{'' if error.hint.endswith('?') else ';'} {advice}", severity="warning")
    else:
        problem = ContextProblem(f"{error.message}: {advice}", severity="info")
    return replace(context, recipe=None, own_recipe=context.recipe, sources=sources, problems=(*context.problems, problem))


def _declined(kinds: Sequence[Recognition], request: Request, stated: str) -> list[Finding]:
    """What is said of files of other programs instead of judging them; nothing where they are Megatron-Bridge's."""
    by_recipe = request.launch is not None or request.flags.recipe is not None or request.project.recipe is not None
    if stated == "file" or (stated == "flag" and all(_may_be(kind, by_recipe) for kind in kinds)):
        return []
    pairs = zip(kinds, request.documents, strict=True)
    found = (_foreign(kind, document, request.searched) for kind, document in pairs)
    return [finding for finding in found if finding is not None]


def _other_launch(launch: Launch, arguments: Document) -> Finding | None:
    """What is said of a command that starts a program of another kind: its KEY=VALUE arguments are those of such programs."""
    if launch.launcher != "script" or launch.recipe() is not None or arguments.root is None:
        return None
    kind = looks_like(arguments, SECTION_NAMES)
    return _foreign(kind, arguments) if kind.kind == "other" else None


def _may_be(kind: Recognition, by_recipe: bool) -> bool:
    """Whether a file that a flag calls Megatron-Bridge's can be one; where it is said to stand on a recipe, strange keys may be its."""
    return kind.kind != "other" and (by_recipe or not kind.strange)


def _foreign(recognition: Recognition, document: Document, searched: bool = False) -> Finding | None:
    if recognition.kind == "empty" and recognition.span is not None and searched:
        return NOT_BRIDGE.about("its sections are empty", recognition.span, document)
    if recognition.is_bridge or recognition.kind == "unreadable":
        return None
    return NOT_BRIDGE.about(recognition.message, recognition.span, document)


def _unreadable(result: Result, request: Request, problems: list[Finding]) -> Result:
    """A file that is no mapping: what it looks like, else what the YAML reader says."""
    for document in request.documents:
        if document.root is not None:
            continue
        foreign = _foreign(looks_like(document, SECTION_NAMES), document)
        if foreign is None and request.searched and shows_nothing(document, SECTION_NAMES):
            foreign = NOT_BRIDGE.about("it cannot be read, and nothing in it shows Megatron-Bridge", None, document)
        if foreign is not None:
            problems.insert(0, foreign)
    fatal = [finding for finding in problems if finding.outcome.consequence == "rejected"]
    result.findings = [finding for finding in problems if request.selection.wants(finding.rule)]
    result.first = fatal[0] if fatal and fatal[0] in result.findings else None
    result.verdict = "rejected" if result.first is not None else "unknown"
    return result
