"""What attention accepts, per release."""

from __future__ import annotations

import pytest

from mbpack.facts.attention import COMM_TYPES, TRANSFORMER_ENGINE, has_own_attention, has_window, usable_comm_types
from mbpack.facts.releases import NIGHTLY, R03, R04, R05, R06, R07, RELEASES, Release


@pytest.mark.parametrize("release", RELEASES)
def test_packed_rows_take_p2p_and_a2a_everywhere(release: Release) -> None:
    usable = usable_comm_types(release, packed=True)
    assert {"p2p", "a2a"} <= set(usable)
    assert "a2a+p2p" not in usable


@pytest.mark.parametrize(("release", "there"), [(R03, False), (R06, False), (R07, True), (NIGHTLY, True)])
def test_packed_all_gather_starts_with_07(release: Release, there: bool) -> None:
    assert ("all_gather" in usable_comm_types(release, packed=True)) is there


def test_unpacked_rows_take_every_type() -> None:
    assert usable_comm_types(R06, packed=False) == COMM_TYPES


def test_windows_and_offsets_leave_a2a() -> None:
    assert usable_comm_types(R06, packed=True, window=True) == ("a2a",)
    assert usable_comm_types(R06, packed=False, window=True) == ("a2a", "all_gather")
    assert usable_comm_types(R07, packed=True, window=True) == ("a2a", "all_gather")
    assert usable_comm_types(R07, packed=False, window=True, softmax_offset=True) == ("a2a",)


def test_multi_latent_attention_exchanges_point_to_point_until_packed_rows_have_one_width() -> None:
    assert usable_comm_types(R04, packed=True, mla=True) == ("p2p",)
    assert usable_comm_types(R05, packed=True, mla=True) == ("p2p", "a2a")
    assert usable_comm_types(R07, packed=True, mla=True) == ("p2p", "a2a", "all_gather")
    assert usable_comm_types(R04, packed=False, mla=True) == ("p2p", "a2a+p2p")
    assert usable_comm_types(R05, packed=False, mla=True) == COMM_TYPES


@pytest.mark.parametrize(
    ("window", "limited"),
    [
        (None, False),
        ([-1, 0], False),
        ([-1, -1], False),
        ([127, 0], True),
        (512, True),
        (0, False),
        (True, False),
        ([], False),
    ],
)
def test_windows(window: object, limited: bool) -> None:
    assert has_window(window) is limited


def test_own_attention_is_told_by_name() -> None:
    assert has_own_attention("dsa")
    assert not has_own_attention("gated_delta_net")
    assert not has_own_attention(["dsa"])


def test_every_release_pins_a_transformer_engine() -> None:
    assert set(TRANSFORMER_ENGINE) == set(RELEASES)
