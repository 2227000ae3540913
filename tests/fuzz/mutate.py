"""Damage: to bytes, to texts made of lines, and to trees of plain data. All of it follows from the random generator given."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Tree = Any

#: Pieces that some reader treats in a way of its own.
TOKENS = tuple(
    piece.encode("utf-8", "surrogatepass")
    for piece in (
        *(": ", "- ", "? ", "[", "]", "{", "}", ",", "#", "&a ", "*a", "!", "!!int ", "|", ">", "'", '"', "%", "@", "`"),
        *("---\n", "...\n", "<<: ", "\\", "\t", "\r", "\r\n", "\n", "\0", "\x1b[31m", "\x85", "\u2028", "\ufeff", "\ud800", "漢"),
        *("${", "}", "${model.seq_length}", "${oc.env:HOME}", "???", "null", "~", "true", "on", ".inf", ".nan", "1e5", "0x1F"),
        *("-1", "0", "1", "0.5", "1_000", "1:30", "99999999999999999999999", "_target_: ", "model", "train", "dataset"),
        *(
            "# mbpack: bridge=0.6 gpus=8\n",
            "# mbpack: ignore[ALN101] x\n",
            "=",
            "+",
            "++",
            "~model",
            "$(",
            "`",
            "<<EOF\n",
            "EOF\n",
        ),
        *(
            " && ",
            " | ",
            " \\\n",
            '"$@"',
            "${A[@]}",
            "${A:-",
            "$((1+",
            "if x; then ",
            "fi\n",
            "for i in ",
            "do\n",
            "done\n",
            "}\n",
        ),
    )
)
#: Values where another was expected.
ODD: tuple[Tree, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 64, 10**6, 10**30, -(10**30), 0.5, -0.0, 1e308, float("inf"), float("nan")),
    *("", " ", "???", "null", "none", "8", "0x10", "1e5", "true", "${model.seq_length}", "${a.b.c}", "${", "x" * 300, "a\nb"),
    *("torch.bfloat16", "bf16_mixed", "2020-01-01", "漢", "\x1b[31m", "full_iteration", "attn,mlp", "p2p", "/data/x_{}.npy"),
    *([], {}, [None], [[]], [1, 2], [-1], ["attn"], ["p2p", 3], {"": None}, {"_target_": None}, {"_target_": ""}),
    *({"_target_": "os.system", "_args_": ["x"]}, {"_target_": "megatron.bridge.peft.lora.LoRA"}, {"a": {"b": {"c": []}}}),
    *({"_target_": "torch.float16", "_call_": False}, {"_call_": 1}, {1: 2}, {None: 1}, {True: {2.5: "x"}}),
)
ODD_KEYS: tuple[Tree, ...] = (
    "",
    " ",
    "a",
    "_target_",
    "_call_",
    "_args_",
    "model",
    "a.b",
    "seq_length",
    "#",
    "${x}",
    "é",
    1,
    None,
    2.5,
)


def bytes_of(rng: Random, data: bytes, others: Sequence[bytes] = (), limit: int = 1 << 18) -> bytes:
    """The data with one to six changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        change = rng.choice(_BYTE_CHANGES)
        data = change(rng, data, others)[:limit]
    return data


def _span(rng: Random, data: bytes, most: int = 200) -> tuple[int, int]:
    start = rng.randint(0, len(data))
    return start, min(len(data), start + rng.randint(0, rng.choice((1, 8, most))))


def _flip(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not data:
        return b"\0"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def _random(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data, 8)
    return data[:start] + rng.randbytes(rng.randint(0, 12)) + data[end:]


def _cut(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data)
    return data[:start] + data[end:]


def _truncate(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data[: rng.randint(0, len(data))]


def _token(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data, 4)
    return data[:start] + rng.choice(TOKENS) + (data[start:] if rng.random() < 0.6 else data[end:])


def _double(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data)
    return data[:end] + data[start:end] + data[end:]


def _repeat(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Now and then very often: what is quick once must not be slow ten thousand times."""
    if rng.random() < 0.9:
        return _double(rng, data, others)
    start, end = _span(rng, data, 12)
    piece = rng.choice(TOKENS) if rng.random() < 0.5 else data[start:end]
    return data[:end] + piece * rng.choice((50, 1000, 10_000)) + data[end:]


def _move(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    start, end = _span(rng, data)
    piece, rest = data[start:end], data[:start] + data[end:]
    at = rng.randint(0, len(rest))
    return rest[:at] + piece + rest[at:]


def _splice(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if not others:
        return _move(rng, data, others)
    other = rng.choice(others)
    start, end = _span(rng, other, 400)
    at = rng.randint(0, len(data))
    return data[:at] + other[start:end] + data[at:]


def _number(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Another number in the place of one."""
    places = [at for at, byte in enumerate(data[:20_000]) if 48 <= byte <= 57]
    if not places:
        return _token(rng, data, others)
    start = end = rng.choice(places)
    while end < len(data) and 48 <= data[end] <= 57:
        end += 1
    new = rng.choice((b"0", b"-1", b"1", b"3", b"1.5", b"1e999", b"9" * 40, b"4294967296", b"null", b"[1]", b'"8"'))
    return data[:start] + new + data[end:]


def _line(rng: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Lines left out, doubled, moved or indented differently."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return _token(rng, data, others)
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(to, lines[at])
    elif kind == 2:
        lines.insert(to, lines.pop(at))
    else:
        lines[at] = b" " * rng.randint(0, 6) + lines[at].lstrip()
    return b"".join(lines)


_BYTE_CHANGES: tuple[Callable[[Random, bytes, Sequence[bytes]], bytes], ...] = (
    *(_flip, _random, _cut, _truncate, _token, _token, _token, _double, _repeat, _move, _splice, _number, _number, _line, _line),
)


def tree_of(rng: Random, tree: Tree, values: Sequence[Tree] = ODD, keys: Sequence[Tree] = ODD_KEYS) -> Tree:
    """A copy of plain data with one to five changes of its shape and values."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        places = list(_places(tree))
        if not places:
            return copy.deepcopy(rng.choice(values))
        holder, key = rng.choice(places)
        kind = rng.random()
        if kind < 0.5:
            holder[key] = copy.deepcopy(rng.choice(values))
        elif kind < 0.62:
            del holder[key]
        elif kind < 0.72:
            holder[key] = [holder[key]] if rng.random() < 0.5 else {rng.choice(keys): holder[key]}
        elif kind < 0.82:
            other, at = rng.choice(places)
            holder[key] = copy.deepcopy(other[at])
        elif isinstance(holder, dict):
            name = rng.choice(keys) if rng.random() < 0.5 else _typo(rng, str(key))
            holder[name] = holder.pop(key) if kind < 0.92 else copy.deepcopy(rng.choice(values))
        else:
            holder.append(copy.deepcopy(rng.choice(values)))
    return tree


def _places(tree: Tree) -> list[tuple[Tree, Tree]]:
    found: list[tuple[Tree, Tree]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, value in pairs:
            found.append((node, key))
            waiting.append(value)
    return found


def _typo(rng: Random, word: str) -> str:
    at = rng.randint(0, len(word))
    return rng.choice((word[:at] + word[at + 1 :], word[:at] + "_" + word[at:], word.upper(), word + "s", word.replace("_", "-")))
