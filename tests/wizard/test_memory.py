"""What the wizard says and proposes about GPU memory."""

from __future__ import annotations

from mbpack.memory.estimate import GIB
from mbpack.wizard import memory, screen
from mbpack.wizard.draft import Draft
from mbpack.wizard.questions import BY_KEY
from mbpack.wizard.session import Session, missing, with_defaults

#: A recipe whose states alone exceed the two GPUs in its name.
TOO_SMALL = {"bridge": "0.6", "recipe": "llama3_8b_pretrain_2gpu_h100_bf16_config", "workload": "pretrain"}
SMALL = {"bridge": "0.6", "recipe": "llama32_1b_sft_config", "workload": "sft"}


def test_a_recipe_that_does_not_fit_gets_more_gpus() -> None:
    found = Draft(TOO_SMALL).default("gpus")
    assert found.value > 2
    assert "on 2, as in the recipe, it does not" in found.why


def test_a_recipe_that_fits_keeps_its_own_number() -> None:
    assert Draft(SMALL).default("gpus") == (1, "the recipe's own count", True)


def test_the_smallest_topology_that_fits_is_proposed_where_the_own_does_not() -> None:
    job = {"bridge": "0.6", "recipe": "llama31_8b_sft_config", "workload": "sft", "gpus": 8, "seq_length": 65536}
    draft = Draft(job)
    assert memory.own_fits(draft, 8) is False
    sizes = [draft.default(name) for name in ("tp", "pp", "cp")]
    assert any("the smallest topology that fits" in found.why for found in sizes)
    fitting = memory.smallest(draft, 8)
    assert fitting is not None
    assert fitting.high <= 79.1
    assert [found.value for found in sizes] == [fitting.tp, fitting.pp, fitting.cp]


def test_what_was_answered_stays() -> None:
    draft = Draft({"bridge": "0.6", "recipe": "llama31_8b_sft_config", "gpus": 8, "seq_length": 65536, "tp": 1})
    found = memory.smallest(draft, 8)
    assert found is None or found.tp == 1
    assert draft.get("tp") == 1


def test_a_line_follows_the_choice() -> None:
    job = {"bridge": "0.6", "recipe": "llama31_8b_sft_config", "workload": "sft", "gpus": 8, "tp": 4, "pp": 1}
    lines = [memory.line(Draft({**job, "cp": cp})) for cp in (1, 2)]
    assert all(line is not None and "GiB of 79 on h100-80gb" in line for line in lines)
    assert lines[0] != lines[1]
    shown = "\n".join(screen.forming(BY_KEY["seq_length"], Draft({**job, "cp": 1, "sp": True}), 100))
    assert "-> about" in shown
    assert "fit" in shown


def test_another_gpu_has_more_room() -> None:
    job = {"bridge": "0.6", "recipe": "llama3_8b_pretrain_2gpu_h100_bf16_config", "workload": "pretrain", "gpu": "b200"}
    assert Draft(job).default("gpus").value == 2


def test_the_gpu_is_never_asked_and_always_said() -> None:
    old = {"bridge": "0.5", "recipe": "llama3_8b_sft_config"}
    assert Draft(SMALL).default("gpu") == ("h100-80gb", "in the recipe's name", True)
    assert "gpu" not in missing(old)
    assert with_defaults({**old, "data": "hf"})["gpu"] == "h100-80gb"
    session = Session(old)
    assert session.answer(BY_KEY["gpu"], "H100") is None
    assert session.answer(BY_KEY["gpu"], "tpu") is not None


def test_nothing_is_said_of_a_model_that_is_not_modelled() -> None:
    draft = Draft({"bridge": "0.6", "recipe": "deepseek_v4_flash_sft_config", "gpus": 32})
    assert memory.line(draft) is None
    assert memory.smallest(draft, 32) is None
    assert memory.own_fits(draft, 32) is None


def test_what_is_proposed_fits_by_its_own_estimate() -> None:
    setup = memory.base_setup(Draft({**TOO_SMALL, "gpus": 8}), 8, 8192)
    assert setup is not None
    found = memory.smallest(Draft({**TOO_SMALL, "gpus": 8}), 8)
    assert found is not None
    assert found.high * GIB <= 79.1 * GIB
