"""``mbpack init`` from flags to file: what is asked, shown, confirmed and written, in this order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mbpack.wizard import answers as answer_words
from mbpack.wizard import kept, leaving, naming, prompt, screen, starting
from mbpack.wizard.answers import RUN_RECIPE, AnswerError, coerce, flag
from mbpack.wizard.asking import converse
from mbpack.wizard.draft import Draft, Refused
from mbpack.wizard.key_value import command_words
from mbpack.wizard.output import OutputError, check_target, existing, preview, write
from mbpack.wizard.plan import Plan, make_plan
from mbpack.wizard.questions import BY_KEY
from mbpack.wizard.review import rows
from mbpack.wizard.reviewing import settle, shown
from mbpack.wizard.session import Session, missing, with_defaults
from mbpack.wizard.settling import JOB, fitting

if TYPE_CHECKING:
    from mbpack.wizard.from_file import Start

DONE, UNWRITTEN, USAGE, INTERRUPTED = 0, 1, 2, 130
YAML, OVERRIDES, SBATCH = "yaml", "overrides", "sbatch"
STDOUT = "-"


class UsageError(Exception):
    """Flags that cannot be used, or flags that are missing; the message is one line."""


@dataclass(slots=True)
class Options:
    """Everything the command line says. ``flags`` are answers as they were written."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    answers: str | None = None
    save_answers: str | None = None
    output: str = "packing.yaml"
    form: str = YAML
    yes: bool = False
    no_input: bool = False
    dry_run: bool = False
    force: bool = False
    machine: bool = False  # print JSON, ask nothing
    modeline: str | None = None  # schema that the first line names for editors
    fresh: bool = False
    start: str | None = None  # an override to start from
    started: Start | None = None


def run(options: Options) -> int:
    """Do it. Returns the exit code; errors are one line on stderr."""
    import sys

    try:
        return _run(options)
    except (UsageError, AnswerError, OutputError) as error:
        print(f"mbpack init: {error}", file=sys.stderr)
        return USAGE
    except Refused as refused:
        print(f"mbpack init: {refused.reason}", file=sys.stderr)
        return USAGE
    except (KeyboardInterrupt, EOFError):
        print("\nNothing was written.", file=sys.stderr)
        return INTERRUPTED


def _run(options: Options) -> int:
    if options.form not in (YAML, OVERRIDES, SBATCH):
        raise UsageError(f"--as {options.form}: write yaml, overrides or sbatch")
    if options.form == SBATCH and options.output == Options().output:
        options.output = "packing.sbatch"
    if options.modeline is not None and options.form != YAML:
        raise UsageError("--modeline names the schema of a YAML file: leave out --as")
    if options.start is not None:
        options.started = start_from(options)
    for target in (options.output, options.save_answers):
        if target not in (None, STDOUT):
            check_target(str(target))
    given = given_answers(options)
    if options.form == SBATCH and given.setdefault("launcher", RUN_RECIPE) != RUN_RECIPE:
        raise UsageError("--as sbatch starts run_recipe.py: leave out --launcher, or say run_recipe")
    interactive = not (options.yes or options.no_input or options.machine) and prompt.has_terminal()
    if interactive:
        return _interactive(naming.settled(given) if "recipe" in given else given, options)
    given = naming.settled(given)
    complete = _without_asking(given, options)
    plan = make_plan(Draft(complete))
    if options.machine:
        return _report(plan, options, complete)
    if options.form == OVERRIDES:
        return _print_overrides(plan, options, complete)
    return _write_file(plan, options, complete)


def given_answers(options: Options) -> dict[str, Any]:
    """Answers from the answers file, flags over them.

    Raises:
        AnswerError: a name or value that cannot be used.
    """
    given: dict[str, Any] = {}
    if options.started is not None:
        given.update(options.started.answers)
    if options.answers is not None:
        text = existing(options.answers)
        if text is None:
            raise UsageError(f"{options.answers}: no such answers file")
        given.update(answer_words.read(text, options.answers))
    for name, value in options.flags.items():
        if value is None:
            continue
        try:
            given[name] = coerce(name, value)
        except AnswerError as error:
            raise AnswerError(f"{flag(name)}: {str(error).partition(': ')[2]}") from None
    if options.flags.get("gbs") is not None and options.flags.get("token_slots") is not None:
        raise UsageError("--gbs and --token-slots say the same thing: give one of them")
    for one, other in (("gbs", "token_slots"), ("token_slots", "gbs")):  # a flag beats what the file says the other way
        if options.flags.get(one) is not None:
            given.pop(other, None)
    return given


