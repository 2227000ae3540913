"""KEY=VALUE arguments do to a configuration what upstream's function does."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import DictConfig, OmegaConf

from mbpack.config.document import Interpolation, Item, parse
from mbpack.config.overrides import Override, OverrideProblem, as_document, parse_overrides, whole
from tests.config.config_oracle import examples, same

BASE: dict[str, Any] = {
    "model": {"seq_length": 4096, "tp": 1, "name": "x", "pp": None, "kinds": ["a", "b"]},
    "dataset": {"specs": {"size": 1, "mult": 2}, "kwargs": {}, "null": None},
    "word": "w",
}
REFUSED = "refused"


def upstream(arguments: list[str]) -> Any:
    """What `parse_hydra_overrides` of every release does: struct mode, Hydra's parser, Hydra's merge."""
    tree = OmegaConf.create(copy.deepcopy(BASE))
    try:
        OmegaConf.set_struct(tree, True)
        parsed = OverridesParser.create().parse_overrides(overrides=arguments)
        ConfigLoaderImpl._apply_overrides_to_config(overrides=parsed, cfg=tree)
    except Exception:  # upstream wraps whatever it is in an OverridesError
        return REFUSED
    return OmegaConf.to_container(tree)


def ours(arguments: list[str]) -> Any:
    """The same with our parser and a plain reading of what the operations mean."""
    tree = OmegaConf.create(copy.deepcopy(BASE))
    OmegaConf.set_struct(tree, True)
    for override in parse_overrides(arguments):
        if isinstance(override, OverrideProblem) or not apply(tree, override):
            return REFUSED
    return OmegaConf.to_container(tree)


def apply(tree: DictConfig, override: Override) -> bool:
    key = ".".join(override.key)
    value = plain(override.value)
    held = OmegaConf.select(tree, key)
    try:
        if override.op == "delete":
            if held is None or (value is not None and value != held):
                return False
            owner = OmegaConf.select(tree, ".".join(override.key[:-1])) if len(override.key) > 1 else tree
            OmegaConf.set_struct(tree, False)
            del owner[override.key[-1]]
            OmegaConf.set_struct(tree, True)
        elif override.op == "add" and held is not None and not isinstance(value, (dict, list)):
            return False
        else:
            OmegaConf.update(tree, key, value, merge=True, force_add=override.op != "set")
    except Exception:  # struct mode, wrong kinds
        return False
    return True


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    if isinstance(value, list):
        return [plain(child) for child in value]
    return str(value) if isinstance(value, Interpolation) else value


ARGUMENTS = [
    "model.seq_length=8192",
    "model.seq_length=8_192",
    "model.seq_length=8e3",
    "model.seq_length=-1",
    "model.seq_length=+1",
    "model.seq_length=007",
    "model.seq_length=0x10",
    "model.seq_length=",
    "model.seq_length=null",
    "model.seq_length=NULL",
    "model.seq_length=True",
    "model.seq_length=yes",
    "model.seq_length=inf",
    "model.seq_length=.5",
    "model.seq_length=1.",
    "model.seq_length=1.5.2",
    "model.seq_length= 1",
    "model.seq_length=1 ",
    "model.seq_length=a b",
    "model.seq_length=???",
    "model.seq_length=${model.tp}",
    "model.seq_length=${oc.env:X,8}",
    "model.seq_length=${shell:X}",
    "model.seq_length='${model.tp}'",
    "model.seq_length='8192'",
    'model.seq_length="a, b"',
    "model.seq_length='it\\'s'",
    "model.seq_length=a\\,b",
    "model.name=/data/a-b_c.jsonl",
    "model.name=a:b",
    "model.name=torch.bfloat16",
    "model.name=$x",
    "model.name=*",
    "model.name=@x",
    "model.kinds=[c]",
    "model.kinds=[]",
    "model.kinds=[1, 'b', {c: d}]",
    "model.kinds.0=c",
    "model.kinds.5=c",
    "dataset.specs={size: 5}",
    "dataset.specs={new: 5}",
    "dataset.specs=5",
    "dataset.specs=null",
    "dataset.kwargs.new=1",
    "+dataset.kwargs.new=1",
    "++dataset.kwargs.new=1",
    "+dataset.kwargs={a: 1, b: {c: 2}}",
    "dataset.null.x=1",
    "+dataset.null.x=1",
    "++dataset.null.x=1",
    "+model.tp=2",
    "++model.tp=2",
    "+model.kinds=[d]",
    "+model.new=1",
    "+new=1",
    "+new.deep.er=1",
    "new=1",
    "~model.tp",
    "~model.tp=1",
    "~model.tp=2",
    "~model.nope",
    "~dataset",
    "~model.pp",
    "word=1",
    "model=1",
    "model={tp: 2}",
    "model.seq_length=1,2",
    "model.seq_length=choice(1,2)",
    "model.seq_length=range(1,3)",
    "model.seq_length=int(3)",
    "model.name=str(3)",
    "model.kinds=sort([2,1])",
    "model.name=f(x)",
    "model.name=(x)",
    "model.name=[1",
    "model.name={a}",
    "model.name=a=b",
    "model.name=#x",
    "model.name=é",
    "model.name=${model.tp",
    "model.name='${a b}'",
    "model.name={null: 1}",
    "model@x=1",
    "model/x=1",
    "+model/x=1",
    "model[tp]=1",
    "model..tp=1",
    ".model=1",
    "model.=1",
    "=1",
    "",
    "model",
    "model.tp",
    "--model.tp=1",
    " model.tp=1",
    "model.tp =1",
    "model.tp: 1",
    "a-b=1",
    "+a-b=1",
    "+1=2",
    "hydra.run=1",
]


@pytest.mark.parametrize("argument", ARGUMENTS)
def test_one_argument(argument: str) -> None:
    assert same(upstream([argument]), ours([argument]))


def test_a_glob_is_refused_here_only() -> None:
    """Hydra's glob() of configuration files ends up as a mapping of its own, which nobody means."""
    assert upstream(["model.name=glob(*)"]) != REFUSED
    assert ours(["model.name=glob(*)"]) == REFUSED


