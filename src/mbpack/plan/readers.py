"""Row lengths from files: text, .npy, parquet, JSONL, packed artifacts, saved histograms. Several files add up.

Everything is read in pieces and counted at once; memory does not grow with the number of rows. Nothing is executed: the
object arrays of old packed artifacts are read without running what they hold (`mbpack.config.npy_packs`).
"""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from mbpack.config.npy_packs import NpyError, read_rows
from mbpack.facts.artifacts import COLUMNS, read_location
from mbpack.plan._optional import PlanError, numpy, one_line, optional
from mbpack.plan.histogram import FORMAT, Counted, Histogram
from mbpack.plan.jsonl import LENGTH_NAMES, TOKEN_NAMES, read_jsonl
from mbpack.plan.tokenization import TokenizerSpec

if TYPE_CHECKING:
    from mbpack.plan._optional import IntArray

_PIECE = 1 << 24  # bytes of text parsed at once
_NUMBERS = 1 << 21  # numbers of an array counted at once
_PYARROW = ("pyarrow", "pyarrow.compute", "pyarrow.parquet")


@dataclass(frozen=True, slots=True)
class Options:
    """How to read.

    Attributes:
        column: parquet column or JSONL field that holds the length, the token list or the text; None finds it.
        counted: what bare numbers count; token lists, texts and packed samples are always stored lengths.
        tokenizer: how texts become tokens; None refuses texts.
        workers: processes that tokenize; 0 decides by the size of the file.
        progress: called with (bytes done, bytes in all) now and then.
    """

    column: str | None = None
    counted: Counted = "stored"
    tokenizer: TokenizerSpec | None = None
    workers: int = 0
    progress: Callable[[int, int], None] | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """What one input holds: its histogram, what it was taken for, and what a reader should know about it."""

    source: str
    kind: str
    histogram: Histogram
    notes: tuple[str, ...] = ()
    tokenizer: str | None = None


#: What the rows of a source are, and the words of its kind that say so.
SCHEMAS = {"prompt-completion": "prompt and completion", "chat": "chats"}


def schema_of(readings: Iterable[Reading]) -> str | None:
    """What the rows of several sources are: chats as soon as one holds chats; None where no source tells."""
    kinds = [reading.kind for reading in readings]
    for schema in ("chat", "prompt-completion"):
        if any(SCHEMAS[schema] in kind for kind in kinds):
            return schema
    return None


def tokenizer_of(readings: Iterable[Reading]) -> str | None:
    """The tokenizer that saved histograms name; None where they name none, or several."""
    named = {reading.tokenizer for reading in readings if reading.tokenizer is not None}
    return named.pop() if len(named) == 1 else None


def _saved(source: str, data: dict[str, Any]) -> Reading:
    """A histogram that `mbpack lengths` wrote, with what it says of the rows it counted."""
    histogram, schema, tokenizer = Histogram.of_json(data), data.get("schema"), data.get("tokenizer")
    if schema is not None and schema not in SCHEMAS:
        raise PlanError(f"the histogram is of {schema!r} rows: {' or '.join(SCHEMAS)}")
    kind = "histogram" if schema is None else f"histogram, {SCHEMAS[schema]}"
    return Reading(source, kind, histogram, tokenizer=tokenizer if isinstance(tokenizer, str) else None)


def read_all(sources: Sequence[str], options: Options) -> tuple[Histogram, list[Reading]]:
    """Read every source and add them up.

    Raises:
        PlanError: naming the source, the place and how to mend it.
    """
    readings = [reading for source in sources for reading in _read_source(source, options)]
    return Histogram.merge(_common([reading.histogram for reading in readings])), readings


def _common(parts: list[Histogram]) -> list[Histogram]:
    """The parts in one kind of length: stored, when both kinds occur (the difference is exactly one token)."""
    kinds = {part.counted for part in parts if part.rows}
    return [part.stored() for part in parts] if len(kinds) > 1 else parts


def _read_source(source: str, options: Options) -> Iterator[Reading]:
    if source == "-":
        yield _guarded("-", options, "standard input")
    elif os.path.isdir(source):
        inside = sorted(path for path in Path(source).iterdir() if path.suffix.lower() in (".parquet", ".pq", ".npy"))
        if not inside:
            raise PlanError(f"{source}: no .parquet, .pq or .npy file in this folder")
        for path in inside:
            yield _guarded(str(path), options, str(path))
    else:
        yield _guarded(source, options, source)


def _guarded(source: str, options: Options, name: str) -> Reading:
    """Read one file; every failure becomes one line: its name, the number of the line to blame, the reason."""
    try:
        return replace(_read(source, options), source=name)
    except PlanError as error:
        text = str(error)
        raise type(error)(f"{name}:{text}" if text.partition(":")[0].isdigit() else f"{name}: {text}") from None
    except FileNotFoundError:
        raise PlanError(f"{name}: no such file") from None
    except OSError as error:
        raise PlanError(f"{name}: {one_line(error)}") from None
    except MemoryError:
        raise PlanError(f"{name}: not enough memory to read it; count it in pieces with `mbpack lengths`") from None
    except Exception as error:  # damaged files fail in as many ways as there are formats and libraries
        raise PlanError(f"{name}: cannot be read, probably damaged ({type(error).__name__}: {one_line(error)})") from None


