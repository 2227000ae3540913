"""The packing metadata file: when it is read, what it must hold, and when it no longer tells the truth."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.evidence import Metadata
from mbpack.config.in_effect import TRAIN_PACKS, pack_size
from mbpack.config.run import Run
from mbpack.facts.releases import R03
from mbpack.rules.base import CRASH_DATA, CRASH_LATER, CRASH_STEP, WASTE, Finding, Fix, Outcome, Rule, words
from mbpack.rules.packs.lookup import METADATA_PATH, PAD_CU, given, is_npy, packed_splits, prepares, ready, splits
from mbpack.rules.packs.shards import scanned

#: What the static boundary arrays are computed from.
NEEDED = ("max_samples_per_bin", "dataset_max_seqlen", "min_packed_seqlen")


def reads_metadata(run: Run) -> bool:
    """Whether existing packs are opened together with their metadata: always in 0.3, else for static boundaries."""
    if run.release <= R03 or run.flag(PAD_CU):
        return True
    return any(is_npy(given(run, split)) for split in splits(run))


def place_of(run: Run) -> str:
    """The key a finding about the metadata belongs to."""
    if run.is_set(METADATA_PATH):
        return METADATA_PATH
    return PAD_CU if run.flag(PAD_CU) else TRAIN_PACKS


class PadCuRequiresMetadata(Rule):
    """Static boundaries need the metadata of the packs.

    `pad_cu_seqlens` sizes its arrays by `max_samples_per_bin`. Packs that came from elsewhere without their
    `<size>_metadata.jsonl` end in FileNotFoundError. 0.3 reads the file for every pack, `.npy` packs always need it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}, metadata: missing}
    dataset: {offline_packing_specs: {pad_cu_seqlens: true, packed_train_data_path: packs/train.parquet}}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}, metadata: missing}
    dataset: {offline_packing_specs: {pad_cu_seqlens: false, packed_train_data_path: packs/train.parquet}}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset`
    - 0.6, 0.7: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset`
    """

    code, slug = "DAT103", "data/pad-cu-requires-metadata"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not reads_metadata(run):
            return
        if run.evidence.split("training").missing or run.evidence.metadata.exists:
            return
        yield self.finding(
            run,
            CRASH_DATA,
            place_of(run),
            f"the packs are there, their metadata are not: {run.evidence.metadata.path} does not exist",
            why="The number of boundaries of a row comes from max_samples_per_bin in that file (FileNotFoundError).",
            related=(TRAIN_PACKS, PAD_CU),
            fix=Fix("packed_metadata_path: the file that was written with the packs, or rebuild the packs"),
        )


class MetadataIsList(Rule):
    """The metadata file holds one JSON list of objects, whatever its name says.

    It is called `.jsonl` but is no JSON Lines file. A single object, or one object a line, stops the run: when it is
    read, or when the next split is packed and appends to it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}, metadata: {problem: holds an object}}
    dataset:
      dataset_kwargs: {pad_to_max_length: true}
      offline_packing_specs: {pad_cu_seqlens: true, packed_train_data_path: packs/train.parquet}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found: {training: {rows: 100}, metadata: [{max_samples_per_bin: 9, dataset_max_seqlen: 9, min_packed_seqlen: 4}]}
    dataset:
      dataset_kwargs: {pad_to_max_length: true}
      offline_packing_specs: {pad_cu_seqlens: true, packed_train_data_path: packs/train.parquet}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `prepare_packed_sequence_data`
    - 0.6, 0.7: `data/packing/offline.py`, `prepare_gpt_sft_packed_data`; `data/packing/gpt_sft.py`, `collate_fn`
    """

    code, slug = "DAT104", "data/metadata-is-list"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run):
            return
        found = run.evidence.metadata
        if not found.exists:
            return
        if found.entries is None:
            if reads_metadata(run) or ready(run) is False:
                yield self.finding(
                    run,
                    CRASH_DATA,
                    place_of(run),
                    f"{found.path} is no packing metadata: {found.problem or 'not a JSON list of objects'}",
                    why="The file must hold one JSON list with an object for each packed split.",
                    fix=Fix("delete it together with the packs, which are then built anew"),
                )
            return
        lacking = [key for key in NEEDED if any(key not in entry for entry in found.entries)]
        if run.flag(PAD_CU) and (lacking or not found.entries):
            yield self.finding(
                run,
                CRASH_STEP,
                place_of(run),
                f"{found.path} holds no entries" if not lacking else f"{found.path} lacks {words(lacking)}",
                why="With pad_cu_seqlens the first row that is collated looks them up.",
                fix=Fix("rebuild the packs together with their metadata"),
            )


class MetadataAppend(Rule):
    """Every preparation adds an entry to the metadata; nothing is ever taken away.

    A run takes the largest counts over all entries. Entries left over from earlier packs make boundary arrays larger
    than they need be; a split that was never packed leaves them too short for its rows, so that evaluation replays
    graphs on other shapes. Only `hf_rewrite` (0.6 and later) empties the file.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found:
    #   metadata:
    #   - {max_samples_per_bin: 90, dataset_max_seqlen: 3000, min_packed_seqlen: 3000}
    #   - {max_samples_per_bin: 9, dataset_max_seqlen: 900, min_packed_seqlen: 4000}
    #   - {max_samples_per_bin: 8, dataset_max_seqlen: 700, min_packed_seqlen: 3900}
    dataset:
      dataset_kwargs: {pad_to_max_length: true}
      offline_packing_specs: {pad_cu_seqlens: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found:
    #   metadata:
    #   - {max_samples_per_bin: 9, dataset_max_seqlen: 900, min_packed_seqlen: 4000}
    #   - {max_samples_per_bin: 8, dataset_max_seqlen: 700, min_packed_seqlen: 3900}
    dataset:
      dataset_kwargs: {pad_to_max_length: true}
      offline_packing_specs: {pad_cu_seqlens: true}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/packed_sequence.py`, `prepare_packed_sequence_data`
    - 0.6, 0.7: `data/builders/gpt_sft.py`, `prepare_packed_data`
    """

    code, slug = "DAT105", "data/metadata-append"
    reports_unknown = False

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not run.flag(PAD_CU):
            return  # without static boundaries nobody reads the numbers
        found = run.evidence.metadata
        if not found.entries:
            return
        wanted, held = len(packed_splits(run)), len(found.entries)
        size = pack_size(run)
        if held > wanted or any(other != size for other in found.numbers("pack_size")) or self._too_large(run, found):
            yield self.finding(
                run,
                WASTE,
                place_of(run),
                f"the metadata hold {held} entries for {wanted} packed split{'s' * (wanted > 1)}: some are old",
                why="The largest numbers over all entries count, so every row carries more boundaries than it needs.",
                fix=Fix("delete the metadata together with the packs before packing again"),
            )
        elif held < wanted:
            yield self.finding(
                run,
                Outcome("warning", "silent", "evaluation"),
                place_of(run),
                f"the metadata hold {held} entry for {wanted} packed splits",
                why="If validation rows hold more samples than that entry says, their boundaries are not padded to the"
                " captured shape.",
                fix=Fix("pack both splits with one metadata file"),
            )

    @staticmethod
    def _too_large(run: Run, found: Metadata) -> bool:
        """Whether the entries claim more samples a row than any scanned split has."""
        wanted = packed_splits(run)
        scans = [run.evidence.packs[split].statistics for split in wanted if split in run.evidence.packs]
        most = found.numbers("max_samples_per_bin")
        if not most or len(scans) < len(wanted):
            return False
        return all(scan is not None for scan in scans) and max(most) > max(scan.most_samples for scan in scans if scan)


class MetadataStale(Rule):
    """A captured iteration needs metadata that tell the truth about the packs.

    Boundary arrays are padded to `max_samples_per_bin` + 2. If a row holds more samples than the metadata say, nothing
    is padded, and copying its boundaries into the buffers of a full-iteration graph fails: the sizes differ. Graphs of
    single modules that take no boundaries do not mind.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found:
    #   training: {rows: 100, most_samples: 30}
    #   metadata: [{max_samples_per_bin: 20, dataset_max_seqlen: 900, min_packed_seqlen: 4000}]
    model: {cuda_graph_impl: local, cuda_graph_scope: full_iteration, use_te_rng_tracker: true}
    rng: {te_rng_tracker: true}
    rerun_state_machine: {check_for_nan_in_loss: false}
    dataset:
      dataset_kwargs: {pad_to_max_length: true}
      offline_packing_specs: {pad_cu_seqlens: true, packed_train_data_path: packs/train.parquet}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    # found:
    #   training: {rows: 100, most_samples: 30}
    #   metadata: [{max_samples_per_bin: 30, dataset_max_seqlen: 900, min_packed_seqlen: 4000}]
    model: {cuda_graph_impl: local, cuda_graph_scope: full_iteration, use_te_rng_tracker: true}
    rng: {te_rng_tracker: true}
    rerun_state_machine: {check_for_nan_in_loss: false}
    dataset:
      dataset_kwargs: {pad_to_max_length: true}
      offline_packing_specs: {pad_cu_seqlens: true, packed_train_data_path: packs/train.parquet}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/datasets/sft.py`, `GPTSFTPackedDataset.collate_fn`
    - 0.6, 0.7: `data/packing/gpt_sft.py`, `GPTSFTPackedDataset.collate_fn`
    """

    code, slug = "GRA116", "graph/metadata-stale"

    def check(self, run: Run) -> Iterator[Finding]:
        if not prepares(run) or not run.flag(PAD_CU) or not run.graphs.full_iteration:
            return
        claimed = run.evidence.metadata.numbers("max_samples_per_bin")
        if not claimed:
            return
        for seen, found in scanned(run):
            most = found.most_samples
            if most > max(claimed):
                yield self.finding(
                    run,
                    CRASH_LATER,
                    place_of(run),
                    f"a {seen.split} row holds {most} samples, the metadata allow {max(claimed):.0f}",
                    why="Its boundaries are longer than the captured ones; the step that copies them into the graph's"
                    " buffers stops.",
                    related=(PAD_CU, "model.cuda_graph_impl"),
                    fix=Fix("rebuild the metadata with the packs"),
                )


RULES: tuple[Rule, ...] = (
    PadCuRequiresMetadata(),
    MetadataIsList(),
    MetadataAppend(),
    MetadataStale(),
)
