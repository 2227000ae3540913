"""Expert sizes that the world does not divide by stop the making of groups."""

from upstream import Reached, first

RULES = ("TOP102",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("RuntimeError", "AssertionError")


def trial(good: bool) -> str | None:
    import torch

    state = first("megatron.core.parallel_state")
    held = torch.distributed.is_initialized, torch.distributed.get_world_size, torch.distributed.get_rank

    def reached(*words, **more):
        raise Reached

    torch.distributed.is_initialized, torch.distributed.get_world_size = lambda: True, lambda *a, **k: 8
    torch.distributed.get_rank = lambda *a, **k: 0
    state.create_group = reached
    torch.distributed.new_group = reached
    try:
        state.initialize_model_parallel(expert_model_parallel_size=4 if good else 3, expert_tensor_parallel_size=1)
    except Reached:
        return None
    finally:
        torch.distributed.is_initialized, torch.distributed.get_world_size, torch.distributed.get_rank = held
    return None