def _read(source: str, options: Options) -> Reading:
    name = source.lower().removesuffix(".gz")
    if name.endswith((".parquet", ".pq")):
        return _read_parquet(source, options)
    if name.endswith(".npy"):
        return _read_npy(source, options)
    with _open(source) as stream:
        if name.endswith((".jsonl", ".ndjson")):
            return _read_rows(source, stream, options)
        if name.endswith(".json") or stream.peek(64).lstrip()[:1] in (b"{", b"["):
            return _read_json(source, stream, options)
        return _read_text(source, stream, options)


def _open(source: str) -> Any:
    if source == "-":
        return io.BufferedReader(sys.stdin.buffer) if not hasattr(sys.stdin.buffer, "peek") else sys.stdin.buffer
    if source.lower().endswith(".gz"):
        return io.BufferedReader(gzip.open(source, "rb"))
    return open(source, "rb")


def _size(source: str) -> int:
    return 0 if source == "-" or source.lower().endswith(".gz") else os.path.getsize(source)


def _counting(parts: Iterable[IntArray], counted: Counted) -> Histogram:
    """Count arrays of lengths as they come."""
    total = Histogram.empty(counted)
    for part in parts:
        total = Histogram.merge([total, Histogram.of_lengths(part, counted)])
    return total if total.rows else Histogram.empty(counted)


# -- text ------------------------------------------------------------------------------------------------------------


def _read_text(source: str, stream: IO[bytes], options: Options) -> Reading:
    def parts() -> Iterator[IntArray]:
        first, done, total = 1, 0, _size(source)
        rest = b""
        while piece := stream.read(_PIECE):
            done += len(piece)
            piece = rest + piece
            cut = piece.rfind(b"\n") + 1
            piece, rest = piece[:cut], piece[cut:]
            yield _parse_numbers(piece, first)
            first += piece.count(b"\n")
            if options.progress is not None:
                options.progress(done, total)
        yield _parse_numbers(rest, first)

    return Reading(source, "text, one length a line", _counting(parts(), options.counted))


