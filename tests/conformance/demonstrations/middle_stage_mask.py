"""0.5.0 splits a placeholder of a mask on middle pipeline stages, which has no such dimension."""

from upstream import Group, collated, first, namespace, with_split

RULES = ("CPL114",)
RELEASES = ("0.5.0",)
EXPECTED = ("IndexError",)


def trial(good: bool) -> str | None:
    step = first("megatron.bridge.training.gpt_step")
    with_split(2, 0)
    step.is_te_min_version = lambda *a, **k: True
    step.get_batch_on_this_cp_rank = lambda batch, **more: batch
    step.is_pp_first_stage = lambda group: group.rank() == 0
    step.is_pp_last_stage = lambda group: group.rank() == group.size() - 1
    groups = namespace(pp=Group(4, 0 if good else 1), cp=Group(2))
    data = namespace(packed_sequence_specs=namespace(packed_sequence_size=128), skip_getting_attention_mask_from_dataset=True)
    batch = collated([[40, 80]], 128, 4, pad_to_max_length=True)
    step.get_batch(iter([batch]), namespace(dataset=data), False, pg_collection=groups)
    return None
