"""The hybrid schedule takes the second part of what the iterator gives for a plan of samples."""

from upstream import Group, Reached, first

RULES = ("CPL116",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("KeyError", "TypeError", "IndexError", "AttributeError", "ValueError")


def trial(good: bool) -> str | None:
    import contextlib

    import torch

    module = first("megatron.core.pipeline_parallel.hybrid_cp_schedule")
    state = module.parallel_state
    state.get_data_parallel_rank = lambda **more: 0
    state.get_tensor_model_parallel_rank = lambda: 0
    state.get_tensor_model_parallel_src_rank = lambda: 0
    state.get_tensor_model_parallel_group = lambda: Group(1)
    plain = torch.tensor
    torch.tensor = lambda *values, **more: plain(*values, **{name: value for name, value in more.items() if name != "device"})

    def reached(*words, **more):
        raise Reached

    torch.distributed.barrier = reached
    ordinary = {"tokens": plain([[5, 6, 7]]), "labels": plain([[6, 7, 2]])}
    planned = ([ordinary], [[[0]]])
    try:
        module.hybrid_context_parallel_forward_backward(
            None,
            iter([planned if good else ordinary]),
            None,
            1,
            None,
            None,
            [],
            None,
            False,
            False,
            False,
            contextlib.nullcontext,
            0,
            lambda *a: True,
            None,
        )
    except Reached:
        return None
    finally:
        torch.tensor = plain
    return None
