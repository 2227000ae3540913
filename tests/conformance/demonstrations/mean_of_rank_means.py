"""Without the loss per token, context parallel ranks average means over different numbers of tokens."""

from upstream import first, namespace

RULES = ("CPL101",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")


def trial(good: bool) -> str | None:
    import torch

    losses = first("megatron.bridge.training.losses")
    schedules = first("megatron.core.pipeline_parallel.schedules")
    config = namespace(
        calculate_per_token_loss=good, timers=None, num_moe_experts=None, mtp_num_layers=None, grad_scale_func=None
    )
    shares = [(torch.full((8,), 2.0), torch.tensor([1.0] * 8)), (torch.full((8,), 6.0), torch.tensor([1.0] + [0.0] * 7))]
    found = []
    for values, mask in shares:
        kept: list[object] = []
        count = losses.create_masked_next_token_loss_function(mask, False, False)
        given = (None, values.clone(), count, config, None, False, 1, kept)
        found.append(schedules.forward_step_calc_loss(*given, cp_group_size=2, is_last_stage=True))
    sums, numbers = [float(one[0]) for one in found], [int(one[1]) for one in found]
    mean = sum(sums) / sum(numbers) if good else sum(sums) / len(sums)
    right = (8 * 2.0 + 6.0) / 9
    return None if abs(mean - right) < 1e-5 else f"the loss is {mean:.2f} where the mean over all tokens is {right:.2f}"
