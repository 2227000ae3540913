"""``mbpack init`` from flags to file: what is asked, shown, confirmed and written, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mbpack.wizard import answers as answer_words
from mbpack.wizard import leaving, naming, prompt, screen, starting
from mbpack.wizard.answers import KINDS, RUN_RECIPE, YES_NO, AnswerError, coerce, flag
from mbpack.wizard.draft import Default, Draft, Refused
from mbpack.wizard.key_value import command_words
from mbpack.wizard.output import OutputError, check_target, existing, preview, write
from mbpack.wizard.plan import Plan, make_plan
from mbpack.wizard.questions import Option, Question
from mbpack.wizard.session import Session, close_options, missing, with_defaults

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
    return _write_file(plan, options, complete, None) or DONE


def given_answers(options: Options) -> dict[str, Any]:
    """Answers from the answers file, flags over them.

    Raises:
        AnswerError: a name or value that cannot be used.
    """
    given: dict[str, Any] = {}
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


def _without_asking(given: dict[str, Any], options: Options) -> dict[str, Any]:
    """Answers of a run that must not ask: defaults with ``--yes``, else every open question is missing."""
    if options.yes:
        open_keys = [key for key in missing(given) if not Session(given).draft.default(key).known]
        if open_keys:
            raise UsageError(_missing_flags(open_keys, "have no default"))
        return with_defaults(given)
    open_keys = missing(given)
    if open_keys:
        why = "are missing" if options.no_input or options.machine else "are missing and there is no terminal to ask on"
        raise UsageError(_missing_flags(open_keys, why) + "; --yes takes the defaults")
    return with_defaults(given)


def _missing_flags(keys: list[str], why: str) -> str:
    names = [("--recipe or --family" if key == "recipe" else flag(key)) for key in keys]
    if len(names) == 1:
        why = why.replace("are", "is", 1).replace("have", "has", 1)
    return f"{', '.join(names)} {why}"


# ---------------------------------------------------------------------- asking


def _interactive(given: Mapping[str, Any], options: Options) -> int:
    """Ask, show and write; who leaves without a file is told how to go on from the answers."""
    import sys

    session = Session(given)
    try:
        prompt.say([*screen.wrapped(screen.GREETING, prompt.width()), ""])
        while True:
            plan, complete = converse(session)
            if options.form == OVERRIDES:
                return _print_overrides(plan, options, complete)
            code = _write_file(plan, options, complete, session)
            if code is not None:
                return code
            session.back()
    except (KeyboardInterrupt, EOFError):
        lines = ["", "Nothing was written.", *leaving.resume(session.draft.answers, options.output)]
        print("\n".join(lines), file=sys.stderr)
        return INTERRUPTED


def converse(session: Session) -> tuple[Plan, dict[str, Any]]:
    """Ask until the answers make a plan."""
    while True:
        question = session.question
        if question is None:
            try:
                return make_plan(session.draft), dict(session.draft.answers)
            except Refused as refused:
                prompt.say(screen.refused(refused.reason, prompt.width()))
                if not session.back():
                    raise
                continue
        ask(session, question)


def ask(session: Session, question: Question) -> None:
    """Ask one question once; an unusable answer is explained and the question stays open."""
    width = prompt.width()
    proposal = session.proposal(question)
    options = session.options(question)
    prompt.say(screen.before(question, proposal, session.draft, options, width))
    listed = question.options is not None and not (question.search and not session.draft.given("family"))
    names = [*session.families(), *(option.value for option in options)] if question.search and not listed else []
    reply = _reply(question, proposal, options, names)
    if reply is prompt.HELP:
        prompt.say(screen.help_text(question, session.draft, width))
        for option in options:
            if option.refused:
                prompt.say(screen.wrapped(f"{option.title}: {option.refused}", width, "  - ", "    "))
        return
    if reply is prompt.BACK:
        if not session.back():
            prompt.say(screen.refused("this is the first question", width))
        return
    if reply is prompt.TAKE_DEFAULT:
        if not proposal.known:
            prompt.say(screen.refused("there is no default: type a name, parts of one, or a model family", width))
            return
        reply = proposal.value
    answer = reply if listed else _completed(session, question, options, reply)
    if answer is prompt.BACK:
        return  # to the same question
    if answer != reply:
        prompt.say([f"  {answer}"])
    problem = session.answer(question, answer)
    if problem is not None:
        prompt.say(screen.refused(problem, width))


def _reply(question: Question, proposal: Default, options: list[Option], names: list[str]) -> Any:
    """The answer: found among ``names`` where there are any, else chosen from the options, else typed."""
    default = screen.shown(proposal.value) if proposal.known else ""
    if names:
        return prompt.ask_search(question.prompt, default, names)
    if question.options is not None:
        return prompt.ask_choice(question.prompt, options, proposal.value)
    if KINDS[question.key].kind == YES_NO:
        return prompt.ask_yes_no(question.prompt, bool(proposal.value))
    return prompt.ask_text(question.prompt, default)


def _completed(session: Session, question: Question, options: list[Option], reply: Any) -> Any:
    """A search text that only one option answers to is that option, of several one is chosen; a model family stays."""
    if not question.search or any(option.value == reply for option in options) or session.family_of(question, reply):
        return reply
    if session.is_recipe(str(reply)):
        return reply  # under another name
    found = session.meant(str(reply)) or close_options(options, str(reply))
    if len(found) < 2:
        return found[0] if found else reply
    prompt.say(screen.refused(f"{len(found)} recipes match: choose one, or b to type another name", prompt.width()))
    listed = [option for option in options if option.value in found] or [Option(name, name) for name in found]
    chosen = prompt.ask_choice(question.prompt, listed, listed[0].value)
    return reply if chosen is prompt.HELP else chosen


# ---------------------------------------------------------------------- writing


def _print_overrides(plan: Plan, options: Options, complete: Mapping[str, Any]) -> int:
    words = command_words(plan)
    if options.output not in (STDOUT, Options().output) and not options.dry_run:
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
    text = "\n".join(command_words(plan)) + "\n" if options.form == OVERRIDES else _text(plan, options)
    written = False
    if path is not None and not options.dry_run:
        _check_overwrite(path, text, options)
        written = existing(path) != text
        if written:
            write(path, text)
    _save(options, complete)
    print(dumps(init_data(plan, options.form, path, written, text, complete, options.form == SBATCH)))
    return DONE


def _write_file(plan: Plan, options: Options, complete: Mapping[str, Any], session: Session | None) -> int | None:
    """Show the file and write it; None where the user wants to go back to the questions of the session."""
    width, path = prompt.width(), options.output
    if path == STDOUT:
        print(_text(plan, options), end="")
        _save(options, complete)
        return DONE
    text = _text(plan, options)
    prompt.say([screen.joined([screen.recommendation(plan, width), screen.derivation(plan, width)]), ""])
    old = existing(path)
    if old == text:
        prompt.say([f"{path} is already exactly this."])
    else:
        prompt.say([f"{path} ({'new' if old is None else 'changes'})", *preview(path, old, text), ""])
        if options.dry_run:
            prompt.say(["Dry run: nothing was written."])
        else:
            wish = _confirm(path, old, options, session)
            if wish == leaving.AGAIN:
                return None
            if wish == leaving.LEAVE:
                return _leave(options, complete)
            write(path, text)
            prompt.say([f"Wrote {path}."])
    _save(options, complete)
    prompt.say(["", *screen.next_commands(plan, path, options.form == SBATCH)])
    return DONE


def _text(plan: Plan, options: Options) -> str:
    """What is written: the file itself, or a Slurm script that gives the same as arguments."""
    if options.form == YAML and options.modeline is not None:
        return f"# yaml-language-server: $schema={options.modeline}\n{plan.text}"
    if options.form != SBATCH:
        return plan.text
    if any(line.key == "dataset._target_" for line in plan.lines):
        raise UsageError(f"in {plan.draft.release} these data need another dataset class, which no argument can name: write yaml")
    return starting.sbatch(plan)


def _confirm(path: str, old: str | None, options: Options, session: Session | None) -> str:
    """Ask before writing; without asking, an existing file needs ``--force``."""
    if options.force:
        return leaving.WRITE
    if session is not None:
        return leaving.confirm(path, old is not None, session.first)
    if old is not None:
        raise UsageError(f"{path} exists and differs (see above): --force overwrites it, --output names another")
    return leaving.WRITE


def _leave(options: Options, complete: Mapping[str, Any]) -> int:
    """Leave without a file: the answers stay, in the file that was asked for or as a command."""
    _save(options, complete)
    if options.save_answers is None:
        prompt.say(["Nothing was written.", *leaving.resume(complete, options.output)])
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