_keys = st.sampled_from(
    (
        "model.seq_length",
        "model.new",
        "model.kinds",
        "dataset.specs",
        "dataset.specs.size",
        "dataset.null.x",
        "word",
        "new.x",
        "a-b",
    )
)
_signs = st.sampled_from(("", "", "", "+", "++", "~"))
_values = st.one_of(
    st.text("0123456789_.eE+-", max_size=6),
    st.text("ab01_.-+/:eE", max_size=6),
    st.text("ab1 ,:[]{}'\"\\=$?()~@#%\té", max_size=8),
    st.sampled_from(
        (
            "true",
            "False",
            "null",
            "???",
            "[1,2]",
            "{a: 1}",
            "{size: 3}",
            "'x y'",
            "nan",
            "-inf",
            "${word}",
            "${a:b}",
            "x${shell:A}y",
            "${a.b}/${c}",
            "${a}:1",
        )
    ),
)
_arguments = st.builds("{}{}={}".format, _signs, _keys, _values)


@examples(50)
@given(st.lists(_arguments, min_size=1, max_size=3))
def test_any_arguments(arguments: list[str]) -> None:
    if "glob(" not in "".join(arguments):
        assert same(upstream(arguments), ours(arguments))


@examples(50)
@given(_arguments)
def test_the_short_way_reads_as_hydra_does(argument: str) -> None:
    (override,) = parse_overrides([argument])
    try:
        parsed = OverridesParser.create().parse_overrides([argument])[0]
    except Exception:
        assert isinstance(override, OverrideProblem)
        return
    if isinstance(override, Override):
        assert ".".join(override.key) == parsed.key_or_group
        assert same(parsed.value(), plain(override.value))
        assert override.given == ("=" in argument)


@examples(40)
@given(st.text(max_size=20))
def test_any_text(text: str) -> None:
    (found,) = parse_overrides([text])
    assert found.text == text
    if isinstance(found, OverrideProblem):
        assert found.message
        assert "\n" not in found.message


