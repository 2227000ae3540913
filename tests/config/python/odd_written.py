"""What people write around a recipe, one body each; they stand behind :data:`tests.config.python.programs.HEAD`."""

from __future__ import annotations

WRITTEN: dict[str, str] = {
    "dataclasses.replace of a section": """
from dataclasses import dataclass, replace


@dataclass
class Sizes:
    seq: int = 1024
    batch: int = 8


small = Sizes()
large = replace(small, seq=args.size * 1024)
cfg = first_config()
cfg.model.seq_length = small.seq
cfg.dataset.seq_length = large.seq
cfg.train.global_batch_size = large.batch
finetune(cfg, forward_step)
""",
    "partial of a helper": """
from functools import partial

long = partial(made, 8192)
short = partial(made, first=False)
tune = partial(put, value=4)
cfg = long()
tune(cfg, name="long")
cfg.train.global_batch_size = 16
finetune(cfg, forward_step)
""",
    "partial with a changed argument": """
import functools

build_it = functools.partial(made, size=2048)
cfg = build_it(first=True)
cfg.optimizer.lr = 1e-4
cfg = functools.partial(put, cfg)(2)
finetune(cfg, forward_step)
""",
    "partial of the launcher": """
from functools import partial

run = partial(finetune, step=forward_step)
cfg = first_config()
cfg.model.seq_length = 4096
finetune(cfg, forward_step)
""",
    "overrides in a dictionary, applied by dotted name": """
OVERRIDES = {
    "model.seq_length": 8192,
    "train.global_batch_size": 32,
    "dataset.offline_packing_specs.packed_sequence_size": 8192,
}


def apply(config, overrides):
    for dotted, value in overrides.items():
        *parents, last = dotted.split(".")
        target = config
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, last, value)


cfg = first_config()
apply(cfg, OVERRIDES)
finetune(cfg, forward_step)
""",
    "overrides with rsplit and functools.reduce": """
from functools import reduce

cfg = first_config()
for dotted, value in {"model.seq_length": 2048, "dataset.offline_packing_specs.pad_seq_to_mult": 4}.items():
    owner, _, leaf = dotted.rpartition(".")
    setattr(reduce(getattr, owner.split("."), cfg), leaf, value)
cfg.train.train_iters = 12
finetune(cfg, forward_step)
""",
    "overrides by section": """
TUNED = {"model": dict(seq_length=512, context_parallel_size=2), "train": dict(train_iters=3)}
cfg = first_config()
for section_name, fields in TUNED.items():
    held = getattr(cfg, section_name)
    for key, value in fields.items():
        if hasattr(held, key):
            setattr(held, key, value)
finetune(cfg, forward_step)
""",
    "overrides that call themselves": """
def merge(target, tree):
    for key, value in tree.items():
        if isinstance(value, dict):
            merge(getattr(target, key), value)
        else:
            setattr(target, key, value)


cfg = first_config()
merge(cfg, {"dataset": {"offline_packing_specs": {"pad_seq_to_mult": 8}, "seq_length": 77}, "optimizer": {"lr": 0.1}})
finetune(cfg, forward_step)
""",
    "overrides that the command line gives": """
pairs = [text.split("=") for text in os.environ.get("MBPACK_PAIRS", "model.seq_length=5").split(",")]
cfg = first_config()
cfg.train.micro_batch_size = 4
for dotted, value in pairs:
    first, last = dotted.split(".")
    setattr(getattr(cfg, first), last, int(value))
finetune(cfg, forward_step)
""",
    "vars() and __dict__ of a section": """
cfg = first_config()
vars(cfg.train).update(train_iters=21)
cfg.model.__dict__["seq_length"] = 22
cfg.optimizer.lr = 0.25
finetune(cfg, forward_step)
""",
    "argparse with parse_known_args": """
more = argparse.ArgumentParser()
more.add_argument("--tp", type=int, default=2)
more.add_argument("--seq-length", dest="seq", type=int, default=2048)
more.add_argument("--no-sp", dest="sp", action="store_false")
own, rest = more.parse_known_args()
cfg = first_config()
cfg.model.tensor_model_parallel_size = own.tp
cfg.model.seq_length = own.seq
cfg.model.sequence_parallel = own.sp and own.tp > 1
if rest and rest[0] == "--size":
    cfg.train.train_iters = 3
finetune(cfg, forward_step)
""",
    "argparse with sub-commands": """
top = argparse.ArgumentParser()
commands = top.add_subparsers(dest="command")
train = commands.add_parser("train")
train.add_argument("--gbs", type=int, default=8)
own = top.parse_args(["train", "--gbs", "24"])
cfg = first_config() if own.command == "train" else second_config()
cfg.train.global_batch_size = own.gbs
cfg.model.seq_length = 640
finetune(cfg, forward_step)
""",
    "argparse into a dictionary": """
cfg = first_config()
given = vars(args)
for key in ("size", "name"):
    if given[key] is not None:
        setattr(cfg.train, {"size": "global_batch_size", "name": "run"}[key], given[key])
cfg.model.seq_length = given.get("seq", 99)
finetune(cfg, forward_step)
""",
    "click": """
import click


@click.command()
@click.option("--size", default=4, type=int)
@click.option("--flag", is_flag=True)
@click.option("--name", default="small")
def train(size, flag, name):
    cfg = first_config()
    cfg.train.global_batch_size = size * 8
    cfg.model.sequence_parallel = flag
    cfg.model.seq_length = 4096
    cfg.checkpoint.save = f"runs/{name}"
    finetune(cfg, forward_step)


if __name__ == "__main__":
    train()
""",
    "typer": """
import typer

app = typer.Typer()


@app.command()
def train(size: int = 4, flag: bool = False, name: str = typer.Option("small", help="a name")):
    cfg = first_config()
    cfg.train.global_batch_size = size
    if flag:
        cfg.model.sequence_parallel = True
    cfg.model.seq_length = 8192
    cfg.checkpoint.save = name
    finetune(cfg, forward_step)


if __name__ == "__main__":
    app()
""",
    "typer.run": """
import typer


def main(size: int = 4, flag: bool = False, name: str = "small"):
    cfg = first_config()
    cfg.train.micro_batch_size = size
    cfg.dataset.seq_length = 1024 if name == "small" else 2048
    finetune(cfg, forward_step)


if __name__ == "__main__":
    typer.run(main)
""",
    "hydra": """
import hydra


@hydra.main(version_base=None, config_path="conf", config_name="train")
def main(settings):
    cfg = first_config()
    cfg.train.global_batch_size = settings.size
    cfg.model.seq_length = 4096
    finetune(cfg, forward_step)


if __name__ == "__main__":
    main()
""",
    "a recipe out of a dictionary": """
RECIPES = {"small": first_config, "large": second_config}
cfg = RECIPES[args.name]()
cfg.train.train_iters = 5
finetune(cfg, forward_step)
""",
    "a recipe by getattr": """
import megatron.bridge.recipes.some as recipes

cfg = getattr(recipes, "second_config")()
cfg.train.train_iters = 8
finetune(cfg, forward_step)
""",
    "a recipe by import_module": """
import importlib

module = importlib.import_module("megatron.bridge.recipes.some")
cfg = module.first_config()
cfg.optimizer.min_lr = 0.0
finetune(cfg, forward_step)
""",
    "a registry with a decorator": """
MAKERS = {}


def register(name):
    def keep(function):
        MAKERS[name] = function
        return function

    return keep


@register("small")
def small():
    cfg = first_config()
    cfg.model.seq_length = 128
    return cfg


@register("large")
def large():
    cfg = second_config()
    cfg.model.seq_length = 256
    return cfg


cfg = MAKERS["small"]()
cfg.train.train_iters = 4
finetune(cfg, forward_step)
""",
    "a context manager around the changes": """
from contextlib import contextmanager


@contextmanager
def changed(config):
    config.train.train_iters = 1
    yield config
    config.train.micro_batch_size = 2


cfg = first_config()
with changed(cfg) as inner:
    inner.model.seq_length = 3
cfg.optimizer.lr = 0.5
finetune(cfg, forward_step)
""",
    "a generator of jobs": """
def jobs():
    for size in SIZES:
        cfg = first_config()
        cfg.train.global_batch_size = size
        yield cfg


for cfg in jobs():
    cfg.model.seq_length = 1024
    finetune(cfg, forward_step)
""",
    "a sweep with itertools": """
from itertools import product

for seq, batch in product((1024, 2048), (8, 16)):
    cfg = first_config()
    cfg.model.seq_length = seq
    cfg.train.global_batch_size = batch
    finetune(cfg, forward_step)
""",
    "a chain of conditional expressions": """
size = args.size
cfg = first_config()
cfg.model.tensor_model_parallel_size = 8 if size > 8 else 4 if size > 4 else 2 if size > 2 else 1
cfg.model.context_parallel_size = 2 * (size > 4) or 1
cfg.train.global_batch_size = {2: 16, 4: 32}.get(size, 64)
cfg.checkpoint.load = None if not args.flag else "there"
finetune(cfg, forward_step)
""",
    "match on the command line": """
cfg = first_config()
match args.name:
    case "small":
        cfg.model.seq_length = 1024
    case "large" | "huge":
        cfg.model.seq_length = 8192
    case other_name:
        cfg.checkpoint.save = other_name
cfg.train.train_iters = 6
finetune(cfg, forward_step)
""",
    "walrus and chained comparison": """
cfg = first_config()
if (size := args.size) and 2 < size <= 8:
    cfg.train.global_batch_size = size
cfg.model.seq_length = (wide := 1024) * 2
cfg.dataset.seq_length = wide
finetune(cfg, forward_step)
""",
    "environment with several spellings": """
def env(name, default, cast=int):
    raw = os.environ.get(name)
    return default if raw is None else cast(raw)


def flag(name, default="0"):
    return os.environ.get(name, default).lower() in ("1", "true", "yes")


cfg = first_config()
cfg.model.tensor_model_parallel_size = env("MBPACK_SIZE", 2)
cfg.model.sequence_parallel = flag("MBPACK_SP")
cfg.optimizer.lr = env("MBPACK_LR", 1e-5, float)
cfg.model.context_parallel_size = int(os.environ["MBPACK_CP"]) if "MBPACK_CP" in os.environ else 1
cfg.train.train_iters = env("MBPACK_ITERS", 100)
finetune(cfg, forward_step)
""",
    "environment that is set first": """
os.environ.setdefault("MBPACK_SIZE", "3")
os.environ["MBPACK_LEN"] = "2048"
cfg = first_config()
cfg.model.seq_length = int(os.environ["MBPACK_LEN"])
cfg.train.micro_batch_size = int(os.environ["MBPACK_SIZE"])
finetune(cfg, forward_step)
""",
    "an enumeration": """
from enum import Enum, IntEnum


class Size(IntEnum):
    SMALL = 2
    LARGE = 16


class Name(Enum):
    ONE = "one"


cfg = first_config()
cfg.train.global_batch_size = Size.LARGE.value
cfg.checkpoint.save = Name.ONE.value
cfg.model.seq_length = Size["SMALL"].value * 512
finetune(cfg, forward_step)
""",
    "a class that stands for the command line": """
class Settings:
    def __init__(self, **given):
        self.seq = 1024
        self.__dict__.update(given)

    def __getattr__(self, name):
        return 7


held = Settings(seq=2048)
cfg = first_config()
cfg.model.seq_length = held.seq
cfg.train.train_iters = held.iters
finetune(cfg, forward_step)
""",
    "asyncio and threads": """
import threading


def later(config):
    config.train.train_iters = 31


cfg = first_config()
thread = threading.Thread(target=later, args=(cfg,))
thread.start()
thread.join()
cfg.model.seq_length = 32
finetune(cfg, forward_step)
""",
    "map and lambda": """
cfg = first_config()
list(map(lambda pair: setattr(cfg.train, pair[0], pair[1]), [("train_iters", 41), ("micro_batch_size", 2)]))
[setattr(cfg.model, key, value) for key, value in {"seq_length": 42}.items()]
scale = lambda size, by=2: size * by
cfg.optimizer.lr = scale(0.5)
finetune(cfg, forward_step)
""",
    "sorted, filter, any and friends": """
sizes = sorted(filter(lambda size: size > 2, SIZES), reverse=True)
cfg = first_config()
cfg.train.global_batch_size = sizes[0]
cfg.train.micro_batch_size = min(sizes, key=lambda size: -size)
cfg.model.seq_length = next(iter(sizes)) * 4
cfg.model.sequence_parallel = any(size > 4 for size in sizes) and all(sizes)
cfg.dataset.seq_length = sum(1 for _ in sizes)
finetune(cfg, forward_step)
""",
    "dictionaries by comprehension and union": """
base = {"seq_length": 1024, "context_parallel_size": 2}
doubled = {key: value * 2 for key, value in base.items()}
cfg = first_config()
for key, value in (base | {"seq_length": 4096}).items():
    setattr(cfg.model, key, value)
cfg.dataset.seq_length = doubled["seq_length"]
finetune(cfg, forward_step)
""",
    "a configuration per size of the machine": """
def gpus():
    return int(os.environ.get("WORLD_SIZE", 8))


def shape(config, world=None):
    world = world or gpus()
    config.train.global_batch_size = world * 4
    if world >= 16:
        config.model.context_parallel_size = 2
    return config


cfg = shape(first_config(), world=16)
finetune(cfg, forward_step)
""",
    "try a recipe, else another": """
try:
    from megatron.bridge.recipes.some import third_config as maker
except ImportError:
    maker = second_config
cfg = maker()
cfg.train.train_iters = 51
finetune(cfg, forward_step)
""",
    "a section built beside the configuration": """
specs = PackedSequenceSpecs(packed_sequence_size=SEQ)
specs.pad_seq_to_mult = 2 * args.size
adapter = LoRA(dim=8)
cfg = first_config()
cfg.dataset.offline_packing_specs, cfg.peft = specs, adapter
adapter.alpha = 16
finetune(cfg, forward_step)
""",
    "defaults that change": """
def add(item, held=[]):
    held.append(item)
    return held


add(2)
cfg = first_config()
cfg.train.train_iters = len(add(3))
cfg.model.seq_length = 61
finetune(cfg, forward_step)
""",
    "star arguments": """
def shape(config, *sizes, **fields):
    config.model.tensor_model_parallel_size, config.model.context_parallel_size = sizes
    for key, value in fields.items():
        setattr(config.train, key, value)


cfg = first_config()
shape(cfg, *[2, 4], **{"train_iters": 71}, micro_batch_size=1)
finetune(cfg, forward_step)
""",
    "a decorator that changes the configuration": """
def doubled(function):
    def inner(*given, **named):
        config = function(*given, **named)
        config.train.train_iters = 2
        return config

    return inner


@doubled
def job(size):
    cfg = first_config()
    cfg.train.train_iters = 1
    cfg.model.seq_length = size
    return cfg


cfg = job(81)
cfg.optimizer.lr = 0.75
finetune(cfg, forward_step)
""",
    "kinds of values": """
cfg = first_config()
for value in (tuple(SIZES), set(SIZES), list(SIZES), "text", 3, True, {"a": 1}, 0.5, None):
    if isinstance(value, (list, set)):
        cfg.train.train_iters += 1
    elif isinstance(value, tuple):
        cfg.model.seq_length = len(value)
    elif isinstance(value, bool):
        cfg.model.sequence_parallel = value
    elif isinstance(value, (int, float)):
        cfg.optimizer.lr = value
    elif isinstance(value, dict):
        cfg.dataset.seq_length = value["a"]
finetune(cfg, forward_step)
""",
}
