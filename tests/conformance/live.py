"""Runs inside one release's environment: live configurations are checked, and so is what they save.

    python live.py --release 0.6 --transformer-engine 2.17.1 --rows 75 --seed 7

Every recipe that can be called gives a container; a few of its fields are changed. One JSON line each: the recipe, the findings
of `mbpack.check` on the container in memory, and the file it saves. mbpack must be importable there (and msgspec).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import random
import sys
import tempfile
import time
import typing
from pathlib import Path
from typing import Any

CHANGES: dict[str, tuple[Any, ...]] = {
    "train.micro_batch_size": (1, 2, 3),
    "train.global_batch_size": (4, 8, 48),
    "model.context_parallel_size": (1, 2, 4),
    "model.tensor_model_parallel_size": (1, 2, 8),
    "model.calculate_per_token_loss": (True, False),
    "model.sequence_parallel": (True, False),
    "model.seq_length": (2048, 4096),
    "dataset.seq_length": (2048, 4096),
    "ddp.average_in_collective": (True, False),
}


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", required=True)
    parser.add_argument("--transformer-engine", required=True)
    parser.add_argument("--rows", type=int, default=75)
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    if not hasattr(typing, "override"):  # the packages ask for Python 3.12; this is all they need of it
        import typing_extensions

        typing.override = typing_extensions.override  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        _judge(arguments, Path(folder))


def _judge(arguments: argparse.Namespace, scratch: Path) -> None:
    import offline_hub
    import standins

    standins.install(arguments.transformer_engine)
    offline_hub.write(scratch / "hub")
    standins.pretend_gpu("H100")
    offline_hub.no_processors()
    logging.disable(logging.CRITICAL)
    import mbpack
    from mbpack.facts import recipes

    random.seed(arguments.seed)
    left = arguments.rows
    names = [name for name in recipes.names(arguments.release) if ":" not in name]
    random.shuffle(names)
    for name in names:
        with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = recipes.find(arguments.release, name)
            module = __import__(found.module if found is not None and found.module else "", fromlist=[name])
            config = getattr(module, name)()
            _change(config)
            start = time.perf_counter()
            report = mbpack.check(config, gpus=16, bridge=arguments.release, raise_on=None)
            seconds = time.perf_counter() - start
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "run_config.yaml"
                config.to_yaml(str(path))
                text = path.read_text()
            findings = [[f.code, f.key, f.severity, f.message] for f in report.findings]
            row = {"recipe": name, "verdict": report.verdict, "findings": findings, "seconds": seconds, "text": text}
            sys.__stdout__.write(json.dumps(row) + "\n")  # type: ignore[union-attr]
            left -= 1
        if left == 0:
            return


def _change(config: Any) -> None:
    for key in random.sample(list(CHANGES), random.randrange(0, 4)):
        section, field = key.split(".")
        if hasattr(getattr(config, section, None), field):
            setattr(getattr(config, section), field, random.choice(CHANGES[key]))


if __name__ == "__main__":
    main()
