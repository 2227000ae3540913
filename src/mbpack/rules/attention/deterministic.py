"""Deterministic mode."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.facts.releases import R04, R06
from mbpack.rules.base import REJECTED, Edit, Finding, Fix, RejectingRule, Rule, set_to, words
from mbpack.rules.environment import variable

#: An algorithm of NCCL that deterministic mode accepts on any machine.
RING = Edit("set", "env_vars.NCCL_ALGO", "Ring")


class Deterministic(RejectingRule):
    """Deterministic mode excludes fused cross-entropy and needs a fixed NCCL algorithm.

    The Llama recipes switch the fusion on. 0.3 and 0.4 also refuse flash attention. NCCL_ALGO is an environment
    variable; where `env_vars` (0.6 and later) does not set it, only the machine that trains can tell; `--environment` says
    that this is it.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {deterministic_mode: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    model: {deterministic_mode: true, cross_entropy_loss_fusion: false}
    env_vars: {NCCL_ALGO: Ring}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `_validate_and_apply_deterministic_mode`
    """

    code, slug = "ATN103", "attn/deterministic"

    CHOICES = ("Tree", "Ring", "CollnetDirect", "CollnetChain", "^NVLS")

    def check(self, run: Run) -> Iterator[Finding]:
        key = "model.deterministic_mode"
        if not run.flag(key):
            return
        if run.release <= R04:
            backend = run.value("model.attention_backend")
            if isinstance(backend, Object) and backend.name == "AttnBackend" and backend.args[:1] == (1,):
                yield self._refuse(
                    run,
                    "model.attention_backend",
                    "deterministic mode excludes flash attention",
                    "auto (5)",
                    (Edit("set", "model.attention_backend._args_", [5]),),
                )
        fusion = "model.cross_entropy_loss_fusion"
        if run.flag(fusion):
            yield self.finding(
                run,
                REJECTED,
                fusion,
                "deterministic mode needs cross_entropy_loss_fusion: false",
                related=(key,),
                fix=Fix("cross_entropy_loss_fusion: false", set_to(run, (fusion, False)), safe=True),
            )
        algorithm = variable(run, "NCCL_ALGO")
        if algorithm is None:
            yield self.finding(
                run,
                REJECTED,
                key,
                "deterministic mode needs the environment variable NCCL_ALGO, which nothing sets",
                why=f"The start-up asserts that it is one of {words(self.CHOICES, 'or')}.",
                fix=Fix(
                    "export NCCL_ALGO=Ring" + (", or env_vars.NCCL_ALGO: Ring" if run.release >= R06 else ""),
                    (RING,) if run.release >= R06 else (),
                ),
            )
        elif algorithm not in self.CHOICES:
            held = run.settings.environ is not None and "NCCL_ALGO" in run.settings.environ
            yield self._refuse(
                run,
                "env_vars.NCCL_ALGO",
                f"NCCL_ALGO {algorithm} is not deterministic",
                f"one of {words(self.CHOICES, 'or')}",
                () if held else (RING,),
            )

    def _refuse(self, run: Run, key: str, message: str, fix: str, edits: tuple[Edit, ...]) -> Finding:
        return self.finding(run, REJECTED, key, message, related=("model.deterministic_mode",), fix=Fix(fix, edits))


RULES: tuple[Rule, ...] = (Deterministic(),)
