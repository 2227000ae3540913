"""Labels of multi-token prediction are shifted by logical boundaries over padded rows."""

from upstream import first, namespace

RULES = ("MTP101",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    import torch

    roll = first("megatron.core.transformer.multi_token_prediction").roll_tensor
    lengths, multiple = [13, 22, 9, 31], 1 if good else 8
    padded = [-(-length // multiple) * multiple for length in lengths]
    labels, logical, physical = [], [0], [0]
    for number, (length, wide) in enumerate(zip(lengths, padded, strict=True)):
        labels += [100 * (number + 1) + place for place in range(length)] + [0] * (wide - length)
        logical.append(logical[-1] + length)
        physical.append(physical[-1] + wide)
    bounds = torch.tensor(logical, dtype=torch.int32)
    params = namespace(cu_seqlens_q=bounds, cu_seqlens_kv=bounds, cu_seqlens_q_padded=torch.tensor(physical), qkv_format="thd")
    rolled, _ = roll(torch.tensor([labels]), shifts=-1, dims=-1, packed_seq_params=params)
    wrong = 0
    for start, length in zip(physical, lengths, strict=False):
        wrong += sum(int(rolled[0, start + place]) != labels[start + place + 1] for place in range(length - 1))
    return f"{wrong} of {sum(lengths) - len(lengths)} labels are wrong" if wrong else None
