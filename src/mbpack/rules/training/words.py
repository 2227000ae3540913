"""What the sections around the model refuse: logs, profiler, stragglers, schedule, checkpoints, optimizer, quantization."""

from __future__ import annotations

from mbpack.config.run import Run
from mbpack.rules.base import Fix, Rule, in_yaml, set_to
from mbpack.rules.worded import Said, Worded

USE, OVERRIDE = "scheduler.use_checkpoint_opt_param_scheduler", "scheduler.override_opt_param_scheduler"
SECTION = "nvrx_straggler"
_RAMP = "With a batch that grows, samples do not say how many steps there are."


def _tracker(title: str, project: str, name: str) -> Said:
    says, why = f"{project} is set and {name} is not", f"{title} files every run under a name."
    return Said(says, f"{project} {name}", why, f"logger.{name}: a name for this run")


def _share(name: str) -> Said:
    def mend(run: Run) -> Fix:
        share = run.maybe(f"{SECTION}.{name}")
        right = share / 100 if isinstance(share, (int, float)) and 1 < share <= 100 else 0.7
        return Fix(f"{name}: {right}", set_to(run, (f"{SECTION}.{name}", right)))

    return Said(f"{name} must be from 0 to 1, found {{{name}}}", f"{name} enabled", fix=mend)


def _step(name: str) -> Said:
    other = "profile_step_end" if name.endswith("start") else "profile_step_start"
    return Said(f"{name} must be 0 or more, found {{{name}}}", f"{name} {other}", fix=f"{name}: the number of a step")


def _last_step(run: Run) -> Fix:
    first = run.maybe("profiling.profile_step_start")
    edits = set_to(run, ("profiling.profile_step_end", first))
    return Fix(f"profile_step_end: {in_yaml(first)} or more", edits)


def _ramp(name: str) -> Said:
    says, fix = f"rampup_batch_size does not work with {name}", {"rampup_batch_size": None}
    return Said(says, f"rampup_batch_size {name}", _RAMP, fix, other="or train_iters instead")


def _distributed(run: Run) -> Fix:
    key = "optimizer.use_distributed_optimizer"
    return Fix(f"{key}: true", set_to(run, (key, True)))


def _one_schedule(run: Run) -> Fix:
    other = OVERRIDE if run.wrote(USE) else USE
    return Fix(f"{other.partition('.')[2]}: false", set_to(run, (other, False)))