def start_from(options: Options) -> Start:
    """The override to start from; it is the file that is written, unless another one is named. Answers that do not go
    together are left out, so that what follows from the others is offered.

    Raises:
        OutputError: it cannot be read, or is no override.
    """
    from mbpack.wizard.from_file import read

    if options.form != YAML or options.modeline is not None:
        raise UsageError("--from starts from an override and writes one: leave out --as and --modeline")
    started = read(str(options.start))
    if options.output == Options().output:
        options.output = str(options.start)
    if "recipe" not in started.answers:
        return started
    first = {name: started.answers[name] for name in JOB if name in started.answers}
    return started._replace(answers=fitting(started.answers, first))


def _without_asking(given: dict[str, Any], options: Options) -> dict[str, Any]:
    """Answers of a run that must not ask: defaults with ``--yes``, else every open question is missing."""
    if options.yes:
        open_keys = [key for key in missing(given) if not Session(given).draft.default(key).known]
        if open_keys:
            raise UsageError(_missing_flags(open_keys, "have no default", given))
        return with_defaults(given)
    open_keys = missing(given)
    if open_keys:
        why = "are missing" if options.no_input or options.machine else "are missing and there is no terminal to ask on"
        raise UsageError(_missing_flags(open_keys, why, given) + "; --yes takes the defaults")
    return with_defaults(given)


def _missing_flags(keys: list[str], why: str, given: Mapping[str, Any]) -> str:
    ways = {"recipe": "--recipe or --family"}
    if "data" not in given:
        ways["data_path"] = "--data or --data-path"
    names = [ways.get(key, flag(key)) for key in keys]
    if len(names) == 1:
        why = why.replace("are", "is", 1).replace("have", "has", 1)
    return f"{', '.join(names)} {why}"


# ---------------------------------------------------------------------- asking


def _interactive(given: Mapping[str, Any], options: Options) -> int:
    """Ask, show and write; who leaves without a file is told how to go on from the answers."""
    import sys

    offered = {} if options.fresh else kept.load(options.output)
    session = Session(given, offered, origins(options))

    def keep() -> bool:
        return not options.dry_run and kept.save(options.output, session.answers)

    try:
        prompt.say([*screen.wrapped(screen.GREETING, prompt.width()), *_assumed(session), ""])
        while True:
            plan = converse(session, keep)
            if options.force and options.form != OVERRIDES:
                return _write_file(plan, options, session.answers)
            plan, wish = settle(session, plan, options.output, lambda plan: _text(plan, options), keep)
            if wish == leaving.AGAIN:
                session.back()
                continue
            complete = session.answers
            if wish == leaving.LEAVE:
                return _leave(options, complete, keep())
            if options.form == OVERRIDES:
                return _print_overrides(plan, options, complete, confirmed=True)
            return _written(plan, options, complete)
    except (KeyboardInterrupt, EOFError):
        lines = ["", "Nothing was written.", *leaving.resume(session.answers, options.output, keep())]
        print("\n".join(lines), file=sys.stderr)
        return INTERRUPTED


def _assumed(session: Session) -> list[str]:
    """The release that is written for, where nobody named it: it decides the names of all keys."""
    if "bridge" in session.given:
        return []
    found = session.proposal(BY_KEY["bridge"])
    return screen.wrapped(f"For Megatron-Bridge {found.value}: {found.why}. The review changes it.", prompt.width())


def origins(options: Options) -> dict[str, str]:
    """Where given answers come from, in words."""
    started = options.started.origins if options.started is not None else {}
    return started | {name: flag(name) for name, value in options.flags.items() if value is not None}


# ---------------------------------------------------------------------- writing


