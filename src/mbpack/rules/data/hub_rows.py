"""A dataset of the Hub under the function that the recipe chose for another (0.3 to 0.5)."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.facts.classes import DatasetKind
from mbpack.facts.hf_processors import PROCESSORS
from mbpack.facts.releases import R03, R05
from mbpack.rules.base import CRASH_DATA, Finding, Fix, Rule, words

NAME, FUNCTION = "dataset.dataset_name", "dataset.process_example_fn"


class HubRows(Rule):
    """A dataset of the Hub needs the function that reads its columns.

    A recipe names a dataset and, beside it, the function that makes a prompt and an answer of one row. Another name alone
    leaves that function, which asks each row for the columns of the recipe's own data. A function is code: it is set in
    Python, not in an override file. Other data need no function as local JSONL files, under `dataset_root`.

    ## Bad
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_name: tatsu-lab/alpaca}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.5 recipe=llama3_8b_sft_config gpus=8 launcher=script
    dataset: {dataset_name: rajpurkar/squad}
    ```

    ## Upstream
    - 0.3 to 0.5: `data/builders/hf_dataset.py`, `preprocess_and_split_data`; `data/hf_processors`
    """

    code, slug = "DAT163", "data/hub-rows"
    releases = (R03, R05)

    def check(self, run: Run) -> Iterator[Finding]:
        if not run.wrote(NAME) or run.wrote(FUNCTION) or run.dataset is not DatasetKind.GPT_SFT:
            return
        if run.value("dataset.dataset_root") is not None or run.wrote("dataset.dataset_dict"):
            return  # rows that are there already, or given by a program
        name, known = run.value(NAME), next((one for one in PROCESSORS if one.name in str(run.value(FUNCTION))), None)
        if known is None or not isinstance(name, str) or name in known.datasets:
            return
        yield self.finding(
            run,
            CRASH_DATA.as_warning(),
            NAME,
            f"{name} is read by {known.name}, which the recipe chose for {known.datasets[-1]}",
            why=f"It asks every row for {words(known.columns)}; a row without them stops the preparation of the data.",
            related=(FUNCTION,),
            fix=Fix(
                f"set process_example_fn in Python to a function for {name}, or dataset_root to a folder with training.jsonl"
            ),
        )


RULES: tuple[Rule, ...] = (HubRows(),)
