"""The detection of slow ranks by the NVIDIA Resiliency Extension."""

from __future__ import annotations

from collections.abc import Iterator

from mbpack.config.run import Run
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to

SECTION, CLASS = "nvrx_straggler", "NVRxStragglerDetectionConfig"
ENABLED, INTERVAL = "nvrx_straggler.enabled", "nvrx_straggler.report_time_interval"
SCORES = ("nvrx_straggler.calc_relative_gpu_perf", "nvrx_straggler.calc_individual_gpu_perf")
#: In the order in which the start-up looks at them.
THRESHOLDS = ("nvrx_straggler.gpu_relative_perf_threshold", "nvrx_straggler.gpu_individual_perf_threshold")


class Straggler(RejectingRule):
    """A detection of slow ranks that is on has a score to compute, a time between reports, and thresholds from 0 to 1.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    nvrx_straggler:
      _target_: megatron.bridge.training.config.NVRxStragglerDetectionConfig
      enabled: true
      gpu_relative_perf_threshold: 70
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    nvrx_straggler:
      _target_: megatron.bridge.training.config.NVRxStragglerDetectionConfig
      enabled: true
      gpu_relative_perf_threshold: 0.7
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `NVRxStragglerDetectionConfig.finalize`
    """

    code, slug = "LOG103", "log/straggler"

    def check(self, run: Run) -> Iterator[Finding]:
        if run.settings.target_at(SECTION) is None or run.settings.class_at(SECTION) != CLASS or not run.flag(ENABLED):
            return
        if not any(run.flag(key) for key in SCORES):
            message = "both calc_relative_gpu_perf and calc_individual_gpu_perf are off: there is nothing to report"
            yield self._refuse(run, SCORES[0], message, Fix("calc_relative_gpu_perf: true", set_to(run, (SCORES[0], True))))
        interval = run.number(INTERVAL)
        if interval is None or interval <= 0:
            found = in_yaml(interval)
            fix = Fix("report_time_interval: 300", set_to(run, (INTERVAL, 300)))
            yield self._refuse(run, INTERVAL, f"report_time_interval must be more than 0 seconds, found {found}", fix)
        for key in THRESHOLDS:
            share, name = run.number(key), key.partition(".")[2]
            if share is None or not 0 <= share <= 1:
                found = in_yaml(share)
                right = share / 100 if share is not None and 1 < share <= 100 else 0.7
                fix = Fix(f"{name}: {right}", set_to(run, (key, right)))
                yield self._refuse(run, key, f"{name} must be from 0 to 1, found {found}", fix)

    def _refuse(self, run: Run, key: str, message: str, fix: Fix) -> Finding:
        related = (ENABLED, *(SCORES if key in SCORES else ()))
        return self.finding(run, REJECTED, key, message, related=related, fix=fix)


RULES: tuple[Rule, ...] = (Straggler(),)
