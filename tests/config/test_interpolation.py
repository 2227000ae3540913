"""``${...}``: what OmegaConf accepts, and what it stands for, compared with OmegaConf itself."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import (
    GrammarParseError,
    InterpolationKeyError,
    InterpolationResolutionError,
    InterpolationToMissingValueError,
    UnsupportedInterpolationType,
)
from omegaconf.grammar_parser import parse as omegaconf_parse

from mbpack.config.document import Document, parse
from mbpack.config.interpolation import Resolved, grammar_error, is_usual, resolve_interpolation
from tests.config.config_oracle import examples, same

TREE = """\
model:
  seq_length: 4096
  name: qwen
  lr: 2.0e-5
  on_off: true
  nothing: null
  given: ???
  same: ${model.seq_length}
  beside: ${.name}
  above: ${..word}
  chain: ${model.same}
  list: [1, 2, 3]
word: model
circle: ${other}
other: ${circle}
self: ${self}
inside: {deep: "${inside}"}
sizes: {b: 2, c: 3}
through: ${sizes}
holder: {known: "${word}", list: ["${sizes.b}", 7]}
"""


def look_up(document: Document, path: str) -> Any:
    """The merged tree of the tests: one file."""
    item = document.root
    assert item is not None
    for part in path.split("."):
        if isinstance(item.value, dict):
            item = item.value[part]
        elif isinstance(item.value, list) and part.isdigit() and int(part) < len(item.value):
            item = item.value[int(part)]
        else:
            raise KeyError(path)
    return item.plain if isinstance(item.value, (dict, list)) else item.value


def resolve(text: str, at: str = "model.x", environ: dict[str, str] | None = None) -> Resolved:
    document = parse(TREE)
    return resolve_interpolation(text, at, lambda path: look_up(document, path), environ)


def omegaconf(text: str, environ: dict[str, str]) -> tuple[str, Any]:
    """Kind and value of `text` as the value of model.x, as OmegaConf resolves it."""
    tree = OmegaConf.create(TREE)
    with mock.patch.dict(os.environ, environ, clear=True):
        try:
            tree.model.x = text
            value = tree.model.x
        except GrammarParseError:
            return "syntax", None
        except InterpolationKeyError:
            return "missing-reference", None
        except InterpolationToMissingValueError:
            return "missing-value", None
        except UnsupportedInterpolationType:
            return "resolver", None
        except InterpolationResolutionError as error:
            circle = "Recursive" in str(error) or "recursion" in str(error) or "parent node" in str(error)
            missing = "Environment variable" in str(error)
            if "Key not found" in str(error):
                return "missing-reference", None
            return "circle" if circle else "missing-variable" if missing else "argument", None
        except yaml.YAMLError:
            return "argument", None
        except RecursionError:
            return "circle", None
    return "value", OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


RESOLVED = [
    "${model.seq_length}",
    "${ model.seq_length }",
    "${.seq_length}",
    "${..word}",
    "${model[seq_length]}",
    "${[model].seq_length}",
    "${model.same}",
    "${model.chain}",
    "${model.beside}",
    "${model.above}",
    "${model.on_off}",
    "${model.nothing}",
    "${model.lr}",
    "${model.list}",
    "${model.list.1}",
    "${model.list[1]}",
    "pre-${model.name}-post",
    "${model.name}${model.seq_length}",
    "${model.on_off}!",
    "${model.nothing}!",
    "${model.lr}!",
    "$${model.name}",
    "\\${model.name}",
    "\\\\${model.name}",
    "a\\b${model.name}",
    "${${word}.seq_length}",
    "${model.${.name}}",
    "${oc.env:SET}",
    "${oc.env:SET,8}",
    "${oc.env:UNSET,8}",
    "${oc.env:UNSET, 8 }",
    "${oc.env:UNSET,1e3}",
    "${oc.env:UNSET,true}",
    "${oc.env:UNSET,null}",
    "${oc.env:UNSET,'a b'}",
    '${oc.env:UNSET,"a,b"}',
    "${oc.env:UNSET,a b}",
    "${oc.env:UNSET,/a/b.c}",
    "${oc.env:UNSET,a:b}",
    "${oc.env:UNSET,''}",
    "${oc.env:UNSET,[1,2]}",
    "${oc.env:UNSET,${model.name}}",
    "${oc.env:UNSET,x${model.name}y}",
    "${oc.env:UNSET,${oc.env:SET}}",
    "/data/${oc.env:SET}/x",
    "${oc.decode:${oc.env:NUMBER}}",
    "${oc.decode:${oc.env:UNSET,8}}",
    "${oc.decode:${oc.env:UNSET,null}}",
    "${oc.select:model.name}",
    "${oc.select:model.nope,5}",
    "${oc.select:model.nope}",
    "${oc.select:model.given,5}",
    "${model.nope}",
    "${nope}",
    "${..nope}",
    "${.....x}",
    "${model.given}",
    "x${model.given}",
    "${oc.env:UNSET}",
    "${circle}",
    "${self}",
    "${art:a/b:v1}",
    "${VAR:default}",
    "${auto_mount:/path}",
    "${oc.env:A,B,C}",
    "${oc.env:5}",
    "${oc.env:}",
    "${oc.nope:1}",
    "${now:%Y-%m-%d}",
    "run-${hydra:job.name}",
    "${model[list][0]}",
    "${model.list[3]}",
    "${model.list[-1]}",
    "x${model.list}",
    "${oc.create:[1,2]}",
    "${oc.create:{a: 1, b: 'x y'}}",
    "${oc.create:null}",
    "${oc.create:5}",
    "x${oc.create:[1]}",
    "${oc.dict.keys:inside}",
    "${oc.dict.keys:nope}",
    "${oc.dict.keys:word}",
    "${oc.dict.values:sizes}",
    "${oc.deprecated:word}",
    "${oc.deprecated:word,'say this'}",
    "${oc.deprecated:nope}",
    "${oc.deprecated:word,a,b}",
    "${oc.select:word,1,2}",
    "${oc.select:5}",
    "${oc.select:circle,5}",
    "${oc.decode:'[1, 2]'}",
    "${oc.decode:'[1'}",
    "${oc.decode:5}",
    "${oc.decode:null}",
    "${oc.decode:'a b'}",
    "${oc.decode:}",
    "${through.b}",
    "${through.nope}",
    "${holder}",
    "${",
    "${}",
    "${model",
    "${model name}",
    "${model.}",
    "${a:b",
    "x}${model.name}{y",
]


@pytest.mark.parametrize("text", RESOLVED)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_a_text_stands_for(text: str) -> None:
    environ = {"SET": "given", "NUMBER": "16"}
    kind, value = omegaconf(text, environ)
    ours = resolve(text, environ=environ)
    assert ours.kind == kind
    assert same(value, ours.value)
    assert not ours.likely
    assert bool(ours.reason) == (kind != "value")
    assert "\n" not in ours.reason


def test_a_key_below_a_word_does_not_exist() -> None:
    """OmegaConf says so in other words (InterpolationResolutionError)."""
    assert resolve("${model.name.x}").kind == "missing-reference"
    assert omegaconf("${model.name.x}", {})[0] == "argument"


def test_a_reference_keeps_the_type_of_its_target() -> None:
    assert resolve("${model.seq_length}").value == 4096
    assert resolve("${model.seq_length} ").value == "4096 "


def test_the_environment_may_be_unknown() -> None:
    needed = resolve("${oc.env:X}")
    assert (needed.kind, needed.needs, needed.text) == ("unknown", ("environment",), True)
    assert resolve("/a/${oc.env:X}").text
    assert not resolve("${oc.decode:${oc.env:X}}").text
    assert resolve("/a/${oc.decode:${oc.env:X}}").text
    assert "X" in needed.reason
    default = resolve("${oc.env:X,8}")
    assert (default.kind, default.value, default.likely) == ("value", "8", True)
    assert resolve("${oc.decode:${oc.env:X,8}}").value == 8
    assert resolve("/a/${oc.env:X,b}").likely


@pytest.mark.parametrize("text", ["${circle}", "${self}", "${inside.deep}", "${model}"])
def test_circles_are_refused(text: str) -> None:
    found = resolve(text)
    assert (found.kind, found.needs, found.refused) == ("circle", (), True)
    assert "circle" in found.reason


def test_long_chains_end() -> None:
    links = {f"a{number}": f"${{a{number + 1}}}" for number in range(1000)}
    document = parse("\n".join(f"{key}: {value}" for key, value in links.items()))
    found = resolve_interpolation("${a0}", "x", lambda path: look_up(document, path), {})
    assert found.kind == "unknown"


def test_a_resolver_that_is_not_omegaconfs_is_named() -> None:
    assert "art" in resolve("${art:a/b:v1}").reason


def test_errors_of_the_lookup_pass_through() -> None:
    def fail(path: str) -> Any:
        raise LookupError(path)

    with pytest.raises(LookupError, match=r"model\.name"):
        resolve_interpolation("${model.name}", "x", fail, None)


# ---------------------------------------------------------------- the grammar

_pieces = st.sampled_from(
    (
        *(
            "${",
            "${",
            "}",
            "}",
            "a",
            "b.c",
            "model",
            ".",
            "..",
            ":",
            ",",
            " ",
            "  ",
            "[",
            "]",
            "{",
            "'",
            '"',
            "\\",
            "$",
            "$$",
        ),
        *(
            "1",
            "-1",
            "1.5",
            "1e5",
            "true",
            "null",
            "oc.env",
            "X",
            "-",
            "/",
            "+",
            "=",
            "(",
            ")",
            "#",
            "%",
            "@",
            "é",
            "\t",
            "~",
            "?",
        ),
        *(
            "${a}",
            "${a.b}",
            "${oc.env:X}",
            "${oc.env:X,1}",
            "x${a}",
            "${a:b,c}",
            "${a:'b'}",
            "${.a}",
            "${a[b]}",
            "'b c'",
        ),
    )
)
_odd = st.lists(_pieces, min_size=1, max_size=7).map("".join)
_arguments = st.text("abcXY012_/+.%*@?|:- ,'\"{}[]$=~", max_size=8)
_calls = st.builds(
    "{}${{{}:{}}}{}".format, st.sampled_from(("", "x", "$")), st.sampled_from(("a", "oc.env", "b-c")), _arguments, _odd
)


def accepted(text: str) -> bool:
    try:
        omegaconf_parse(text)
    except GrammarParseError:
        return False
    return True


@examples(80)
@given(st.one_of(_odd, _calls))
def test_the_usual_writings_are_accepted_by_omegaconf(text: str) -> None:
    if is_usual(text):
        assert accepted(text)
    assert (grammar_error(text) is None) == accepted(text)


@pytest.mark.parametrize(
    "text", ["${a}", "${a.b}", "x/${a}/y", "${oc.env:X,8}", "${oc.env:X,${a.b}}", "${art:a/b:v1,c}", "${V:d}"]
)
def test_usual_writings_do_not_need_omegaconf(text: str) -> None:
    assert is_usual(text)


@examples(40)
@given(st.one_of(_odd, _calls))
def test_any_text_as_omegaconf_resolves_it(text: str) -> None:
    if "${" not in text:
        return
    kind, value = omegaconf(text, {"X": "7"})
    ours = resolve(text, environ={"X": "7"})
    assert ours.kind == kind or "unknown" in (ours.kind, kind)
    if ours.kind == "value":
        assert same(value, ours.value)