@pytest.mark.parametrize(
    ("argument", "kind", "said"),
    [
        ("model.tp", "syntax", "equals sign"),
        ("--recipe=x", "syntax", "launcher"),
        ("model[tp]=1", "syntax", "joined by dots"),
        ("model.tp=a=b", "syntax", "quotes"),
        ("model.tp=f(x)", "syntax", "function"),
        ("model.tp=1,2", "sweep", "key=[1,2]"),
        ("model@x=1", "group", "KEY=VALUE"),
        ("model.tp='${a b}'", "interpolation", "close it"),
        ("model.tp={null: 1}", "key", "null"),
        ("model.tp=" + "[" * 30_000, "syntax", "characters"),
        ("model.tp=" + "[" * 1_000, "syntax", "brackets"),
    ],
)
def test_problems_say_how_to_mend(argument: str, kind: str, said: str) -> None:
    (problem,) = parse_overrides([argument])
    assert isinstance(problem, OverrideProblem)
    assert problem.kind == kind
    assert said in problem.message


def test_what_an_override_holds() -> None:
    found = parse_overrides(["model.tp=2", "++a.b='x'", "~c", "d=???", "e={f: [${g}]}"])
    assert found[0] == Override("set", ("model", "tp"), 2, "model.tp=2", 0, 10)
    assert found[1] == Override("force", ("a", "b"), "x", "++a.b='x'", 1, 7)
    assert found[2] == Override("delete", ("c",), None, "~c", 2, 3, given=False)
    assert isinstance(found[3], Override)
    assert found[3].value == "???"  # no marker: the text takes the value's place
    assert isinstance(found[4], Override)
    assert isinstance(found[4].value["f"][0], Interpolation)


# ---------------------------------------------------------------- as one configuration


def test_arguments_as_a_configuration() -> None:
    document = as_document(
        parse_overrides(["a.b=1", "a.c={x: 1, y: 2}", "+a.c.x=3", "d='8'", "a.b=5", "~e", "f", "g=[1]", "g=[2]"])
    )
    assert document.root is not None
    assert document.root.plain == {"a": {"b": 5, "c": {"x": 3, "y": 2}}, "d": "8", "g": [2]}
    assert document.root.value["d"].quoted
    assert not document.root.value["g"].quoted


def test_places_in_the_arguments() -> None:
    document = as_document(parse_overrides(["a.b=1", "++c.dd=xyz"]))
    assert document.root is not None
    item: Item = document.root.value["c"].value["dd"]
    assert item.key is not None
    for span, text in ((item.span, "xyz"), (item.key, "dd"), (document.root.value["c"].key, "c")):
        assert document.text[span.start : span.end] == text
        assert document.text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1] == text


def test_a_deletion_has_the_place_of_its_argument() -> None:
    parsed = parse_overrides(["a.b=1", "~c.dd=x"])
    document = as_document(parsed)
    first, second = (whole(document, one) for one in parsed if isinstance(one, Override))
    assert first is not None
    assert second is not None
    assert document.text[first.span.start : first.span.end] == "a.b=1"
    assert document.text[second.span.start : second.span.end] == "~c.dd=x"
    assert (second.span.line, second.span.column, second.span.end_column) == (2, 1, 8)
    assert second.value == "x"
    assert whole(parse("a: 1"), parsed[1]) is None  # type: ignore[arg-type]


@examples(40)
@given(st.lists(st.builds("++{}={}".format, _keys, _values), max_size=4))
def test_a_configuration_of_arguments_as_omegaconf_merges_them(arguments: list[str]) -> None:
    parsed = parse_overrides(arguments)
    tree = OmegaConf.create({})
    for override in parsed:
        if isinstance(override, Override):
            OmegaConf.update(tree, ".".join(override.key), plain(override.value), merge=True, force_add=True)
    root = as_document(parsed).root
    assert root is not None
    assert same(OmegaConf.to_container(tree), root.plain)


def test_no_arguments() -> None:
    root = as_document([]).root
    assert root is not None
    assert root.plain == parse("").root.plain == {}
