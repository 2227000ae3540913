"""A schedule in samples of another global batch is refused when the checkpoint's is loaded."""

from upstream import first

RULES = ("SCH109",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("AssertionError",)


def trial(good: bool) -> str | None:
    import torch

    cls = first("megatron.core.optimizer_param_scheduler").OptimizerParamScheduler
    held = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1e-5)

    def scheduler(batch: int):
        return cls(
            held,
            init_lr=0.0,
            max_lr=1e-5,
            min_lr=0.0,
            lr_warmup_steps=10 * batch,
            lr_decay_steps=1000 * batch,
            lr_decay_style="cosine",
            start_wd=0.1,
            end_wd=0.1,
            wd_incr_steps=1000 * batch,
            wd_incr_style="constant",
            use_checkpoint_opt_param_scheduler=False,
            override_opt_param_scheduler=False,
        )

    saved = scheduler(8)
    saved.step(increment=8 * 500)
    scheduler(8 if good else 64).load_state_dict(saved.state_dict())
    return None
