"""Before 0.5 a middle pipeline stage gets no batch, and with it no sample boundaries."""

from upstream import Group, collated, first, namespace

RULES = ("PPL101",)
RELEASES = ("0.3", "0.4")


def trial(good: bool) -> str | None:
    step = first("megatron.bridge.training.gpt_step")
    step.is_pp_first_stage = lambda group: group.rank() == 0
    step.is_pp_last_stage = lambda group: group.rank() == group.size() - 1
    groups = namespace(pp=Group(4, 0 if good else 1), cp=Group(1))
    batch = collated([[40, 80]], 128, pad_to_max_length=True)
    found = step.get_batch(iter([batch]), namespace(dataset=namespace()), False, pg_collection=groups)
    return None if found[5] is not None else "stage 1 of 4 knows no boundaries"
