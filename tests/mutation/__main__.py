"""Mutation testing of mbpack's facts and rules.

    python -m tests.mutation --sample 600 --seed 1        a stratified sample of all mutants
    python -m tests.mutation --module rules/packing/batch         every mutant of a module (may be repeated)
    python -m tests.mutation --again mutation.json        the survivors of an earlier run once more
    ... --write mutation.json                             keep the answers

Exit code 0 when the score reaches --least (90), 1 when it does not.
"""

from __future__ import annotations

import argparse
import collections
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

try:
    from .population import Mutant, mutants_of, population, sample
    from .runner import SURVIVED, UNREACHED, Answer, run
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} is not installed: pip install -e .[dev,test]")
from .justified import reasons

ALIVE = (SURVIVED, UNREACHED)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--module", action="append", default=[], help="such as facts/formulas; all its mutants")
    parser.add_argument("--again", type=Path, help="answers of an earlier run, whose survivors are run again")
    parser.add_argument("--write", type=Path, help="where to keep the answers")
    parser.add_argument("--progress", action="store_true", help="print each answer as it is known")
    parser.add_argument("--least", type=float, default=90.0, help="score in percent below which the exit code is 1")
    return parser.parse_args()


def chosen(args: argparse.Namespace) -> tuple[list[Mutant], str]:
    if args.again:
        earlier = json.loads(args.again.read_text())
        alive = {
            tuple(entry[k] for k in ("module", "operator", "before", "after")) for entry in earlier if entry["outcome"] in ALIVE
        }
        everything = [m for module in sorted({a[0] for a in alive}) for m in mutants_of(module)]
        return [m for m in everything if (m.module, m.operator, *m.change()) in alive], f"survivors of {args.again}"
    if args.module:
        return [m for module in args.module for m in mutants_of(module)], f"all of {', '.join(args.module)}"
    everything = population()
    total = sum(map(len, everything.values()))
    return sample(everything, args.sample, args.seed), f"sample of {total} mutants, seed {args.seed}"


def entry(answer: Answer) -> dict[str, object]:
    before, after = answer.mutant.change()
    return {
        "module": answer.mutant.module,
        "line": answer.mutant.place[0],
        "operator": answer.mutant.operator,
        "before": before,
        "after": after,
        "outcome": answer.outcome,
        "justified": reasons().get((answer.mutant.module, before, after)) if answer.outcome in ALIVE else None,
        "tests": answer.tests,
        "seconds": round(answer.seconds, 2),
    }


def show(entries: Sequence[dict[str, object]], label: str, seconds: float) -> float:
    """Print what survived and the figures; return the score in percent."""
    for e in entries:
        if e["outcome"] in ALIVE and not e["justified"]:
            print(f"{e['module']}:{e['line']}: {e['operator']} ({e['outcome']})\n    - {e['before']}\n    + {e['after']}")
    counts = collections.Counter(str(e["outcome"]) for e in entries)
    justified = sum(bool(e["justified"]) for e in entries)
    counted = len(entries) - justified
    killed = counted - sum(e["outcome"] in ALIVE and not e["justified"] for e in entries)
    score = 100 * killed / max(1, counted)
    print(", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items())))
    for room in ("facts", "rules"):
        own = [e for e in entries if str(e["module"]).startswith(room) and not e["justified"]]
        dead = sum(e["outcome"] not in ALIVE for e in own)
        print(f"{room}: {dead} of {len(own)} killed" + (f" ({100 * dead / len(own):.1f}%)" if own else ""))
    print(f"{label}: {killed} of {counted} killed ({score:.1f}%), {justified} more are justified; {seconds:.0f} s")
    return score


def main() -> int:
    args = arguments()
    start = time.monotonic()
    mutants, label = chosen(args)
    print(f"{len(mutants)} mutants", file=sys.stderr, flush=True)

    def progress(answer: Answer) -> None:
        if args.progress:
            m = answer.mutant
            words = f"{answer.outcome:11} {answer.seconds:5.1f} s {m.module}:{m.place[0]} {m.operator}"
            change = "\n    - {}\n    + {}".format(*m.change()) if answer.outcome in ALIVE else ""
            print(words + change, file=sys.stderr, flush=True)

    entries = [entry(answer) for answer in run(mutants, progress)]
    if args.write:
        args.write.write_text(json.dumps(entries, indent=1))
    return 0 if show(entries, label, time.monotonic() - start) >= args.least else 1


if __name__ == "__main__":
    sys.exit(main())
