"""Training programs in less usual shapes, one body each; they stand behind :data:`tests.config.python.programs.HEAD`."""

from __future__ import annotations

ODD: dict[str, str] = {
    "a class that holds the configuration": """
class Job:
    seq = 2048

    def __init__(self, size):
        self.cfg = first_config()
        self.size = size

    def build(self):
        self.cfg.model.seq_length = self.seq * self.size
        return self.cfg


finetune(Job(2).build(), forward_step)
""",
    "a class that inherits": """
class Base:
    def __init__(self):
        self.cfg = first_config()
        self.shape()

    def shape(self):
        self.cfg.model.seq_length = 1


class Child(Base):
    def shape(self):
        super().shape()
        self.cfg.train.micro_batch_size = 2


finetune(Child().cfg, forward_step)
""",
    "properties and class methods": """
class Sizes:
    base = 3

    @property
    def doubled(self):
        return self.base * 2

    @classmethod
    def tripled(cls):
        return cls.base * 3

    @staticmethod
    def one():
        return 1


cfg = first_config()
cfg.train.global_batch_size = Sizes().doubled
cfg.train.train_iters = Sizes.tripled()
cfg.train.micro_batch_size = Sizes.one()
finetune(cfg, forward_step)
""",
    "a dataclass of settings": """
from dataclasses import dataclass, field, replace


@dataclass
class Settings:
    size: int = 4
    seq: int = 1024
    names: list = field(default_factory=lambda: ["a"])

    def __post_init__(self):
        self.seq = self.seq * 2


held = Settings(size=8)
cfg = first_config()
cfg.train.global_batch_size = held.size
cfg.model.seq_length = held.seq
cfg.checkpoint.save = held.names[0]
cfg.dataset.seq_length = replace(held, size=2).size
finetune(cfg, forward_step)
""",
    "a frozen dataclass from the command line": """
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    size: int
    flag: bool = False


held = Settings(args.size, flag=args.flag)
cfg = first_config()
cfg.train.global_batch_size = held.size * 2
if held.flag:
    cfg.model.sequence_parallel = True
finetune(cfg, forward_step)
""",
    "a named tuple": """
from collections import namedtuple
from typing import NamedTuple

Pair = namedtuple("Pair", "one other")


class Shape(NamedTuple):
    seq: int
    batch: int = 8


pair, shape = Pair(1, 2), Shape(4096)
cfg = first_config()
cfg.train.micro_batch_size = pair.other
cfg.train.global_batch_size = shape.batch
seq, _ = shape
cfg.model.seq_length = seq
finetune(cfg, forward_step)
""",
    "an enumeration": """
from enum import Enum, IntEnum


class Kind(Enum):
    SMALL = "small"
    LARGE = "large"


class Size(IntEnum):
    ONE = 1
    TWO = 2


cfg = first_config()
cfg.checkpoint.save = Kind.LARGE.value
cfg.train.micro_batch_size = int(Size.TWO)
if Kind(args.name) is Kind.SMALL:
    cfg.train.global_batch_size = 16
finetune(cfg, forward_step)
""",
    "partial functions": """
import functools


def sized(cfg, *, size, seq=8):
    cfg.train.global_batch_size = size
    cfg.model.seq_length = seq
    return cfg


big = functools.partial(sized, size=64)
cfg = big(first_config(), seq=16)
finetune(cfg, forward_step)
""",
    "a decorator that changes the result": """
import functools


def doubled(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return inner


@doubled
def size():
    return 4


cfg = first_config()
cfg.train.global_batch_size = size()
finetune(cfg, forward_step)
""",
    "a decorator that keeps a result": """
import functools


@functools.lru_cache(maxsize=None)
def size():
    return 4


@functools.cache
def other(number):
    return number + 1


cfg = first_config()
cfg.train.global_batch_size = size()
cfg.train.train_iters = other(3)
finetune(cfg, forward_step)
""",
    "a walrus": """
cfg = first_config()
if (size := args.size * 2) > 4:
    cfg.train.global_batch_size = size
values = [last := item for item in SIZES]
cfg.train.train_iters = last
while (n := cfg.train.train_iters) < 20:
    cfg.train.train_iters = n + 5
finetune(cfg, forward_step)
""",
    "a match over a text": """
cfg = first_config()
match args.name:
    case "small":
        cfg.train.global_batch_size = 1
    case "large" | "huge":
        cfg.train.global_batch_size = 2
    case _:
        cfg.train.global_batch_size = 3
finetune(cfg, forward_step)
""",
    "a match over shapes": """
cfg = first_config()
match [1, 2, 3]:
    case [one, *rest] if len(rest) == 2:
        cfg.train.micro_batch_size = one
        cfg.train.global_batch_size = rest[-1]
    case []:
        cfg.train.micro_batch_size = 9
match {"kind": "lora", "dim": 8}:
    case {"kind": "lora", "dim": dim}:
        cfg.peft = LoRA(dim=dim)
    case {"kind": kind}:
        cfg.peft = None
finetune(cfg, forward_step)
""",
    "comprehensions": """
table = {name: size * 2 for name, size in TABLE.items() if size > 1}
flat = [a * b for a in SIZES for b in (1, 2) if a != b]
cfg = first_config()
cfg.train.global_batch_size = table["large"]
cfg.train.train_iters = flat[0]
cfg.train.micro_batch_size = len({size % 4 for size in SIZES})
cfg.model.seq_length = sum(size for size in SIZES)
finetune(cfg, forward_step)
""",
    "generators": """
def sizes():
    yield 1
    yield 2


cfg = first_config()
for size in sizes():
    cfg.train.global_batch_size = size
cfg.train.micro_batch_size = next(iter(SIZES))
finetune(cfg, forward_step)
""",
    "starred arguments": """
def put_all(cfg, *sizes, last=0, **names):
    cfg.train.micro_batch_size, *rest = sizes
    cfg.train.global_batch_size = rest[-1] + last
    for name, value in names.items():
        setattr(cfg.optimizer, name, value)
    return cfg


options = {"lr": 0.5, "last": 3}
cfg = put_all(first_config(), *SIZES, **options, min_lr=0.25)
finetune(cfg, forward_step)
""",
    "nested functions and nonlocal": """
def outer():
    cfg = first_config()
    count = 0

    def step(size):
        nonlocal count
        count += size
        cfg.train.global_batch_size = count

    step(2)
    step(4)
    return cfg


finetune(outer(), forward_step)
""",
    "globals": """
COUNT = 1
cfg = None


def build():
    global cfg, COUNT
    COUNT = 7
    cfg = first_config()
    cfg.train.global_batch_size = COUNT


build()
cfg.train.micro_batch_size = COUNT
finetune(cfg, forward_step)
""",
    "lambdas in a table": """
setters = {
    "small": lambda cfg: setattr(cfg.train, "global_batch_size", 1),
    "large": lambda cfg: setattr(cfg.train, "global_batch_size", 2),
}
cfg = first_config()
setters["large"](cfg)
(lambda section: setattr(section, "seq_length", 5))(cfg.model)
finetune(cfg, forward_step)
""",
    "functions in a table": """
def small(cfg):
    cfg.train.global_batch_size = 1
    return cfg


def large(cfg):
    cfg.train.global_batch_size = 2
    return cfg


RECIPES = {"small": small, "large": large}
cfg = RECIPES[args.name](first_config())
finetune(cfg, forward_step)
""",
    "recipes in a table": """
BASES = {"small": first_config, "large": second_config}
cfg = BASES[args.name]()
cfg.train.global_batch_size = 4
finetune(cfg, forward_step)
""",
    "try, except, else, finally": """
cfg = first_config()
try:
    cfg.train.micro_batch_size = int("2")
except ValueError:
    cfg.train.micro_batch_size = 9
else:
    cfg.train.global_batch_size = 4
finally:
    cfg.train.train_iters = 5
try:
    raise KeyError("x")
except KeyError:
    cfg.model.seq_length = 6
finetune(cfg, forward_step)
""",
    "an exception out of a function": """
def check(size):
    if size > 2:
        raise ValueError(size)
    return size


cfg = first_config()
try:
    cfg.train.micro_batch_size = check(1)
    cfg.train.global_batch_size = check(5)
    cfg.train.train_iters = 1
except ValueError:
    cfg.train.global_batch_size = 8
finetune(cfg, forward_step)
""",
    "a context manager": """
import contextlib


@contextlib.contextmanager
def changed(cfg):
    cfg.train.micro_batch_size = 1
    yield cfg.train
    cfg.train.global_batch_size = 2


cfg = first_config()
with changed(cfg) as train:
    train.train_iters = 3
finetune(cfg, forward_step)
""",
    "with suppress": """
import contextlib

cfg = first_config()
with contextlib.suppress(ZeroDivisionError):
    cfg.train.micro_batch_size = 1
    cfg.train.global_batch_size = 4 // 0
    cfg.train.train_iters = 9
finetune(cfg, forward_step)
""",
    "else of loops": """
cfg = first_config()
for size in SIZES:
    if size == 4:
        cfg.train.micro_batch_size = size
        break
else:
    cfg.train.micro_batch_size = 9
for size in SIZES:
    pass
else:
    cfg.train.global_batch_size = size
finetune(cfg, forward_step)
""",
    "zip, enumerate, reversed, sorted": """
cfg = first_config()
for index, (name, size) in enumerate(zip(("micro_batch_size", "global_batch_size"), SIZES)):
    setattr(cfg.train, name, size + index)
cfg.model.seq_length = sorted(SIZES, reverse=True)[0]
cfg.dataset.seq_length = list(reversed(SIZES))[0]
cfg.train.train_iters = min(SIZES) if any(SIZES) else 0
finetune(cfg, forward_step)
""",
    "setattr along a dotted path": """
def assign(cfg, path, value):
    *owners, last = path.split(".")
    for owner in owners:
        cfg = getattr(cfg, owner)
    setattr(cfg, last, value)


cfg = first_config()
for path, value in {"train.micro_batch_size": 1, "dataset.offline_packing_specs.pad_seq_to_mult": 8}.items():
    assign(cfg, path, value)
finetune(cfg, forward_step)
""",
    "vars and dict of an object": """
cfg = first_config()
vars(cfg.train)["micro_batch_size"] = 3
cfg.train.__dict__.update(global_batch_size=6)
cfg.model.__setattr__("seq_length", 9)
finetune(cfg, forward_step)
""",
    "exec and eval": """
cfg = first_config()
cfg.train.micro_batch_size = 1
exec("cfg.train.micro_batch_size = 2")
cfg.train.global_batch_size = eval("2 + 2")
finetune(cfg, forward_step)
""",
    "two names for one section": """
cfg = first_config()
other = second_config()
other.model = cfg.model
other.model.seq_length = 3
sections = [cfg.train, cfg.model]
sections[0].micro_batch_size = 1
cfg.model.context_parallel_size = other.model.seq_length
finetune(cfg, forward_step)
""",
    "copies": """
import copy

cfg = first_config()
shallow, deep = copy.copy(cfg), copy.deepcopy(cfg)
shallow.train.micro_batch_size = 1
deep.train.global_batch_size = 2
shallow.model = deep.model
finetune(cfg, forward_step)
""",
    "conditional expressions and chains": """
cfg = first_config()
n = args.size
cfg.train.micro_batch_size = 1 if 1 < n <= 4 else 2 if n == 8 else 3
cfg.train.global_batch_size = (n and 4) or 8
cfg.model.sequence_parallel = not not n
cfg.train.train_iters = n if n is not None else 0
finetune(cfg, forward_step)
""",
    "texts": """
cfg = first_config()
name = "-".join(["run", str(args.size), f"{SEQ:>6}".strip(), "%d" % 3, "{}".format("x")])
cfg.checkpoint.save = os.path.join("/out", name.replace("run", "job"))
cfg.checkpoint.load = f"{args.name!r}-{SEQ // 2:04d}"
finetune(cfg, forward_step)
""",
    "a main that returns a code": """
import sys


def main(argv=None) -> int:
    cfg = first_config()
    cfg.train.global_batch_size = 4
    if argv:
        return 2
    finetune(cfg, forward_step)
    return 0


if __name__ == "__main__":
    sys.exit(main())
""",
    "a main under a decorator from elsewhere": """
from elsewhere import mystery


def record(function):
    return function


@record
def main():
    cfg = first_config()
    cfg.train.global_batch_size = 4
    finetune(cfg, forward_step)


main()
""",
    "a configuration from elsewhere": """
from elsewhere import build

cfg = build(args.size)
cfg.train.global_batch_size = 4
cfg.model.context_parallel_size = 2
finetune(cfg, forward_step)
""",
    "a configuration from elsewhere, changed there": """
from elsewhere import build, mystery

cfg = build(args.size)
cfg.train.micro_batch_size = 4
cfg.dataset.seq_length = 5
mystery(cfg)
cfg.model.context_parallel_size = 2
finetune(cfg, forward_step)
""",
    "one of two configurations from elsewhere": """
from elsewhere import build

cfg = build(1) if args.flag else first_config()
cfg.train.micro_batch_size = 4
finetune(cfg, forward_step)
""",
    "recursion": """
def depth(number):
    return 1 if number <= 0 else 1 + depth(number - 1)


cfg = first_config()
cfg.train.global_batch_size = depth(3)
finetune(cfg, forward_step)
""",
    "mutable defaults": """
def collect(item, held=[]):
    held.append(item)
    return len(held)


cfg = first_config()
collect(1)
cfg.train.global_batch_size = collect(2)
finetune(cfg, forward_step)
""",
    "names that are taken back": """
cfg = first_config()
max = min
cfg.train.global_batch_size = max(3, 5)
len = lambda items: 7
cfg.train.train_iters = len(SIZES)
del cfg.checkpoint.load
finetune(cfg, forward_step)
""",
    "a configuration of the module, written by a function that calls itself": """
cfg = first_config()


def down(level, most):
    global seen
    seen = level
    if level < most:
        down(level + 1, most)
    cfg.model.seq_length = level if most > 30 else most


seen = 0
down(0, args.size)
cfg.train.train_iters = seen
down(0, 2)
cfg.train.micro_batch_size = seen
finetune(cfg, forward_step)
""",
    "a configuration that a function with arguments makes, in a loop that ends early": """
def job(size, *, long=False):
    cfg = first_config()
    cfg.train.global_batch_size = size
    if long:
        cfg.model.seq_length = size * 1024
    return cfg


for n in range(args.size):
    cfg = job(n, long=n > 2)
    cfg.train.train_iters = 5
    if n == 3:
        break
finetune(cfg, forward_step)
""",
    "jobs of a table, the last of them started": """
jobs = {}
k = 0
while k < args.size:
    jobs[k] = made(k)
    other = jobs[k]
    k += 1
other.train.train_iters = 11
cfg = jobs[1]
finetune(cfg, forward_step)
""",
}
