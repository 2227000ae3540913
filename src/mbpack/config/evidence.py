"""What was found on disk around a configuration: packed data, their metadata, the raw data.

Rules do no I/O; whoever looked at the disk hands over what was found. Each question raises
:class:`~mbpack.config.settings.Unknown` where nobody looked, so that a rule about files is "not checked" rather than
silently fine. "Looked and found nothing" is an answer of its own: packs without files, metadata that does not exist.

Lengths are in tokens as the model sees them (a stored sample has one token more), sizes in bytes, times in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from math import gcd
from typing import Any

from msgspec import Struct, field

from mbpack.config.settings import Unknown
from mbpack.facts.artifacts import ROW_COUNT_KEYS

#: Columns that hold a conversation.
CONVERSATIONS = ("messages", "conversation", "conversations")


class Shard(Struct, frozen=True):
    """One file of packed rows, as its footer tells. ``problem`` says why it could not be read."""

    path: str
    rows: int | None = None
    columns: tuple[str, ...] | None = None
    mask_type: str | None = None
    modified: float | None = None
    problem: str | None = None


class RowStatistics(Struct, frozen=True):
    """What a scan over all rows of one split found."""

    rows: int = 0
    #: Runtime length of a sample -> number of samples.
    lengths: Mapping[int, int] = field(default_factory=dict)
    longest_row: int = 0
    shortest_row: int = 0
    most_samples: int = 0
    #: Positions that carry loss at run time: the last one of a stored sample has no label.
    supervised: int = 0
    #: Rows in which no position carries loss.
    rows_without_loss: int = 0
    #: Rows that break an invariant, and the first of them in words.
    broken_rows: int = 0
    broken: tuple[str, ...] = ()
    #: Where the longest row is: file and row.
    longest_at: str = ""
    #: End-of-sequence token that was assumed for counting padding that carries loss; None when it was not counted.
    eos: int | None = None
    samples_with_pad_loss: int = 0
    largest_token: int = 0

    @property
    def samples(self) -> int:
        """Number of samples."""
        return sum(self.lengths.values())

    @property
    def tokens(self) -> int:
        """Tokens of all rows."""
        return sum(length * count for length, count in self.lengths.items())

    @property
    def density(self) -> float | None:
        """Share of the tokens that carry loss."""
        return self.supervised / self.tokens if self.tokens else None

    @property
    def packing_factor(self) -> float | None:
        """Samples a row."""
        return self.samples / self.rows if self.rows else None

    def misaligned(self, multiple: int) -> int:
        """Samples whose length is not a multiple; 0 when all are."""
        if multiple < 2 or reduce(gcd, self.lengths, 0) % multiple == 0:
            return 0
        return sum(count for length, count in self.lengths.items() if length % multiple)

    def misaligned_examples(self, multiple: int, most: int = 3) -> tuple[int, ...]:
        """The shortest lengths that are not a multiple."""
        return tuple(sorted(length for length in self.lengths if length % multiple)[:most])


class Packs(Struct, frozen=True):
    """Packed rows of one split (``training`` or ``validation``).

    ``path`` is what the run will open: a file, a directory or a pattern. ``explicit`` says that the configuration names
    it; otherwise it is the builder's own place. Without ``shards`` there is nothing at that place.
    """

    split: str
    path: str
    explicit: bool = True
    shards: tuple[Shard, ...] = ()
    #: Links that lead nowhere, and files that several names lead to.
    dangling: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()
    statistics: RowStatistics | None = None

    @property
    def rows(self) -> int | None:
        """Rows of all files; None where one could not be read."""
        counts = [shard.rows for shard in self.shards]
        return sum(count for count in counts if count is not None) if counts and None not in counts else None

    @property
    def missing(self) -> bool:
        """Whether there is nothing at the place."""
        return not self.shards


class Metadata(Struct, frozen=True):
    """The packing metadata file. ``entries`` is None when it is not one JSON list of objects; ``problem`` says why."""

    path: str
    exists: bool = True
    entries: tuple[Mapping[str, Any], ...] | None = ()
    problem: str | None = None

    def numbers(self, key: str) -> list[float]:
        """The numbers that the entries give for a key."""
        values = [entry.get(key) for entry in self.entries or ()]
        return [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]

    @property
    def rows(self) -> int | None:
        """Packed rows the entries speak of, where a tool wrote them."""
        for key in ROW_COUNT_KEYS:
            counts = self.numbers(key)
            if counts:
                return int(sum(counts))
        return None


class Row(Struct, frozen=True):
    """One of the first rows of the training file: its line, its columns, and who speaks in it where it is a conversation.

    ``problem`` says why it is no row: no JSON, or no object.
    """

    line: int
    columns: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    problem: str = ""

    @property
    def chat(self) -> str:
        """The column that holds a conversation, "" for other rows."""
        return next((name for name in CONVERSATIONS if name in self.columns), "")


class RawData(Struct, frozen=True):
    """The JSONL files a run packs from. ``lines`` is None where nobody counted.

    ``is_file``: the root is a file, not a folder; ``first`` are the first rows of the training file.
    """

    root: str
    training: bool = True
    validation: bool = True
    is_file: bool = False
    first: tuple[Row, ...] = ()
    lines: int | None = None
    validation_lines: int | None = None
    bytes: int | None = None
    modified: float | None = None


class PlannedPacks(Struct, frozen=True):
    """What packing will give: packed rows and mean samples in one; up to 0.5 the count can differ by about 0.1%."""

    packs: int
    packing_factor: float
    exact: bool


class SavedRun(Struct, frozen=True):
    """What the checkpoint that a run goes on from was trained on, as its saved configuration says.

    ``pack_size`` in tokens is None where rows were not packed offline.
    """

    folder: str
    iteration: int
    global_batch_size: int | None = None
    pack_size: int | None = None
    in_batch: bool = False


class Evidence(Struct, frozen=True):
    """Everything that was looked at. None means that nobody looked."""

    packs: Mapping[str, Packs] = field(default_factory=dict)
    metadata_file: Metadata | None = None
    raw_data: RawData | None = None
    #: Token counts of the raw rows as stored -> number of rows.
    raw_lengths: Mapping[int, int] | None = None
    planned: PlannedPacks | None = None
    #: The builder's directory name for this configuration, and other packed directories beside it.
    own_directory: str | None = None
    #: Whether the chat template of a local tokenizer marks the answers by a generation block.
    generation_block: bool | None = None
    other_directories: tuple[str, ...] = ()
    #: The checkpoint that the run goes on from; None where there is none, or nobody looked.
    saved: SavedRun | None = None

    def split(self, name: str) -> Packs:
        """The packs of a split; raises Unknown where nobody looked."""
        found = self.packs.get(name)
        if found is None:
            raise Unknown(f"packed {name} data", ("filesystem",))
        return found

    def files(self, name: str = "training") -> Packs:
        """The packs of a split that exist; raises Unknown where nobody looked or nothing is there."""
        found = self.split(name)
        if found.missing:
            raise Unknown(f"packed {name} data", ("filesystem",), "nothing is there yet")
        return found

    def statistics(self, name: str = "training") -> RowStatistics:
        """What a scan of a split's rows found; raises Unknown where none was made."""
        found = self.files(name).statistics
        if found is None:
            raise Unknown(f"rows of the packed {name} data", ("filesystem",), "the rows were not read")
        return found

    def rows(self, name: str = "training") -> int:
        """Number of packed rows of a split."""
        found = self.files(name).rows
        if found is None:
            raise Unknown(f"rows of the packed {name} data", ("filesystem",), "a file could not be read")
        return found

    @property
    def metadata(self) -> Metadata:
        """The metadata file; raises Unknown where nobody looked."""
        if self.metadata_file is None:
            raise Unknown("packing metadata", ("filesystem",))
        return self.metadata_file

    @property
    def raw(self) -> RawData:
        """The raw data; raises Unknown where nobody looked."""
        if self.raw_data is None:
            raise Unknown("raw data", ("filesystem",))
        return self.raw_data

    @property
    def lengths(self) -> Mapping[int, int]:
        """Lengths of the raw rows; raises Unknown where nobody counted."""
        if self.raw_lengths is None:
            raise Unknown("lengths of the raw data", ("lengths",))
        return self.raw_lengths


NOTHING = Evidence()