RULES: tuple[Rule, ...] = (
    Worded(
        "LOG101",
        "log/run-names",
        "LoggerConfig.finalize",
        "An experiment tracker that is switched on needs a name for the run.",
        {
            "mlflow_experiment+mlflow_run_name": _tracker("MLflow", "mlflow_experiment", "mlflow_run_name"),
            "comet_experiment_name+comet_project": _tracker("Comet", "comet_project", "comet_experiment_name"),
        },
        {"mlflow_experiment": "packing"},
        {"comet_project": "packing"},
        section="logger",
        good={"mlflow_run_name": "first"},
        text="`mlflow_experiment` needs `mlflow_run_name`; `comet_project` (0.4 and later) needs `comet_experiment_name`. An empty name\n"
        "is none.",
    ),
    Worded(
        "LOG102",
        "log/profiling-window",
        "ProfilingConfig.finalize",
        "The profiler runs from a first step to a last one, and only one profiler does.",
        {
            "use_nsys_profiler+use_pytorch_profiler": Said(
                "use_nsys_profiler and use_pytorch_profiler are both on",
                "use_pytorch_profiler use_nsys_profiler",
                fix={"use_pytorch_profiler": False},
                other="or use_nsys_profiler: false",
            ),
            "profile_step_start": _step("profile_step_start"),
            "profile_step_end": _step("profile_step_end"),
            "profile_step_end+profile_step_start": Said(
                "profile_step_end {profile_step_end} is before profile_step_start {profile_step_start}",
                "profile_step_start profile_step_end",
                fix=_last_step,
            ),
        },
        {"use_nsys_profiler": True, "profile_step_start": 20},
        {"use_nsys_profiler": True, "use_pytorch_profiler": True},
        section="profiling",
        good={"profile_step_end": 22},
        text="Steps start at 0. The window is checked whether a profiler is on or not.",
    ),
    Worded(
        "LOG103",
        "log/straggler",
        "NVRxStragglerDetectionConfig.finalize",
        "A detection of slow ranks that is on has a score to compute, a time between reports, and thresholds from 0 to 1.",
        {
            "calc_individual_gpu_perf+calc_relative_gpu_perf": Said(
                "both calc_relative_gpu_perf and calc_individual_gpu_perf are off: there is nothing to report",
                "calc_relative_gpu_perf calc_individual_gpu_perf enabled",
                fix={"calc_relative_gpu_perf": True},
            ),
            "report_time_interval": Said(
                "report_time_interval must be more than 0 seconds, found {report_time_interval}",
                "report_time_interval enabled",
                fix={"report_time_interval": 300},
            ),
            "gpu_relative_perf_threshold": _share("gpu_relative_perf_threshold"),
            "gpu_individual_perf_threshold": _share("gpu_individual_perf_threshold"),
        },
        {
            "nvrx_straggler._target_": "megatron.bridge.training.config.NVRxStragglerDetectionConfig",
            "enabled": True,
            "gpu_relative_perf_threshold": 70,
        },
        section=SECTION,
        good={"gpu_relative_perf_threshold": 0.7},
    ),
    Worded(
        "SCH105",
        "sched/ramp-up",
        "TrainingConfig.finalize",
        "Batch size ramp-up works only where training is counted in iterations.",
        {
            "rampup_batch_size if num_epochs": _ramp("num_epochs"),
            "rampup_batch_size if train_samples": _ramp("train_samples"),
        },
        {"num_epochs": 1, "train_iters": None, "rampup_batch_size": [8, 8, 100]},
        section="train",
    ),
    Worded(
        "SCH106",
        "sched/resumed-schedule",
        "SchedulerConfig.finalize",
        "A resumed run takes the schedule of its checkpoint or its own, not both.",
        {
            "use_checkpoint_opt_param_scheduler": Said(
                "override_opt_param_scheduler and use_checkpoint_opt_param_scheduler are both on",
                "use_checkpoint_opt_param_scheduler override_opt_param_scheduler",
                "One keeps the schedule that is written here, the other that of the checkpoint.",
                _one_schedule,
            )
        },
        {"use_checkpoint_opt_param_scheduler": True},
        section="scheduler",
        good={"override_opt_param_scheduler": False},
        text="`override_opt_param_scheduler` keeps the schedule of the configuration, `use_checkpoint_opt_param_scheduler` that of the\n"
        "checkpoint. Recipes switch the first one on.",
    ),
    Worded(
        "CKP102",
        "ckpt/async-worker",
        "CheckpointConfig.finalize",
        "Asynchronous saving needs the persistent checkpoint worker.",
        {
            "use_persistent_ckpt_worker if async_save": Said(
                "async_save needs use_persistent_ckpt_worker: true",
                "use_persistent_ckpt_worker async_save",
                "The worker is the process that writes while training goes on.",
                {"use_persistent_ckpt_worker": True},
                safe=True,
            )
        },
        {"async_save": True, "save": "checkpoints/run", "use_persistent_ckpt_worker": False},
        section="checkpoint",
    ),
    Worded(
        "OPT102",
        "opt/precision-aware",
        "OptimizerConfig.__post_init__",
        "The precision-aware optimizer is a distributed Adam.",
        {
            "optimizer=adam": Said(
                "the precision-aware optimizer is adam only, found optimizer {optimizer}",
                "optimizer use_precision_aware_optimizer",
                fix={"use_precision_aware_optimizer": False},
                other="or optimizer: adam",
            ),
            "use_distributed_optimizer if use_precision_aware_optimizer": Said(
                "the precision-aware optimizer needs optimizer.use_distributed_optimizer: true",
                "use_distributed_optimizer use_precision_aware_optimizer ddp.use_distributed_optimizer",
                "The switch of ddp is copied to the optimizer only later.",
                _distributed,
            ),
        },
        {"use_precision_aware_optimizer": True, "use_distributed_optimizer": False, "ddp.use_distributed_optimizer": True},
        {"use_precision_aware_optimizer": True, "optimizer": "sgd"},
        section="optimizer",
        good={"use_distributed_optimizer": True},
        text="`use_precision_aware_optimizer` needs `optimizer: adam` and `use_distributed_optimizer: true` in the optimizer's own section:\n"
        "the start-up looks before it copies the switch over from `ddp`.",
    ),
    Worded(
        "QNT101",
        "quant/modelopt",
        "ConfigContainer.validate",
        "A model that ModelOpt quantized accumulates gradients unfused and is restored from persistent checkpoints.",
        {
            "gradient_accumulation_fusion if restore_modelopt_state": Said(
                "restore_modelopt_state needs gradient_accumulation_fusion: false",
                "gradient_accumulation_fusion restore_modelopt_state",
                "The fused kernels do not know quantized layers.",
                {"gradient_accumulation_fusion": False},
                safe=True,
            ),
            "_validate_modelopt_checkpointing:checkpoint.non_persistent_ckpt_type": Said(
                "restore_modelopt_state does not work with non_persistent_ckpt_type {checkpoint.non_persistent_ckpt_type}",
                "checkpoint.non_persistent_ckpt_type restore_modelopt_state",
                "The quantizer state is read from persistent checkpoints.",
                {"checkpoint.non_persistent_ckpt_type": None},
            ),
        },
        {"restore_modelopt_state": True, "gradient_accumulation_fusion": True},
        {
            "restore_modelopt_state": True,
            "gradient_accumulation_fusion": False,
            "checkpoint.non_persistent_ckpt_type": "global",
        },
        text="`restore_modelopt_state` excludes `gradient_accumulation_fusion` and, from 0.6 on, `non_persistent_ckpt_type`. The fusion is\n"
        "on by default where the machine has its kernels, as machines that train do.",
    ),
)
