"""An evaluation microbatch of two packs has two longest samples where the step wants one."""

from upstream import collated, first

RULES = ("BAT107",)
RELEASES = ("0.5", "0.6", "0.7")
EXPECTED = ("RuntimeError", "ValueError")


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.training.utils.packed_seq_utils")
    batch = collated([[40, 80]] if good else [[40, 80], [100, 20]], 128, pad_to_max_length=True)
    module.get_packed_seq_params({key: value for key, value in batch.items() if "seqlen" in key})
    return None