def _parse_numbers(piece: bytes, first: int) -> IntArray:
    """Whole numbers, one a line; the slow way only to say which line is wrong."""
    np = numpy()
    if not piece.strip():
        empty: IntArray = np.zeros(0, dtype=np.int64)
        return empty
    if not piece.translate(None, b"0123456789\r\n"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                fast: IntArray = np.fromstring(piece, dtype=np.int64, sep="\n")
                if fast.min() >= 0 and fast.max() < 1 << 40:
                    return fast
            except (ValueError, DeprecationWarning):
                pass
    numbers = []
    for offset, line in enumerate(piece.splitlines()):
        text = line.strip()
        if not text:
            continue
        try:
            value = int(text)
        except ValueError:
            shown = text[:40].decode("utf-8", "replace")
            raise PlanError(
                f"{first + offset}: {shown!r} is not a whole number; a text file holds one row length a line"
            ) from None
        if not 0 <= value < 1 << 40:
            raise PlanError(f"{first + offset}: {text[:40].decode()} is no plausible row length")
        numbers.append(value)
    slow: IntArray = np.array(numbers, dtype=np.int64)
    return slow


# -- JSON ------------------------------------------------------------------------------------------------------------


def _read_json(source: str, stream: IO[bytes], options: Options) -> Reading:
    """A saved histogram, a list of lengths, or JSON lines under another name."""
    content = stream.read()
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        return _read_rows(source, io.BytesIO(content), options)
    if isinstance(data, dict) and data.get("format") == FORMAT:
        return _saved(source, data)
    if isinstance(data, list) and all(type(item) is int for item in data):
        return Reading(source, "JSON list of lengths", Histogram.of_lengths(data, options.counted))
    if isinstance(data, dict):  # a JSONL file of one row
        return _read_rows(source, io.BytesIO(content.replace(b"\n", b" ")), options)
    raise PlanError("JSON that is neither a histogram of `mbpack lengths` nor a list of lengths")


def _read_rows(source: str, stream: IO[bytes], options: Options) -> Reading:
    histogram, kind = read_jsonl(
        stream,
        column=options.column,
        counted=options.counted,
        tokenizer=options.tokenizer,
        workers=options.workers,
        path=source if _size(source) else None,
        size=_size(source),
        progress=options.progress,
    )
    return Reading(source, kind, histogram)


# -- numpy -----------------------------------------------------------------------------------------------------------


def _read_npy(source: str, options: Options) -> Reading:
    np = numpy()
    try:
        array = np.load(source, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            try:
                packs = read_rows(source)
            except NpyError as problem:
                raise PlanError(str(problem)) from None
            return Reading(source, "packed data (.npy)", _of_packs(packs), _packed_notes(source))
        raise PlanError(f"not a readable .npy file ({one_line(error)})") from None
    except EOFError:
        raise PlanError("not a readable .npy file (empty)") from None
    if array.dtype.kind not in "iuf":
        raise PlanError(f"an array of {array.dtype}; lengths are whole numbers, one a row")
    if array.ndim != 1:
        raise PlanError(f"an array of shape {array.shape}; lengths come as one dimension, one number a row")
    parts = (np.asarray(array[start : start + _NUMBERS]) for start in range(0, len(array), _NUMBERS))
    return Reading(source, "array of lengths", _counting(parts, options.counted))


def _of_packs(packs: list[Any]) -> Histogram:
    np = numpy()
    lengths: list[int] = []
    try:
        for pack in packs:
            starts = [*pack["seq_start_id"], len(pack["input_ids"])]
            lengths.extend(end - start for start, end in pairwise(starts))
        numbers = np.array(lengths, dtype=np.int64)
    except (TypeError, KeyError, IndexError, ValueError, OverflowError):
        raise PlanError("not packed data: rows need input_ids and seq_start_id") from None
    return Histogram.of_lengths(numbers)


def _packed_notes(source: str) -> tuple[str, ...]:
    note = f"{source}: samples as packed, so rows that packing dropped or cut are missing or shorter"
    multiple = read_location(os.path.abspath(source)).multiple
    if multiple is not None and multiple > 1:
        note += f", and each was padded to a multiple of {multiple}"
    return (note,)


# -- parquet ---------------------------------------------------------------------------------------------------------


def _read_parquet(source: str, options: Options) -> Reading:
    np = numpy()
    pa, pc, pq = (optional(name, "parquet", "reading parquet") for name in _PYARROW)
    try:
        file = pq.ParquetFile(source)
    except pa.ArrowInvalid as error:
        raise PlanError(f"not a readable parquet file ({one_line(error)})") from None
    with file:
        schema = file.schema_arrow
        packed = set(schema.names) >= set(COLUMNS) and all(_is_list(schema.field(name).type, pa) for name in COLUMNS)
        if packed and options.column is None:
            return Reading(source, "packed data", _of_parquet_packs(file, pc, np), _packed_notes(source))
        column = _pick_column(schema, options.column, pa)
        listed = _is_list(schema.field(column).type, pa)

        def parts() -> Iterator[IntArray]:
            for batch in file.iter_batches(columns=[column], batch_size=1 << 16):
                values = batch.column(0)
                if values.null_count:
                    raise PlanError(f"column {column!r} has empty cells: every row needs a length")
                if listed:
                    values = pc.list_value_length(values)
                yield values.to_numpy(zero_copy_only=False)

        kind = f"parquet column {column}" + (", token lists" if listed else "")
        return Reading(source, kind, _counting(parts(), "stored" if listed else options.counted))


def _is_list(kind: Any, pa: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _pick_column(schema: Any, wanted: str | None, pa: Any) -> str:
    """The column that holds lengths or token lists."""
    usable = []
    for field in schema:
        if pa.types.is_integer(field.type.value_type if _is_list(field.type, pa) else field.type):
            usable.append(field.name)
    if wanted is not None:
        if wanted not in schema.names:
            raise PlanError(f"no column {wanted!r}; it has {', '.join(schema.names)}")
        if wanted not in usable:
            raise PlanError(f"column {wanted!r} is {schema.field(wanted).type}: needs whole numbers or token lists")
        return wanted
    for name in (*LENGTH_NAMES, *TOKEN_NAMES):
        if name in usable:
            return name
    if len(usable) == 1:
        return str(usable[0])
    shown = ", ".join(schema.names) or "none"
    raise PlanError(f"cannot tell which column holds the lengths (columns: {shown}); name it with --column")


def _of_parquet_packs(file: Any, pc: Any, np: Any) -> Histogram:
    parts = []
    for batch in file.iter_batches(columns=["input_ids", "seq_start_id"], batch_size=1 << 10):
        total = pc.list_value_length(batch.column("input_ids")).to_numpy(zero_copy_only=False)
        column = batch.column("seq_start_id")
        number = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        starts = pc.list_flatten(column).to_numpy(zero_copy_only=False)
        if len(starts) == 0 or (number == 0).any():
            raise PlanError("a packed row without samples: seq_start_id must not be empty")
        # the end of a sample is the start of the next one; of a row's last sample, the end of the row
        ends = np.append(starts[1:], 0)
        ends[np.cumsum(number) - 1] = total
        parts.append(ends - starts)
    return Histogram.merge(Histogram.of_lengths(part) for part in parts)
