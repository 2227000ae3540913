"""Averaging in the collective and a loss per token: the wrapper around the model asserts."""

from upstream import Group, first, namespace

RULES = ("CPL102",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import torch

    module = first("megatron.core.distributed.distributed_data_parallel")
    config = first("megatron.core.distributed.distributed_data_parallel_config").DistributedDataParallelConfig
    one = Group(1)
    groups = dict.fromkeys(("dp_group", "dp_cp_group", "intra_dp_cp_group", "expt_dp_group", "intra_expt_dp_group"), one)
    groups |= dict.fromkeys(("tp_group", "pp_group", "ep_group", "inter_dist_opt_group"), one)
    module.ProcessGroupCollection.setup_process_groups_for_ddp = staticmethod(lambda *a, **k: groups)
    settings = namespace(calculate_per_token_loss=True, fp8=None, gtp_remat=False)
    try:
        module.DistributedDataParallel(settings, config(average_in_collective=not good), torch.nn.Linear(2, 2))
    except AssertionError as error:
        if "per-token" in str(error):
            raise
        return None  # past the check
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return None  # it asks for a GPU, or a real group, behind the check
    return None
