"""Speed of planning against upstream's own packing and a compiled packer, in one process.

    pip install -e '.[plan]' tqdm lightbinpack
    python tests/benchmarks/plan.py [--upstream DIR] [--rows 1000000] [--quick]

DIR is a folder with an unpacked Megatron-Bridge wheel (`pip download --no-deps megatron-bridge`, `unzip`); its
`data/packing/algorithms.py` (0.6 and later) or `data/datasets/packing_utils.py` is imported alone, so that neither torch nor
the rest of the package is needed. Without it, and without lightbinpack, those columns are left out. Times are CPU seconds of
this process (of the child where a command or the 10 million rows are measured), so that a busy machine distorts them less.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mbpack.facts.releases import R06, version_of
from mbpack.plan.candidates import DEFAULT_PACKS, Setup, evaluate
from mbpack.plan.histogram import Histogram
from mbpack.plan.packing import Shuffler, first_fit_decreasing, lower_bound, shuffled_first_fit
from mbpack.plan.rows import map_rows

SETS = ("lognormal", "bimodal", "heavy")
PACK = 8192
SETUP = Setup(version_of(R06), "prompt-completion")
BIG = 10_000_000


def dataset(name: str, rows: int, longest: int = 32768) -> Any:
    """Row lengths: mean about 495, 780 and 370 tokens, cut at ``longest``."""
    draw = np.random.default_rng(11)
    if name == "lognormal":
        lengths = draw.lognormal(5.8, 0.9, rows)
    elif name == "bimodal":
        short, long = draw.lognormal(5.3, 0.75, rows), draw.lognormal(7.4, 0.6, rows)
        lengths = np.where(draw.random(rows) < 0.7, short, long)
    else:
        lengths = 64 * (1 + draw.pareto(1.1, rows))
    return np.clip(lengths, 1, longest).astype(np.int64)


def timed(action: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    """The least CPU seconds of some runs, and the last result."""
    best, result = float("inf"), None
    for _ in range(repeat):
        start = time.process_time()
        result = action()
        best = min(best, time.process_time() - start)
    return best, result


def upstream(folder: Path) -> Any:
    """The module with upstream's packing functions, imported without the packages around it."""
    bridge = next(path for path in (folder / "megatron/bridge", folder) if (path / "data").is_dir())
    new = (bridge / "data/packing/algorithms.py").exists()
    for name in ("megatron", "megatron.bridge", *(f"megatron.bridge.{part}" for part in ("data", "utils"))):
        package = types.ModuleType(name)
        package.__path__ = [str(bridge.parent / name.partition(".")[2].replace(".", "/"))]
        sys.modules[name] = package
    inner = "megatron.bridge.data.packing" if new else "megatron.bridge.data.datasets"
    sys.modules[inner] = types.ModuleType(inner)
    sys.modules[inner].__path__ = [str(bridge / "data" / inner.rpartition(".")[2])]
    return importlib.import_module(f"{inner}.algorithms" if new else f"{inner}.packing_utils")


def dense(rows: Histogram, pack: int) -> tuple[Any, list[int]]:
    """The samples upstream would pack: sparse for mbpack, as a dense list for upstream."""
    mapped = map_rows(rows, R06, "prompt-completion", pack, 1, pack)
    cells = np.zeros(pack + 1, dtype=np.int64)
    cells[mapped.lengths] = mapped.counts
    return mapped, cells.tolist()


def theirs(module: Any, cells: list[int], pack: int, algorithm: str) -> Any:
    np.random.seed(SETUP.seed)
    return module.create_packing_strategy(cells, pack, algorithm)[1]


def ratio(slow: float | None, fast: float) -> str:
    return "-" if slow is None else f"{slow / fast:.0f}x"


