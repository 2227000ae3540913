"""Experiment trackers and the profiler: what they need before a run starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mbpack.config.run import Run
from mbpack.config.settings import Object
from mbpack.rules.base import REJECTED, Finding, Fix, RejectingRule, Rule, in_yaml, set_to


class Tracker(NamedTuple):
    """An experiment tracker: the key that switches it on, and the name it then needs."""

    title: str
    project: str
    name: str


#: In the order in which the start-up looks at them; 0.3 has no fields for Comet.
TRACKERS = (
    Tracker("MLflow", "logger.mlflow_experiment", "logger.mlflow_run_name"),
    Tracker("Comet", "logger.comet_project", "logger.comet_experiment_name"),
)
NSYS, PYTORCH = "profiling.use_nsys_profiler", "profiling.use_pytorch_profiler"
START, END = "profiling.profile_step_start", "profiling.profile_step_end"


class RunNames(RejectingRule):
    """An experiment tracker that is switched on needs a name for the run.

    `mlflow_experiment` needs `mlflow_run_name`; `comet_project` (0.4 and later) needs `comet_experiment_name`. An empty name is none.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    logger: {mlflow_experiment: packing}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    logger: {comet_project: packing}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    logger: {mlflow_experiment: packing, mlflow_run_name: first, comet_project: packing, comet_experiment_name: first}
    ```

    ## Upstream
    - 0.3: `training/config.py`, `LoggerConfig.finalize` (MLflow)
    - 0.4 to 0.7: the same, MLflow and Comet
    """

    code, slug = "LOG101", "log/run-names"

    def check(self, run: Run) -> Iterator[Finding]:
        for tracker in TRACKERS:
            if run.flag(tracker.project) and run.value(tracker.name) in (None, ""):
                project, name = (key.partition(".")[2] for key in (tracker.project, tracker.name))
                yield self.finding(
                    run,
                    REJECTED,
                    tracker.project,
                    f"{project} is set and {name} is not",
                    why=f"{tracker.title} files every run under a name.",
                    related=(tracker.name,),
                    fix=Fix(f"logger.{name}: a name for this run"),
                )


class ProfilingWindow(RejectingRule):
    """The profiler runs from a first step to a last one, and only one profiler does.

    Steps start at 0. The window is checked whether a profiler is on or not.

    ## Bad
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    profiling: {use_nsys_profiler: true, profile_step_start: 20}
    ```
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    profiling: {use_nsys_profiler: true, use_pytorch_profiler: true}
    ```

    ## Good
    ```yaml
    # mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 launcher=script
    profiling: {use_nsys_profiler: true, profile_step_start: 20, profile_step_end: 22}
    ```

    ## Upstream
    - 0.3 to 0.7: `training/config.py`, `ProfilingConfig.finalize`
    """

    code, slug = "LOG102", "log/profiling-window"

    def check(self, run: Run) -> Iterator[Finding]:
        if not isinstance(run.value("profiling"), Object):
            return
        if run.flag(NSYS) and run.flag(PYTORCH):
            yield self._refuse(
                run,
                PYTORCH,
                "use_nsys_profiler and use_pytorch_profiler are both on",
                Fix("one of the two", set_to(run, (PYTORCH, False))),
            )
        steps = {}
        for key in (START, END):
            name, step = key.partition(".")[2], run.number(key)
            if step is None or step < 0:
                found = in_yaml(step)
                yield self._refuse(run, key, f"{name} must be 0 or more, found {found}", Fix(f"{name}: the number of a step"))
                return
            steps[key] = step
        if steps[END] < steps[START]:
            key = START if run.wrote(START) else END
            yield self._refuse(
                run,
                key,
                f"profile_step_end {steps[END]} is before profile_step_start {steps[START]}",
                Fix(f"profile_step_end: {steps[START]} or more", set_to(run, (END, steps[START]))),
            )

    def _refuse(self, run: Run, key: str, message: str, fix: Fix) -> Finding:
        return self.finding(run, REJECTED, key, message, related=(NSYS, PYTORCH) if key == PYTORCH else (START, END), fix=fix)


RULES: tuple[Rule, ...] = (RunNames(), ProfilingWindow())
