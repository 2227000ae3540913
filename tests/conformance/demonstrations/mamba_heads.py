"""Mamba heads that context parallel ranks cannot share stop the building of the layer."""

from upstream import Group, first

RULES = ("SSM106",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import inspect

    cls = first("megatron.core.ssm.mamba_context_parallel").MambaContextParallel
    given = {
        "cp_group": Group(4 if good else 6),
        "d_inner_local_tp": 4096,
        "nheads_local_tp": 64,
        "ngroups_local_tp": 4,
        "d_state": 128,
    }
    asked = [name for name in inspect.signature(cls.__init__).parameters if name != "self"]
    cls(**{name: given.get(name) for name in asked})
    return None