def _print_overrides(plan: Plan, options: Options, complete: Mapping[str, Any], confirmed: bool = False) -> int:
    words = command_words(plan)
    if options.output not in (STDOUT, Options().output) and not options.dry_run:
        if not confirmed:
            _check_overwrite(options.output, "\n".join(words) + "\n", options)
        write(options.output, "\n".join(words) + "\n")
    else:
        print(" \\\n  ".join(words))
    _save(options, complete)
    return DONE


def _report(plan: Plan, options: Options, complete: Mapping[str, Any]) -> int:
    """Write the file as without a report, and print what was decided as JSON."""
    from mbpack.report.json import dumps
    from mbpack.wizard.report_json import init_data

    only_text = options.output == STDOUT or (options.form == OVERRIDES and options.output == Options().output)
    path = None if only_text else options.output
    text, _ = _text(plan, options)
    written = False
    if path is not None and not options.dry_run:
        _check_overwrite(path, text, options)
        written = existing(path) != text
        if written:
            write(path, text)
    _save(options, complete)
    print(dumps(init_data(plan, options.form, path, written, text, complete, options.form == SBATCH)))
    return DONE


def _write_file(plan: Plan, options: Options, complete: Mapping[str, Any]) -> int:
    """Show the file and write it, without asking."""
    width, path = prompt.width(), options.output
    text, more = _text(plan, options)
    if path == STDOUT:
        print(text, end="")
        _save(options, complete)
        return DONE
    origin = origins(options)
    prompt.say([shown(plan, rows(plan, lambda key: origin.get(key, "")), width, more=more), ""])
    old = existing(path)
    if old != text:
        prompt.say([f"{path} ({'new' if old is None else 'changes'})", *preview(path, old, text), ""])
    if options.dry_run and old != text:
        prompt.say(["Dry run: nothing was written."])
        _save(options, complete)
        prompt.say(["", *screen.next_commands(plan, path, options.form == SBATCH)])
        return DONE
    if old not in (None, text) and not options.force:
        raise UsageError(f"{path} exists and differs (see above): --force overwrites it, --output names another")
    return _written(plan, options, complete)


def _written(plan: Plan, options: Options, complete: Mapping[str, Any]) -> int:
    """Write what was shown, and say what comes next."""
    path, (text, _) = options.output, _text(plan, options)
    if path == STDOUT:
        print(text, end="")
    elif existing(path) == text:
        prompt.say([f"{path} is already exactly this."])
    elif options.dry_run:
        prompt.say(["Dry run: nothing was written."])
    else:
        write(path, text)
        prompt.say([f"Wrote {path}."])
    _save(options, complete)
    if path != STDOUT:
        prompt.say(["", *screen.next_commands(plan, path, options.form == SBATCH)])
    return DONE


def _text(plan: Plan, options: Options) -> tuple[str, Sequence[str]]:
    """What is written, and what is to be said of it: the file itself, or a Slurm script that gives the same as arguments."""
    if options.form == OVERRIDES:
        return "\n".join(command_words(plan)) + "\n", ()
    if options.started is not None:
        from mbpack.wizard.from_file import merged

        return merged(options.started, plan)
    if options.form == YAML and options.modeline is not None:
        return f"# yaml-language-server: $schema={options.modeline}\n{plan.text}", ()
    if options.form != SBATCH:
        return plan.text, ()
    if any(line.key == "dataset._target_" for line in plan.lines):
        raise UsageError(f"in {plan.draft.release} these data need another dataset class, which no argument can name: write yaml")
    return starting.sbatch(plan), ()


def _leave(options: Options, complete: Mapping[str, Any], offered: bool) -> int:
    """Leave without a file: the answers stay, in the file that was asked for or as a command."""
    _save(options, complete)
    if options.save_answers is None:
        prompt.say(["Nothing was written.", *leaving.resume(complete, options.output, offered)])
    else:
        prompt.say([f"Nothing was written; the answers are in {options.save_answers}."])
    return UNWRITTEN


def _check_overwrite(path: str, text: str, options: Options) -> None:
    old = existing(path)
    if old is not None and old != text and not options.force:
        raise UsageError(f"{path} exists and differs: --force overwrites it, --output names another")


def _save(options: Options, complete: Mapping[str, Any]) -> None:
    if options.save_answers is not None and not options.dry_run:
        write(options.save_answers, answer_words.write(complete))
