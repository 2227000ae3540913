"""Programs in odd shapes are run with stand-ins: what is read of them holds, or is unknown."""

from __future__ import annotations

import pytest

from mbpack.config.python import read_program
from tests.config.python import standins
from tests.config.python.odd import ODD
from tests.config.python.odd_written import WRITTEN
from tests.config.python.programs import HEAD
from tests.config.python.test_property import check

#: Of these nothing is read; every other one gives a configuration.
NOT_READ = frozenset[str]()


BODIES = ODD | WRITTEN


@pytest.mark.parametrize("name", BODIES)
def test_what_is_read_is_what_runs(name: str) -> None:
    source = HEAD + BODIES[name]
    compile(source, name, "exec")
    made, _ = read_program(source, None, "0.6", lambda name: None)
    handed = standins.run(source)
    assert handed, "the program itself is wrong"
    assert bool(made) == (name not in NOT_READ)
    check(source, made, handed, usual=True)
    for arguments in (["--size", "8"], ["--flag"], ["--name", "large"]):
        check(source, made, standins.run(source, arguments), usual=False)
