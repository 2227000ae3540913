"""What each release makes of a row: cut, dropped, aligned, or a crash."""

from __future__ import annotations

import pytest

from mbpack.facts.releases import R03, R04, R05, R06, R07, Release
from mbpack.plan.histogram import Histogram
from mbpack.plan.rows import Loss, Mapped, Schema, map_rows

OLD, NEW = (R03, R04, R05), (R06, R07)
PAIRS: Schema = "prompt-completion"
CHAT: Schema = "chat"


def mapped(lengths: list[int], release: Release, schema: Schema, multiple: int = 1, cap: int = 100, pack: int = 100) -> Mapped:
    return map_rows(Histogram.of_lengths(lengths), release, schema, cap, multiple, pack)


def samples(result: Mapped) -> list[int]:
    return [length for length, number in zip(result.lengths, result.counts, strict=True) for _ in range(number)]


@pytest.mark.parametrize("release", [*OLD, *NEW])
def test_labels_cost_one_token(release: Release) -> None:
    assert samples(mapped([10, 20, 20], release, PAIRS)) == [9, 19, 19]


@pytest.mark.parametrize("release", [*OLD, *NEW])
def test_long_pairs_are_cut_to_the_cap(release: Release) -> None:
    result = mapped([100, 101, 150], release, PAIRS)
    assert samples(result) == [99, 99, 99]
    assert result.truncated == Loss(2, 51)
    assert result.dropped == Loss()


@pytest.mark.parametrize("release", NEW)
def test_long_chats_are_dropped_without_a_multiple(release: Release) -> None:
    result = mapped([50, 101, 102, 300], release, CHAT)
    assert samples(result) == [49, 100]
    assert result.dropped == Loss(2, 402)
    assert result.crash is None


@pytest.mark.parametrize("schema", [CHAT, PAIRS])
@pytest.mark.parametrize("release", NEW)
def test_a_multiple_cuts_to_its_last_multiple_below_the_cap(release: Release, schema: Schema) -> None:
    result = mapped([2, 9, 10, 97, 98, 300], release, schema, multiple=8)
    assert samples(result) == [8, 8, 16, 96, 96, 96]
    assert result.truncated == Loss(2, 1 + 203)
    assert result.alignment_tokens == (8 - 1) + (16 - 9)
    assert result.real_tokens + result.alignment_tokens == sum(samples(result))
    assert result.misaligned == 0


@pytest.mark.parametrize("release", OLD)
def test_older_releases_align_the_stored_length(release: Release) -> None:
    result = mapped([8, 9, 97, 150], release, PAIRS, multiple=8)
    assert samples(result) == [8, 16, 100, 100]
    assert result.misaligned == 2  # 100 is no multiple of 8
    assert result.truncated == Loss(1, 50)


@pytest.mark.parametrize("release", OLD)
def test_older_releases_fail_on_long_chats(release: Release) -> None:
    result = mapped([50, 101, 102], release, CHAT)
    assert result.crash is not None
    assert (result.crash.slug, result.crash.rows, result.crash.tokens) == ("data/chat-overlong-index-error", 1, 102)
    assert result.crash.without
    assert samples(result) == [49, 100]
    assert result.dropped == Loss()


@pytest.mark.parametrize("release", OLD)
def test_older_releases_cannot_align_chats(release: Release) -> None:
    result = mapped([50], release, CHAT, multiple=4)
    assert result.crash is not None
    assert (result.crash.slug, result.crash.without) == ("data/chat-pad-type-error", False)


@pytest.mark.parametrize("release", [*OLD, *NEW])
def test_a_cap_above_the_pack_fails_once_a_row_uses_it(release: Release) -> None:
    result = mapped([50, 102], release, PAIRS, cap=120)
    assert result.crash is not None
    assert (result.crash.slug, result.crash.rows) == ("seq/pack-size-equals-seq", 1)
    assert samples(result) == [49]
    assert mapped([50, 100], release, PAIRS, cap=120).crash is None


@pytest.mark.parametrize("release", NEW)
def test_a_cap_below_the_multiple_is_refused(release: Release) -> None:
    result = mapped([50], release, CHAT, multiple=128)
    assert result.crash is not None
    assert result.crash.slug == "align/mult-larger-than-seq"


@pytest.mark.parametrize(("multiple", "kept"), [(1, [0]), (4, [0, 0])])
def test_empty_rows_vanish_unless_a_multiple_pads_them(multiple: int, kept: list[int]) -> None:
    result = mapped([0, 1], R06, CHAT, multiple=multiple)
    assert samples(result) == kept
    assert result.dropped == Loss(2 - len(kept), 0)


def test_nothing_left_is_a_crash() -> None:
    result = mapped([200, 300], R06, CHAT)
    assert result.dropped == Loss(2, 500)
    assert result.crash is not None
    assert result.crash.slug == "gbs/not-enough-rows"


def test_runtime_lengths_are_one_shorter_than_stored() -> None:
    stored = map_rows(Histogram.of_lengths([10, 20]), R06, CHAT, 100, 1, 100)
    runtime = map_rows(Histogram.of_lengths([9, 19], "runtime"), R06, CHAT, 100, 1, 100)
    assert samples(stored) == samples(runtime) == [9, 19]
