"""llava_step refuses packed rows with pipeline stages."""

from upstream import Group, first, namespace

RULES = ("PPL106",)
RELEASES = ("0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.training.llava_step")
    module.get_pg_size = lambda group: group.size()
    module._validate_packed_parallelism(pg_collection=namespace(pp=Group(1 if good else 2), cp=Group(1)))
    return None
