"""Row lengths from JSON lines: numbers, token lists, prompt-completion pairs or chats."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter as TallyOf
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from typing import IO, Any

from mbpack.plan._optional import PlanError, one_line
from mbpack.plan.histogram import Counted, Histogram
from mbpack.plan.tokenization import Counter, TokenizerSpec

#: Field and column names that hold a row's token count, most telling first.
LENGTH_NAMES = ("num_tokens", "n_tokens", "token_count", "length", "lengths", "seq_len", "seqlen")
#: Names that hold the tokens themselves.
TOKEN_NAMES = ("input_ids", "token_ids", "tokens")
#: Fields upstream reads chats from.
CHAT_NAMES = ("messages", "conversations", "conversation")
#: Fields upstream reads prompts and completions from: the explicit preprocessing first, then the prompt template.
PAIR_NAMES = (("prompt", "completion"), ("input", "output"))

_LINES = 512  # lines handed to a worker at once
_LARGE = 8 << 20  # bytes above which several workers, or another reader, pay off


def read_jsonl(
    stream: IO[bytes],
    *,
    column: str | None,
    counted: Counted,
    tokenizer: TokenizerSpec | None,
    workers: int,
    path: str | None,
    size: int,
    progress: Callable[[int, int], None] | None,
) -> tuple[Histogram, str]:
    """The histogram, and what the rows were taken for. What a row holds is decided by the first one.

    ``path`` names the file when the stream is a plain one: bare counts of a large file are then read in one go.

    Raises:
        PlanError: with the line number in front where a line is to blame.
    """
    chunks = _chunks(stream)
    first = next(chunks, None)
    if first is None:
        return Histogram.empty(counted), "JSON lines"
    plan = _decide(_parse(*first[1][0]), column)
    if plan[0] in ("text", "pair", "chat") and tokenizer is None:
        raise PlanError(
            f"rows are {_WORDS[plan[0]]}: give --tokenizer PATH (tokenizer.json, its folder, or tekken.json)"
            ", or count tokens yourself and give the numbers"
        )
    if plan[0] not in ("text", "pair", "chat"):
        tokenizer = None
    kind: Counted = counted if plan[0] == "number" else "stored"
    words = f"JSON lines, {_WORDS[plan[0]]}"
    if plan[0] == "number" and plan[1] and path is not None and size > _LARGE:
        quick = _quick(path, plan[1][0], kind)
        if quick is not None:
            return quick, words
    tally: TallyOf[int] = TallyOf()
    for lengths, done in _counted(first, chunks, plan, tokenizer, workers, size):
        tally.update(lengths)
        if progress is not None:
            progress(done, size)
    return Histogram.of_counts(list(tally.keys()), list(tally.values()), kind), words


def _quick(path: str, field: str, counted: Counted) -> Histogram | None:
    """One whole-number field of a large file through pyarrow; None when it is not installed or any row is unusual."""
    try:
        arrow, reader = import_module("pyarrow"), import_module("pyarrow.json")
    except ImportError:
        return None
    schema = arrow.schema([(field, arrow.int64())])
    options = reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    try:
        column = reader.read_json(path, parse_options=options)[field]
        return None if column.null_count else Histogram.of_lengths(column.to_numpy(), counted)
    except (arrow.ArrowException, PlanError, OSError, KeyError):
        return None  # the slow way says which line is to blame


_WORDS = {
    "number": "token counts",
    "tokens": "token lists",
    "text": "text",
    "pair": "prompt and completion",
    "chat": "chats",
}

Chunk = tuple[int, list[tuple[int, bytes]], int]  # number of the chunk, (line number, line), bytes read so far
Plan = tuple[str, tuple[str, ...]]  # what a row holds, and the fields it is in (none: the row itself)


def _chunks(stream: IO[bytes]) -> Iterator[Chunk]:
    lines: list[tuple[int, bytes]] = []
    number = done = 0
    for place, line in enumerate(stream, 1):
        done += len(line)
        if line.strip():
            lines.append((place, line))
        if len(lines) == _LINES:
            yield number, lines, done
            number, lines = number + 1, []
    if lines:
        yield number, lines, done


def _parse(place: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except RecursionError:
        raise PlanError(f"{place}: nested too deeply to be a row") from None
    except ValueError as error:
        raise PlanError(f"{place}: not JSON ({one_line(error)}); one row a line") from None


def _decide(row: Any, column: str | None) -> Plan:
    """What the rows hold, from the first one."""
    if column is not None:
        if not isinstance(row, dict) or column not in row:
            have = ", ".join(row) if isinstance(row, dict) else type(row).__name__
            raise PlanError(f"no field {column!r} in the first row; it has {have}")
        kind = _kind(row[column])
        if kind is None:
            raise PlanError(f"field {column!r} holds no count, token list, text or chat")
        return kind, (column,)
    if not isinstance(row, dict):
        kind = _kind(row)
        if kind in ("number", "tokens"):
            return kind, ()
        raise PlanError("the first row is no object, token list or number")
    for names, wanted in ((LENGTH_NAMES, "number"), (TOKEN_NAMES, "tokens"), (CHAT_NAMES, "chat")):
        for name in names:
            if name in row and (_kind(row[name]) == wanted or (wanted == "chat" and row[name] == [])):
                return wanted, (name,)
    for prompt, completion in PAIR_NAMES:
        if isinstance(row.get(prompt), str) and isinstance(row.get(completion), str):
            return "pair", (prompt, completion)
    shown = ", ".join(row) or "none"
    raise PlanError(f"cannot tell where the length is (fields: {shown}); name it with --column")


def _kind(value: Any) -> str | None:
    if type(value) is int:
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        if all(type(item) is int for item in value):
            return "tokens"
        if all(isinstance(item, dict) for item in value):
            return "chat"
    return None


def count_chunk(chunk: Chunk, plan: Plan, counter: Counter | None) -> list[int]:
    """Stored length of every row of a chunk (or the bare number it holds).

    Raises:
        PlanError: with the line number in front where a line is to blame.
    """
    kind, fields = plan
    lengths = []
    for place, line in chunk[1]:
        row = _parse(place, line)
        try:
            values = [row[field] for field in fields] if fields else [row]
        except (TypeError, KeyError, IndexError):
            lacking = next((field for field in fields if not isinstance(row, dict) or field not in row), fields[0])
            raise PlanError(f"{place}: no field {lacking!r} in this row") from None
        value = values[0]
        if kind == "number" and type(value) is int and 0 <= value < 1 << 40:
            lengths.append(value)
        elif kind == "tokens" and isinstance(value, list):
            lengths.append(len(value))
        elif counter is not None and kind in ("pair", "text") and all(isinstance(item, str) for item in values):
            lengths.append(counter.pair(*values) if kind == "pair" else counter.text(value))
        elif counter is not None and kind == "chat" and isinstance(value, list):
            try:
                lengths.append(counter.chat(value, row.get("tools") if isinstance(row, dict) else None))
            except PlanError as error:
                raise PlanError(f"{place}: {error}") from None
        else:
            raise PlanError(f"{place}: expected {_WORDS[kind]}, as in the first row")
    return lengths


def _counted(
    first: Chunk,
    others: Iterator[Chunk],
    plan: Plan,
    tokenizer: TokenizerSpec | None,
    workers: int,
    size: int,
) -> Iterator[tuple[list[int], int]]:
    """(lengths, bytes read so far) of every chunk, with several processes when there is text enough."""

    def every() -> Iterator[Chunk]:
        yield first
        yield from others

    if workers == 0:
        workers = min(8, os.cpu_count() or 1) if tokenizer is not None and size > _LARGE else 1
    if tokenizer is None or workers == 1:
        counter = tokenizer.load() if tokenizer is not None else None
        for chunk in every():
            yield count_chunk(chunk, plan, counter), chunk[2]
        return

    import multiprocessing

    tokenizer.load()  # a wrong tokenizer is reported here, once, not by every worker
    pool = multiprocessing.get_context("spawn").Pool(workers, _enter_worker, (plan, tokenizer))
    with closing(pool):
        try:
            for lengths, done, problem in pool.imap(_work, every()):
                if problem is not None:
                    raise PlanError(problem)
                yield lengths, done
        except BaseException:
            pool.terminate()
            raise


_worker: tuple[Plan, Counter] | None = None


def _enter_worker(plan: Plan, tokenizer: TokenizerSpec) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the command, which ends its workers
    _start_worker(plan, tokenizer)


def _start_worker(plan: Plan, tokenizer: TokenizerSpec) -> None:
    global _worker
    _worker = (plan, tokenizer.load())


def _work(chunk: Chunk) -> tuple[list[int], int, str | None]:
    assert _worker is not None
    plan, counter = _worker
    try:
        return count_chunk(chunk, plan, counter), chunk[2], None
    except PlanError as error:
        return [], chunk[2], str(error)