def compare(name: str, rows: int, module: Any, packer: Any) -> None:
    """One distribution: exact default at 8K, five candidates, first-fit-decreasing with bound."""
    lengths = dataset(name, rows)
    histogram = Histogram.of_lengths(lengths)
    mapped, cells = dense(histogram, PACK)

    exact, packs = timed(lambda: shuffled_first_fit(mapped.lengths, mapped.counts, PACK, Shuffler(SETUP.seed)), 3)
    five, candidates = timed(lambda: evaluate(histogram, DEFAULT_PACKS, SETUP), 2)
    best, _ = timed(lambda: both(mapped), 3)

    slow = slow_five = slow_best = None
    if module is not None:
        slow, metadata = timed(lambda: theirs(module, cells, PACK, "first_fit_shuffle"))
        assert metadata == packs.metadata(mapped.longest), "mbpack and upstream disagree"
        slow_five = slow
        for candidate in candidates:
            if candidate.pack_size != PACK:
                other = dense(histogram, candidate.pack_size)[1]
                seconds, metadata = timed(lambda: theirs(module, other, candidate.pack_size, "first_fit_shuffle"))  # noqa: B023
                assert candidate.packed is not None
                assert metadata == candidate.packed.metadata, "mbpack and upstream disagree"
                slow_five += seconds
        slow_best, _ = timed(lambda: theirs(module, cells, PACK, "first_fit_decreasing"))
    peer = None
    if packer is not None:
        items = np.repeat(mapped.lengths, mapped.counts).tolist()
        peer, _ = timed(lambda: packer.obfd(items, PACK), 3)
    print(f"{name}, {rows:,} rows, mean {histogram.mean:,.0f} tokens")
    print(f"  exact default at 8K             {exact:7.3f} s   upstream {show(slow)}   {ratio(slow, exact)}")
    print(f"  five candidates, everything     {five:7.3f} s   upstream {show(slow_five)}   {ratio(slow_five, five)}")
    print(f"  first-fit-decreasing and bound  {best:7.3f} s   upstream {show(slow_best)}   {ratio(slow_best, best)}")
    print(f"                                              lightbinpack {show(peer)}   {ratio(peer, best)}", flush=True)


def both(mapped: Any) -> tuple[int, int]:
    counts = (mapped.lengths, mapped.counts, PACK)
    return first_fit_decreasing(*counts).count, lower_bound(*counts)


def show(seconds: float | None) -> str:
    return "   -   " if seconds is None else f"{seconds:6.3f} s"


def child(arguments: list[str]) -> tuple[float, float, float, str]:
    """CPU seconds, wall seconds, peak memory in MB and output of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, wall, after.ru_maxrss / 1024, done.stdout


def big(name: str) -> None:
    """Run in a child: plan five candidates for 10 million rows."""
    lengths = dataset(name, BIG)
    seconds, _ = timed(lambda: evaluate(Histogram.of_lengths(lengths), DEFAULT_PACKS, SETUP))
    print(json.dumps({"seconds": seconds}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="leave the 10 million rows out")
    parser.add_argument("--big", choices=SETS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.big:
        big(args.big)
        return
    module = upstream(args.upstream) if args.upstream else None
    try:
        packer = importlib.import_module("lightbinpack")
    except ImportError:
        packer = None
    print(f"Python {platform.python_version()}, numpy {np.__version__}, {os.cpu_count()} CPUs\n")
    for name in SETS:
        compare(name, args.rows, module, packer)

    with tempfile.TemporaryDirectory() as folder:
        print("\nwhole command on an .npy file, five candidates, JSON")
        for name in SETS:
            path = Path(folder, f"{name}.npy")
            lengths = dataset(name, args.rows)
            np.save(path, lengths)
            planning, _ = timed(lambda: evaluate(Histogram.of_lengths(lengths), DEFAULT_PACKS, SETUP))  # noqa: B023
            flags = ["--schema", "prompt-completion", "--json", "-"]
            seconds, wall, memory, _ = child(["-m", "mbpack", "plan", str(path), *flags])
            print(
                f"  {name:<10} {seconds:6.2f} s CPU ({wall:.2f} s wall, {memory:.0f} MB)   planning itself {planning:6.2f} s"
                f"   {seconds / planning:.2f}x",
                flush=True,
            )
    if not args.quick:
        print(f"\n{BIG:,} rows, five candidates: one process, and the command (several processes)")
        for name in SETS:
            _, _, memory, output = child([__file__, "--big", name])
            seconds = json.loads(output)["seconds"]
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "lengths.npy")
                np.save(path, dataset(name, BIG))
                total, wall, _, _ = child(["-m", "mbpack", "plan", str(path), "--json", "-"])
            print(
                f"  {name:<10} {seconds:6.1f} s CPU, {memory:.0f} MB   command {wall:6.1f} s wall, {total:.1f} s CPU", flush=True
            )


if __name__ == "__main__":
    main()
