"""Configuration texts as people write them, in many styles, for the property tests. All follow from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

NAMES = ("seq_length", "micro_batch_size", "tensor_model_parallel_size", "lr", "path", "specs", "kwargs", "x1", "enable_it")
SECTIONS = ("model", "train", "dataset", "validation", "ddp", "optimizer")
WORDS = (
    *"1 4096 '8' true False null ~ 1e-5 bf16_mixed a/b.c ??? ${oc.env:X,1}".split(),
    *('"a b"', "[1, 2]", "{a: 1}", "'it''s'", "${model.lr}", "", "0x10", "1_000"),
)
COMMENTS = ("", "", "", "  # why", " # 8 = lcm(4, 8)")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 4096, -3, 10**12, 1e-5, 0.5, 3.0, 1e300),
    *(
        "cyclic",
        "true",
        "1e-5",
        "a: b",
        "a #b",
        "",
        " x",
        "-",
        "null",
        "torch.bfloat16",
        "it's",
        'say "x"',
        "é",
        "a, b",
        "[x]",
        "*x",
        "0o7",
    ),
    *([], [1, 2], ["mlp", "no", "a,b", "[x]"], {"x1": 1}, {"lr": {"path": "x"}}),
)


def text(random: Random) -> str:
    """A whole file: sections in block or flow style, comments, empty lines, line ends, byte order mark."""
    lines = list(random.choice(([], ["# mbpack: bridge=0.6"], ["---"], ["", "# header", ""])))
    gap = random.random() < 0.5
    for section in random.sample(SECTIONS, random.randint(0, 4)):
        if random.random() < 0.2:
            lines.append(f"{section}: {_flow(random)}")
        else:
            lines.append(f"{section}:{random.choice(COMMENTS)}")
            lines += _block(random, 2, random.choice(("  ", "    ", " ")))
        if gap:
            lines.append("")
    newline = random.choice(("\n", "\n", "\r\n"))
    return random.choice(("", "", "\ufeff")) + newline.join(lines) + random.choice(("", newline))


def _block(random: Random, depth: int, indent: str) -> list[str]:
    lines: list[str] = []
    for name in random.sample(NAMES, random.randint(1, 4)):
        if random.random() < 0.1:
            lines.append(random.choice(("", f"{indent}# comes next", "# out of line")))
        kind = random.randint(0, 5)
        comment = random.choice(COMMENTS)
        if kind == 0 and depth:
            lines.append(f"{indent}{name}:{comment}")
            lines += _block(random, depth - 1, indent + random.choice(("  ", "    ")))
        elif kind == 1:
            lines.append(f"{indent}{name}: {_flow(random)}{comment}")
        elif kind == 2:
            lines.append(f"{indent}{name}:{comment}")
            lines += [f"{indent}  - {random.choice(WORDS)}" for _ in range(random.randint(0, 2))]
        else:
            lines.append(f"{indent}{name}:{random.choice((' ', '  '))}{random.choice(WORDS)}{comment}")
    return lines


def _flow(random: Random) -> str:
    keys = random.sample(NAMES, random.randint(0, 3))
    return "{" + ", ".join(f"{key}: {random.choice(WORDS)}" for key in keys) + "}"


def new_path(random: Random) -> tuple[str, ...]:
    """Some path, written in the text or not."""
    return (random.choice(SECTIONS), *random.choices(NAMES, k=random.randint(1, 2)))


def paths(tree: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every path in a tree of values."""
    found: list[tuple[str, ...]] = []
    if isinstance(tree, dict):
        for name, child in tree.items():
            found += [(*above, name), *paths(child, (*above, name))]
    return found
