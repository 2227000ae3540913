"""How layers are counted out to pipeline stages."""

from __future__ import annotations

import pytest

from mbpack.facts.stage_split import Fault, counted, fitting, middle, uneven


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        ((32, 4, None, None, None), None),
        ((32, 4, None, 8, None), None),
        ((32, 4, None, 7, None), Fault.MIDDLE),
        ((32, 4, None, None, 6), Fault.MIDDLE),
        ((32, 4, None, 1, 1), None),
        ((32, 4, None, 0, 0), Fault.FIRST_EMPTY),
        ((32, 4, None, 1, 0), Fault.LAST_EMPTY),
        ((32, 4, 2, 5, 0), Fault.FIRST_VIRTUAL),
        ((32, 4, 2, 8, 5), Fault.LAST_VIRTUAL),
        ((32, 4, 0, 8, None), Fault.FIRST_VIRTUAL),
        ((32, 2, None, 10, 10), Fault.MISMATCH),
        ((32, 4, None, 10, 22), Fault.MISMATCH),
        ((32, 2, None, 10, 22), None),
        ((32, 2, 3, 10, 22), Fault.FIRST_VIRTUAL),
        ((32, 1, None, 32, None), None),
        ((32, 4, 2, 8, 10), Fault.MIDDLE_VIRTUAL),
        ((32, 4, 2, 8, 8), None),
    ],
)
def test_uneven(numbers: tuple[int, int, int | None, int | None, int | None], fault: Fault | None) -> None:
    assert uneven(*numbers) is fault


@pytest.mark.parametrize(
    ("numbers", "fault"),
    [
        ((32, 4, None), None),
        ((33, 4, None), Fault.STAGES),
        ((33, 4, 2), Fault.STAGES),
        ((34, 2, 2), Fault.STAGES_VIRTUAL),
        ((36, 2, 4), Fault.STAGES_VIRTUAL),
        ((36, 2, 3), None),
        ((34, 2, 0), Fault.STAGES_VIRTUAL),
    ],
)
def test_counted(numbers: tuple[int, int, int | None], fault: Fault | None) -> None:
    assert counted(*numbers) is fault


def test_what_is_left_between_the_ends() -> None:
    assert middle(32, 4, None, None) == (32, 4)
    assert middle(32, 4, 7, None) == (25, 3)
    assert middle(32, 4, None, 6) == (26, 3)
    assert middle(32, 4, 8, 10) == (14, 2)


def test_the_nearest_count_that_fits() -> None:
    assert fitting(32, 4, None, 7, None, change_first=True) == 8
    assert fitting(32, 4, None, None, 6, change_first=False) == 5
    assert fitting(32, 4, None, 8, 10, change_first=True) == 8
    assert fitting(32, 4, 2, 8, 10, change_first=True) == 6
    assert fitting(32, 4, None, 10, 22, change_first=True) == 8
    assert fitting(32, 2, None, 10, 10, change_first=True) == 22
    assert fitting(32, 4, None, 0, None, change_first=True) == 2
    assert fitting(32, 4, 0, 8, None, change_first=True) is None
    assert fitting(32, 2, None, 40, None, change_first=True) == 31
