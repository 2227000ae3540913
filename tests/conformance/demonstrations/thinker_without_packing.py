"""The Omni thinker refuses packed rows."""

from upstream import Reached, Self, first

RULES = ("FAM104",)
RELEASES = ("0.4", "0.5", "0.6", "0.7")
EXPECTED = ("NotImplementedError",)


def trial(good: bool) -> str | None:
    module = first("megatron.bridge.models.qwen_omni.modeling_qwen25_omni.thinker_model")
    try:
        module.Qwen25OmniThinkerModel.forward(Self(), input_ids=None, packed_seq_params=None if good else object())
    except Reached:
        return None
    return None
