"""An existing override as the start: what it says are the answers, and what the wizard does not know stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mbpack.config.answers import Object, Unknown, WrongKind
from mbpack.config.assemble import UnknownRecipe, build_run
from mbpack.config.context import Context, Given, directives_of
from mbpack.config.context_comment import readable, with_context
from mbpack.config.document import Document, is_whole, parse, walk
from mbpack.config.edit import CannotEdit, delete_key, same, set_key
from mbpack.config.run import Run
from mbpack.config.shown_release import infer_release
from mbpack.facts.classes import DatasetKind
from mbpack.facts.keys import SPECS
from mbpack.facts.releases import DEFAULT, parse_version
from mbpack.rules.base import Finding
from mbpack.wizard import graphs
from mbpack.wizard.answers import ATTN, CHAT, FULL_ITERATION, HF, JSONL, MLP, NO_GRAPHS, AnswerError, coerce
from mbpack.wizard.compose import compose
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.judge import errors, judge, warnings, words_of
from mbpack.wizard.output import OutputError
from mbpack.wizard.plan import Plan, make_plan
from mbpack.wizard.sources import CHAT_CLASS

#: Where answers stand in a file, the first that is written counts.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "tp": ("model.tensor_model_parallel_size",),
    "pp": ("model.pipeline_model_parallel_size",),
    "vpp": ("model.virtual_pipeline_model_parallel_size",),
    "cp": ("model.context_parallel_size",),
    "ep": ("model.expert_model_parallel_size",),
    "etp": ("model.expert_tensor_parallel_size",),
    "sp": ("model.sequence_parallel",),
    "seq_length": ("model.seq_length", "dataset.seq_length", f"{SPECS}.packed_sequence_size"),
    "mbs": ("train.micro_batch_size",),
    "gbs": ("train.global_batch_size",),
    "buffer": ("dataset.packing_buffer_size",),
    "checkpoint": ("checkpoint.pretrained_checkpoint",),
}
_ROOT, _PREPROCESSING, _CHAT = "dataset.dataset_root", "dataset.preprocessing", "dataset.dataset_kwargs.chat"
_SOURCE = "dataset.hf_dataset"


class Start(NamedTuple):
    """A file as answers. ``origins`` says where in it each of them stands."""

    document: Document
    answers: dict[str, Any]
    origins: dict[str, str]


def read(path: str) -> Start:
    """The answers that an override gives.

    Raises:
        OutputError: it cannot be read, is no override, or names a recipe that its release does not have.
    """
    try:
        document = parse(Path(path).read_bytes(), path)
    except OSError as error:
        raise OutputError(f"{path}: cannot be read: {error.strerror or error}") from None
    fatal = next((problem for problem in document.problems if problem.fatal), None)
    if fatal is not None or document.root is None:
        raise OutputError(f"{path}: {fatal.message if fatal is not None else 'cannot be read'}")
    if is_whole(document.root):
        raise OutputError(f"{path} is a whole saved configuration, no override: start from the override that was merged into it")
    given = directives_of([document])[0]
    answers = {name: getattr(given, name) for name in ("recipe", "gpus", "launcher", "gpu") if getattr(given, name) is not None}
    version = _version(document, given, answers)
    try:
        run = build_run(Context(version=parse_version(version), recipe=given.recipe, gpus=given.gpus), [document])
    except UnknownRecipe as error:
        raise OutputError(f"{path}: {error}") from None
    origins = dict.fromkeys(answers, f"the comment in {path}")
    found = [*_sizes(run), *_packing(run), *_captured(run)]
    if given.recipe is not None:
        found += _data(run)
    for name, value, line in found:
        try:
            answers[name] = coerce(name, value)
        except AnswerError:
            continue  # what it is no answer to is offered anew
        origins[name] = f"line {line} of {path}" if line else path
    return Start(document, answers, origins)


def _version(document: Document, given: Given, answers: dict[str, Any]) -> str:
    if given.bridge is not None:
        answers["bridge"] = parse_version(given.bridge).release.name
        return given.bridge
    found = infer_release([document.root]) if document.root is not None else None
    if found is not None:
        answers["bridge"] = found[0].name
    return found[0].name if found is not None else DEFAULT.name


def _sizes(run: Run) -> Iterator[tuple[str, Any, int]]:
    for name, keys in _KEYS.items():
        for key in keys:
            setting = run.settings.written(key)
            if setting is not None and not setting.absent:
                yield name, setting.value, _line(setting)
                break


def _line(setting: Any) -> int:
    return setting.item.span.line if setting.item is not None else 0


def _packing(run: Run) -> Iterator[tuple[str, Any, int]]:
    try:
        yield "packing", run.mode.name, 0
    except (Unknown, WrongKind):
        return


def _data(run: Run) -> Iterator[tuple[str, Any, int]]:
    """The data of GPT datasets; what is written about others stays as it is."""
    root = run.settings.written(_ROOT)
    if root is not None and isinstance(root.value, str):
        held = run.maybe(_PREPROCESSING)
        chat = run.settings.class_at(_PREPROCESSING) == CHAT_CLASS if isinstance(held, Object) else run.maybe(_CHAT) is True
        yield "data_path", root.value, _line(root)
        yield "data", CHAT if chat else JSONL, _line(root)
        return
    for field in ("dataset_name", "path_or_dataset"):
        named = run.settings.written(f"{_SOURCE}.{field}")
        if named is not None and isinstance(named.value, str):
            yield "data_path", named.value, _line(named)
            yield "data", HF, _line(named)
            return
    if run.settings.written(_SOURCE) is None and run.dataset is not DatasetKind.ENERGON:
        yield "data_path", None, 0  # the recipe's own


def _captured(run: Run) -> Iterator[tuple[str, Any, int]]:
    written = run.settings.written(graphs.IMPL)
    if written is None:
        return
    scope = [item for key in (graphs.SCOPE, graphs.MODULES) for item in run.maybe(key) or [] if isinstance(item, str)]
    names = {FULL_ITERATION: FULL_ITERATION, "mlp": MLP, "attn": ATTN}
    if written.value in (None, "none"):
        yield "cuda_graphs", NO_GRAPHS, _line(written)
    elif written.value == FULL_ITERATION:
        yield "cuda_graphs", FULL_ITERATION, _line(written)
    elif len(scope) == 1 and scope[0] in names:
        yield "cuda_graphs", names[scope[0]], _line(written)


class Merged(NamedTuple):
    """The file with the new values, and what could not be written or is still wrong."""

    text: str
    notes: tuple[str, ...]


def merged(start: Start, plan: Plan) -> Merged:
    """The file with a plan's values in place: other keys, comments and layout stay byte for byte.

    What the file's own answers lead to is left as it is written, as long as the doctor has no objection; a value that the file
    has, or the recipe below it, is not written again, and what the plan of the file's own answers holds and this one does not
    is taken out.
    """
    try:
        own = {line.key: line.value for line in make_plan(Draft(start.answers)).lines}
    except Refused:
        own = {}
    found = _merged(start, plan, own)
    wrong = _objections(found.text)
    if not wrong:
        return found
    blamed = {setting.key for finding in wrong for setting in (finding.setting, *finding.related)}
    others = [_merged(start, plan, left) for left in ({name: own[name] for name in own.keys() - blamed}, {})]
    return min((found, *others), key=lambda one: len(_objections(one.text)))


def _objections(text: str) -> list[Finding]:
    result = judge(text)
    return [*errors(result), *warnings(result)]


def _merged(start: Start, plan: Plan, own: Mapping[str, Any]) -> Merged:
    """``own`` are the values that the file's own answers lead to: what the file says instead stays where the plan has the same."""
    document = start.document
    said: list[str] = []
    draft = plan.draft
    run = build_run(Context(version=draft.version, recipe=draft.recipe.name, gpus=draft.get("gpus")), [document])
    wanted = [(line.key, named.key, line.value) for line, named in zip(compose(plan.job), plan.lines, strict=True)]
    written = {".".join(path) for path, _ in walk(document.root)} if document.root is not None else set()
    for name in sorted((own.keys() & written) - {name for _, name, _ in wanted}):
        document = _deleted(document, name, said)
    for key, name, value in wanted:
        kept = name in written and name in own and same(own[name], value)
        if not kept and not _held(run, key, value):
            document = _set(document, name, value, said)
    told = directives_of([document])[0]
    given = {"recipe": draft.recipe.name, "gpus": draft.get("gpus"), "launcher": draft.get("launcher")}
    if told.bridge is None or parse_version(told.bridge).release != draft.release:
        given["bridge"] = draft.version.text
    if told.step is not None:
        given["step"] = plan.job.step
    if any(str(getattr(told, name)) != str(value) for name, value in given.items()):
        text = with_context(document, given)
        if readable(document, text):
            document = parse(text, document.path)
    said += [f"still in the file: {words_of(finding)}" for finding in _objections(document.text)]
    text = ("\ufeff" if start.document.bom else "") + document.text
    return Merged(text, tuple(dict.fromkeys(said)))


def _held(run: Run, key: str, value: Any) -> bool:
    """Whether file and recipe have a value already."""
    section, _, field = key.rpartition(".")
    if field == "_target_":
        return run.settings.class_at(section) == str(value).rpartition(".")[2]
    try:
        found = run.maybe(key, _NOTHING)
    except (Unknown, WrongKind):
        return False
    return found is not _NOTHING and not isinstance(found, Object) and same(found, value)


_NOTHING = object()


def _set(document: Document, name: str, value: Any, said: list[str]) -> Document:
    try:
        return set_key(document, name.split("."), value).document
    except CannotEdit as reason:
        said.append(f"not written: {name}: {value} ({reason})")
        return document


def _deleted(document: Document, name: str, said: list[str]) -> Document:
    try:
        return delete_key(document, name.split(".")).document
    except CannotEdit as reason:
        said.append(f"not taken out: {name} ({reason})")
        return document
