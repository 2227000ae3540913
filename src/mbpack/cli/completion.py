"""`mbpack completion`: static completion scripts; a shell that completes starts no Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, NamedTuple

import typer

from mbpack.cli.choices import choice
from mbpack.cli.colour import WORDS as COLOURS
from mbpack.cli.output import emit

SHELLS = ("bash", "zsh", "fish")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("completion")(completion)


def completion(shell: Annotated[str, typer.Argument(metavar=choice(SHELLS), help="The shell.")]) -> int:
    """Print a completion script with commands, options and their words, recipes of the default release, rule codes and releases."""
    if shell not in SHELLS:
        print(f"mbpack completion: {shell!r} has no script; use {', '.join(SHELLS)}", file=sys.stderr)
        return 2
    emit({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]())
    return 0


class Completed(NamedTuple):
    """What can be completed in a command: options, the words that an option takes, and the words that stand alone."""

    options: list[str]
    values: dict[str, list[str]]
    words: list[str]


def _commands() -> dict[str, Completed]:
    from importlib import import_module

    from typer.main import get_command

    from mbpack.cli.main import COMMANDS

    known = _known()
    found = {}
    for name, module in COMMANDS.items():
        app = typer.Typer(add_completion=False)
        import_module(module).register(app)
        params = get_command(app).params
        values: dict[str, list[str]] = {"--color": list(COLOURS)}
        words = known.get(name, [])
        for param in params:
            choices = _choices(param.metavar)
            if param.param_type_name == "argument":
                words = words or choices
                continue
            for option in (text for text in param.opts if text.startswith("--")):
                taken = choices or known.get(option, [])
                if taken:
                    values[option] = taken
        options = {text for param in params for text in (*param.opts, *param.secondary_opts) if text.startswith("--")}
        found[name] = Completed(sorted(options | {"--help", "--color"}), dict(sorted(values.items())), words)
    return found


def _choices(metavar: str | None) -> list[str]:
    """The words of a metavar like `[text|json]`."""
    held = metavar[1:-1] if metavar is not None and metavar[:1] == "[" and metavar[-1:] == "]" else ""
    return held.split("|") if "|" in held and " " not in held else []


def _known() -> dict[str, list[str]]:
    """Option of any command, or command that takes a word -> these words."""
    from mbpack.cli.schema import KINDS
    from mbpack.facts.families import FAMILIES
    from mbpack.facts.gpus import GPUS
    from mbpack.facts.recipes import names
    from mbpack.facts.releases import DEFAULT, RELEASES
    from mbpack.facts.upstream_tests import FEATURES
    from mbpack.rules.catalogue import ALL_RULES, BY_NAME

    codes = sorted(rule.code for rule in ALL_RULES)
    releases = [release.name for release in RELEASES]
    return {
        "--bridge": releases,
        "--to": releases,
        "--from": releases,
        "--recipe": names(DEFAULT.name),
        "--family": sorted(family.name for family in FAMILIES),
        "--gpu": sorted(GPUS),
        "--feature": list(FEATURES),
        "--select": codes,
        "--ignore": codes,
        "explain": sorted(BY_NAME),
        "schema": list(KINDS),
    }


def _by_words(commands: dict[str, Completed]) -> Iterator[tuple[list[str], str]]:
    """Patterns `command:option` that take the same words, and these words."""
    same: dict[str, list[str]] = {}
    for name, held in commands.items():
        for option, words in held.values.items():
            same.setdefault(" ".join(words), []).append(f"{name}:{option}")
    yield from ((patterns, words) for words, patterns in same.items())


def _bash() -> str:
    commands = _commands()
    return "\n".join(
        [
            '# bash completion for mbpack: eval "$(mbpack completion bash)"',
            "_mbpack() {",
            '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}" words=""',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W "{" ".join(commands)} --version --help --color" -- "$cur")); return',
            "  fi",
            '  case "$command:$prev" in',
            *(
                f'    {"|".join(patterns)}) COMPREPLY=($(compgen -W "{words}" -- "$cur")); return ;;'
                for patterns, words in _by_words(commands)
            ),
            "  esac",
            '  case "$command" in',
            *(f'    {name}) words="{" ".join(held.options)}" ;;' for name, held in commands.items()),
            "  esac",
            '  case "$command:$cur" in',
            '    *:-*) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;',
            *(
                f'    {name}:*) COMPREPLY=($(compgen -W "{" ".join(held.words)}" -- "$cur")) ;;'
                for name, held in commands.items()
                if held.words
            ),
            '    *) COMPREPLY=($(compgen -f -- "$cur")) ;;',
            "  esac",
            "}",
            "complete -o filenames -F _mbpack mbpack",
        ]
    )


def _zsh() -> str:
    commands = _commands()
    return "\n".join(
        [
            "#compdef mbpack",
            "_mbpack() {",
            '  local cur="${words[CURRENT]}" prev="${words[CURRENT-1]}" command="${words[2]}"',
            f"  if (( CURRENT == 2 )); then compadd -- {' '.join(commands)} --version --help --color; return; fi",
            '  case "$command:$prev" in',
            *(f"    {'|'.join(patterns)}) compadd -- {words}; return ;;" for patterns, words in _by_words(commands)),
            "  esac",
            '  if [[ "$cur" == -* ]]; then',
            '    case "$command" in',
            *(f"      {name}) compadd -- {' '.join(held.options)} ;;" for name, held in commands.items()),
            "    esac",
            "    return",
            "  fi",
            '  case "$command" in',
            *(f"    {name}) compadd -- {' '.join(held.words)} ;;" for name, held in commands.items() if held.words),
            "    *) _files ;;",
            "  esac",
            "}",
            # autoloaded from a folder of $fpath the file is the function itself; read with eval or source it registers it
            'if [[ "$funcstack[1]" == _mbpack ]]; then _mbpack "$@"; else compdef _mbpack mbpack; fi',
        ]
    )


def _fish() -> str:
    return "\n".join(_fish_lines())


def _fish_lines() -> Iterator[str]:
    from mbpack.cli.help_texts import HELP

    yield "# fish completion for mbpack: mbpack completion fish > ~/.config/fish/completions/mbpack.fish"
    for name, held in _commands().items():
        summary = HELP[name].short.replace("'", "\\'")
        yield f"complete -c mbpack -n __fish_use_subcommand -f -a {name} -d '{summary}'"
        here = f"complete -c mbpack -n '__fish_seen_subcommand_from {name}'"
        for option in held.options:
            takes = f" -x -a '{' '.join(held.values[option])}'" if option in held.values else ""
            yield f"{here} -l {option[2:]}{takes}"
        if held.words:
            yield f"{here} -f -a '{' '.join(held.words)}'"
