"""The collate function of Nemotron-VL refuses in-batch packing."""

from upstream import first

RULES = ("FAM102",)
RELEASES = ("0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.models.nemotron_vl.data.collate_fn")
    collate = next(value for name, value in vars(module).items() if name.endswith("collate_fn") and callable(value))
    examples = [{"conversation": [{"content": [{"type": "image", "image": None}]}]}]
    try:
        collate(examples, None, enable_in_batch_packing=not good)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if "in-batch packing" in str(error):
            raise
        return None  # past the check: it asks for a processor
    return None
