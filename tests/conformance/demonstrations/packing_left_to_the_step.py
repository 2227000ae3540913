"""The step of vision models refuses a dataset that leaves packing to it."""

from upstream import Reached, Self, first, namespace

RULES = ("STP101",)
RELEASES = ("0.6", "0.7")
EXPECTED = ("ValueError",)


def trial(good: bool) -> str | None:
    step = first("megatron.bridge.training.vlm_step")
    step.get_model_config = lambda model: namespace(mtp_num_layers=None)
    dataset = namespace(enable_in_batch_packing=True, defer_in_batch_packing_to_step=not good)
    state = Self(timers=Self(), straggler_timer=None, cfg=namespace(dataset=dataset))
    state.timers = lambda *args, **more: Self()
    try:
        step.forward_step(state, iter([]), None)
    except Reached:
        pass
    return None
