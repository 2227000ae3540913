"""0.4 gives Mamba layers no index of samples, so that their state runs on."""

from upstream import collated, first

RULES = ("SSM101",)
RELEASES = ("0.4",)


def trial(good: bool) -> str | None:
    batch = collated([[40, 80]], 128, pad_to_max_length=True)
    params = first("megatron.bridge.training.utils.packed_seq_utils").get_packed_seq_params(batch)
    if good:
        params = type(params)(**{**vars(params), "total_tokens": 128, "seq_idx": None})
    return None if params.seq_idx is not None else "no index of samples"
