"""`mbpack completion`: static completion scripts; a shell that completes starts no Python."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from mbpack.cli.output import emit

SHELLS = ("bash", "zsh", "fish")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("completion")(completion)


def completion(shell: Annotated[str, typer.Argument(help=f"{', '.join(SHELLS)}.")]) -> int:
    """Print a completion script with commands, options, recipes of the default release, rule codes and releases."""
    if shell not in SHELLS:
        print(f"mbpack completion: {shell!r} has no script; use {', '.join(SHELLS)}", file=sys.stderr)
        return 2
    emit({"bash": _bash, "zsh": _zsh, "fish": _fish}[shell]())
    return 0


def _options() -> dict[str, list[str]]:
    """Command -> its long options."""
    from importlib import import_module

    from typer.main import get_command

    from mbpack.cli.main import COMMANDS

    found = {}
    for name, module in COMMANDS.items():
        app = typer.Typer(add_completion=False)
        import_module(module).register(app)
        params = get_command(app).params
        found[name] = sorted({text for param in params for text in param.opts if text.startswith("--")} | {"--help"})
    return found


def _values() -> dict[str, list[str]]:
    """Option -> the words that it takes."""
    from mbpack.cli.doctor import FORMATS
    from mbpack.config.context import LAUNCHERS
    from mbpack.facts.gpus import GPUS
    from mbpack.facts.recipes import names
    from mbpack.facts.releases import DEFAULT, RELEASES
    from mbpack.rules.catalogue import ALL_RULES

    codes = sorted(rule.code for rule in ALL_RULES)
    return {
        "--bridge": [release.name for release in RELEASES],
        "--to": [release.name for release in RELEASES],
        "--recipe": names(DEFAULT.name),
        "--launcher": list(LAUNCHERS),
        "--gpu": sorted(GPUS),
        "--format": list(FORMATS),
        "--select": codes,
        "--ignore": codes,
    }


def _topics() -> list[str]:
    from mbpack.rules.catalogue import BY_NAME

    return sorted(BY_NAME)


def _listed() -> list[str]:
    from mbpack.cli.listing import KINDS

    return list(KINDS)


def _bash() -> str:
    options, values = _options(), _values()
    return "\n".join(
        [
            '# bash completion for mbpack: eval "$(mbpack completion bash)"',
            "_mbpack() {",
            '  local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" command="${COMP_WORDS[1]}" words=""',
            '  if [ "$COMP_CWORD" -eq 1 ]; then',
            f'    COMPREPLY=($(compgen -W "{" ".join(options)} --version --help" -- "$cur")); return',
            "  fi",
            '  case "$prev" in',
            *(
                f'    {option}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$cur")); return ;;'
                for option, words in values.items()
            ),
            "  esac",
            '  case "$command" in',
            *(f'    {name}) words="{" ".join(words)}" ;;' for name, words in options.items()),
            "  esac",
            '  case "$command:$cur" in',
            '    *:-*) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;',
            f'    explain:*) COMPREPLY=($(compgen -W "{" ".join(_topics())}" -- "$cur")) ;;',
            f'    list:*) COMPREPLY=($(compgen -W "{" ".join(_listed())}" -- "$cur")) ;;',
            f'    completion:*) COMPREPLY=($(compgen -W "{" ".join(SHELLS)}" -- "$cur")) ;;',
            '    *) COMPREPLY=($(compgen -f -- "$cur")) ;;',
            "  esac",
            "}",
            "complete -o filenames -F _mbpack mbpack",
        ]
    )


def _zsh() -> str:
    options, values = _options(), _values()
    return "\n".join(
        [
            "#compdef mbpack",
            "_mbpack() {",
            '  local cur="${words[CURRENT]}" prev="${words[CURRENT-1]}" command="${words[2]}"',
            f"  if (( CURRENT == 2 )); then compadd -- {' '.join(options)} --version --help; return; fi",
            '  case "$prev" in',
            *(f"    {option}) compadd -- {' '.join(words)}; return ;;" for option, words in values.items()),
            "  esac",
            '  if [[ "$cur" == -* ]]; then',
            '    case "$command" in',
            *(f"      {name}) compadd -- {' '.join(words)} ;;" for name, words in options.items()),
            "    esac",
            "    return",
            "  fi",
            '  case "$command" in',
            f"    explain) compadd -- {' '.join(_topics())} ;;",
            f"    list) compadd -- {' '.join(_listed())} ;;",
            f"    completion) compadd -- {' '.join(SHELLS)} ;;",
            "    *) _files ;;",
            "  esac",
            "}",
            "compdef _mbpack mbpack",
        ]
    )


def _fish() -> str:
    return "\n".join(_fish_lines())


def _fish_lines() -> Iterator[str]:
    from mbpack.cli.help_texts import HELP

    values = _values()
    yield "# fish completion for mbpack: mbpack completion fish > ~/.config/fish/completions/mbpack.fish"
    for name, words in _options().items():
        summary = HELP[name].short.replace("'", "\\'")
        yield f"complete -c mbpack -n __fish_use_subcommand -f -a {name} -d '{summary}'"
        for option in words:
            takes = f" -x -a '{' '.join(values[option])}'" if option in values else ""
            yield f"complete -c mbpack -n '__fish_seen_subcommand_from {name}' -l {option[2:]}{takes}"
    for name, words in (("explain", _topics()), ("list", _listed()), ("completion", list(SHELLS))):
        yield f"complete -c mbpack -n '__fish_seen_subcommand_from {name}' -f -a '{' '.join(words)}'"
