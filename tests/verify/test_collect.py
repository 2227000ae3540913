"""Tests counted from the source, held against pytest itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mbpack.verify.collect import collect

RICH = """
import itertools
import unittest

import pytest

CASES = [("a", 1), ("b", 2)]
MORE = CASES + [pytest.param("c", 3, id="third")]
OPTIONS = {"x": 1, "y": 2, "z": 3}
REPEATED = [1]
TWICE = 2


class Helper:
    def test_not_collected(self):
        pass


class Base:
    def test_inherited(self):
        pass

    def test_replaced(self):
        pass


class TestBelow(Base):
    NUMBERS = (1, 2, 3)

    @pytest.mark.parametrize("number", NUMBERS)
    def test_replaced(self, number):
        pass

    class TestNested:
        def test_deep(self):
            pass


@pytest.mark.parametrize("flag", [True, False])
class TestEach:
    @pytest.mark.parametrize("name", ["packed", "padded", None])
    def test_both(self, flag, name):
        pass

    def test_one(self, flag):
        pass

    @staticmethod
    def test_static(flag):
        pass


class TestWithConstructor:
    def __init__(self):
        pass

    def test_never(self):
        pass


class TestSwitchedOff:
    __test__ = False

    def test_never(self):
        pass


class Odd(unittest.TestCase):
    def test_unit(self):
        pass

    def testCamel(self):
        pass

    def helper(self):
        pass


@pytest.fixture(params=[1, 2], ids=["one", "two"])
def sized(request):
    return request.param


@pytest.fixture
def through(sized):
    return sized


@pytest.fixture(name="renamed")
def test_fixture_is_no_test():
    return 1


def test_plain():
    pass


def test_plain_with_fixture(through, renamed):
    pass


async def test_async():
    pass


@pytest.mark.parametrize("letter,number", CASES)
def test_table(letter, number):
    pass


@pytest.mark.parametrize(("letter", "number"), MORE, ids=None)
def test_sum(letter, number):
    pass


@pytest.mark.parametrize("key", OPTIONS)
def test_keys(key):
    pass


@pytest.mark.parametrize("item", OPTIONS.items())
def test_items(item):
    pass


@pytest.mark.parametrize("pair", list(itertools.product([1, 2], ["p", "q", "r"])))
def test_product(pair):
    pass


@pytest.mark.parametrize("square", [(number, number) for number in range(1, 9, 2)])
def test_comprehension(square):
    pass


@pytest.mark.parametrize("a", [Helper, Base])
@pytest.mark.parametrize("b", ["", "packed", -1, 1.5], ids=["empty", "full", "minus", "half"])
def test_two_tables(a, b):
    pass


@pytest.mark.parametrize("nothing", [])
def test_empty_table(nothing):
    pass


@pytest.mark.parametrize("sized", ["direct"])
def test_overrides_the_fixture(sized):
    pass


if TWICE == 2:

    def test_under_a_condition():
        pass


try:
    import json
except ImportError:
    json = None
else:

    @pytest.mark.skipif(json is None, reason="json")
    def test_after_a_try():
        pass


def helper_test():
    pass
"""


def _by_pytest(file: Path, *options: str) -> list[str]:
    words = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(file.parent / "none.ini"),
    ]
    (file.parent / "none.ini").write_text("[pytest]\n")
    environ = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        [*words, *options, str(file)], capture_output=True, text=True, cwd=file.parent, env=environ, check=False
    )
    return sorted(line.partition("::")[2] for line in done.stdout.splitlines() if "::" in line)


def test_the_same_tests_as_pytest_collects(tmp_path: Path) -> None:
    file = tmp_path / "test_rich.py"
    file.write_text(RICH)
    found = collect(file)
    assert sorted(test.id for test in found.tests) == _by_pytest(file)
    assert found.exact


def test_the_same_selection_as_pytest(tmp_path: Path) -> None:
    keyword = "testeach and packed or parametrize and not (third or packed)"
    file = tmp_path / "test_rich.py"
    file.write_text(RICH)
    chosen = sorted(test.id for test in collect(file).select(keyword))
    assert chosen == _by_pytest(file, "-k", keyword)
    assert chosen


def test_fixtures_of_conftest_multiply(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("import pytest\n\n@pytest.fixture(params=[1, 2, 3], autouse=True)\ndef every(): ...\n")
    below = tmp_path / "deep"
    below.mkdir()
    (below / "conftest.py").write_text("import pytest\n\n@pytest.fixture(params='ab')\ndef unread(): ...\n")
    file = below / "test_a.py"
    file.write_text("def test_a(): ...\n")
    assert len(collect(file, tmp_path).tests) == 3
    assert len(collect(file).tests) == 1  # only up to the root, and none is given
    file.write_text("def test_a(unread): ...\n")
    assert not collect(file, tmp_path).exact


@pytest.mark.parametrize(
    "text",
    [
        "import pytest\nfrom elsewhere import CASES\n\n@pytest.mark.parametrize('case', CASES)\ndef test_a(case): ...\n",
        "import pytest\nCASES = []\nCASES += [1]\n\n@pytest.mark.parametrize('case', CASES)\ndef test_a(case): ...\n",
        "import pytest\n\n@pytest.mark.parametrize('case', make())\ndef test_a(case): ...\n",
        "import pytest\n\n@pytest.mark.parametrize('case', [n for n in range(9) if n])\ndef test_a(case): ...\n",
        "from elsewhere import Shared\n\nclass TestMine(Shared):\n    def test_a(self): ...\n",
        "def test_a(case): ...\n\ndef pytest_generate_tests(metafunc): ...\n",
        "from elsewhere import *\n\ndef test_a(): ...\n",
    ],
)
def test_what_is_made_at_run_time_is_a_lower_bound(tmp_path: Path, text: str) -> None:
    file = tmp_path / "test_a.py"
    file.write_text(text)
    found = collect(file)
    assert (len(found.tests), found.exact, found.problem) == (1, False, None)


def test_endless_definitions_end(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text(
        "import pytest\nA = B\nB = A\n\nclass TestA(TestB):\n    def test_a(self): ...\n\nclass TestB(TestA):\n    def test_b(self): ...\n"
        "\n@pytest.mark.parametrize('case', A)\ndef test_c(case): ...\n"
        "\n@pytest.mark.parametrize('a', range(10**9))\ndef test_d(a): ...\n"
    )
    assert not collect(file).exact


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"def test_a(:\n", "line 1"), (b"\x00\x01", "not valid Python"), (b"# -*- coding: nonsense -*-\n", "not valid Python")],
)
def test_a_file_that_is_no_python_is_a_problem(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "test_a.py"
    file.write_bytes(content)
    found = collect(file)
    assert found.tests == ()
    assert says in (found.problem or "")


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    assert "cannot be read" in (collect(tmp_path / "test_none.py").problem or "")
