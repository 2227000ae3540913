"""A saved file that fits no release whole: what the best fitting one lacks is said, and refuses nothing."""

from __future__ import annotations

from mbpack.config.context import Given
from mbpack.config.document import parse
from mbpack.engine.doctor import Request, judge
from mbpack.engine.result import Result
from mbpack.rules.base import Finding
from tests.conformance import dumps

SAVED = next(iter(dumps.saved("0.5")))["yaml"]


def examined(field: str, bridge: str | None = None) -> Result:
    text = SAVED.replace("\ntokenizer:\n", f"\ntokenizer:\n  {field}: null\n", 1)
    assert text != SAVED
    return judge(Request([parse(text)], Given(bridge)))


def about(result: Result, field: str) -> list[Finding]:
    return [finding for finding in result.findings if finding.setting.key == f"tokenizer.{field}"]


def test_a_field_of_another_release() -> None:
    result = examined("tiktoken_special_tokens")
    assert result.context is not None
    assert result.context.version.release.name == "0.5"
    (told,) = about(result, "tiktoken_special_tokens")
    assert (told.outcome.severity, told.outcome.consequence) == ("info", "note")
    assert "0.3 and 0.4" in told.message
    (named,) = about(examined("tiktoken_special_tokens", "0.5"), "tiktoken_special_tokens")
    assert named.outcome.consequence == "rejected"


def test_a_field_of_none() -> None:
    (told,) = about(examined("never_there"), "never_there")
    assert told.outcome.consequence == "rejected"
