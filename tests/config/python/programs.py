"""Random programs over the idioms that people configure with."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

HEAD = """\
import argparse
import copy
import os
from elsewhere import build, mystery
from megatron.bridge.data.packing.config import PackedSequenceSpecs
from megatron.bridge.peft.lora import LoRA
from megatron.bridge.recipes.some import first_config, second_config
from megatron.bridge.training.finetune import finetune
from megatron.bridge.training.gpt_step import forward_step

SEQ = 4096
SIZES = [2, 4, 8]
TABLE = {"small": 1, "large": 16}
parser = argparse.ArgumentParser()
parser.add_argument("--size", type=int, default=4)
parser.add_argument("--flag", action="store_true")
parser.add_argument("--name", default="small")
args = parser.parse_args()


def put(config, value=3, *, name="x"):
    config.train.train_iters = value
    if value > 5:
        return config
    config.checkpoint.save = f"runs/{name}-{value}"
    return config


def section(model, size):
    model.seq_length = size
    return size * 2


def made(size, first=True):
    config = first_config() if first else second_config()
    config.model.seq_length = size
    config.train.micro_batch_size = size * 2
    return config


def early(config, flag):
    if flag:
        return 8
    config.model.sequence_parallel = True
    return 16


"""
FIELDS = (
    *("model.seq_length", "model.context_parallel_size", "model.tensor_model_parallel_size", "model.sequence_parallel"),
    *("train.micro_batch_size", "train.global_batch_size", "train.train_iters", "dataset.seq_length", "optimizer.lr"),
    *("optimizer.min_lr", "checkpoint.save", "checkpoint.load", "dataset.offline_packing_specs.pad_seq_to_mult"),
    *("dataset.offline_packing_specs.packed_sequence_size", "peft.dim"),
)
FLAT = [field for field in FIELDS if field.count(".") == 1]

numbers = st.integers(0, 9)
literals = st.one_of(numbers.map(str), st.sampled_from(["True", "False", "None", "0.5", "'text'", "1e-5", "-3", "[1, 2]"]))
outside = st.sampled_from(
    ["args.size", "args.flag", "args.name", "int(os.environ.get('MBPACK_SIZE', '6'))", "os.getenv('MBPACK_NAME')"]
)
conditions = st.one_of(
    outside,
    st.sampled_from(["args.size > 4", "args.name == 'large'", "not args.flag", "n", "n > 2", "cfg.model.seq_length > 2000"]),
    st.sampled_from(["cfg.train.train_iters == 3", "n and args.flag", "n or args.flag", "cfg.checkpoint.load is None"]),
    st.sampled_from(["hasattr(cfg, 'peft')", "isinstance(n, int)", "len(items) > 2", "m is not None", "args.size in SIZES"]),
)


@st.composite
def values(draw: st.DrawFn) -> str:
    """An expression."""
    kind = draw(st.integers(0, 9))
    if kind < 4:
        return draw(literals)
    if kind == 4:
        return draw(outside)
    if kind == 5:
        return draw(st.sampled_from(["n", "SEQ", "SEQ // 2", "n + 1", "n * 2 - 1", "max(n, 3)", "SIZES[1]", "TABLE['large']"]))
    if kind == 6:
        return f"cfg.{draw(st.sampled_from(FIELDS))}"
    if kind == 7:
        return draw(
            st.sampled_from(["items[-1]", "len(items)", "sum(items)", "kw['lr']", "kw.get('lr', 3)", "TABLE.get(args.name)"])
        )
    if kind == 8:
        return f"{draw(literals)} if {draw(conditions)} else {draw(literals)}"
    return draw(
        st.sampled_from(["f'run-{n}'", "n or 5", "early(cfg, n)", "[i * 2 for i in SIZES]", "section(m, n)", "tuple(SIZES)"])
    )


def _simple(draw: st.DrawFn) -> str:
    value = draw(values())
    kind = draw(st.integers(0, 17))
    field = draw(st.sampled_from(FIELDS))
    flat = draw(st.sampled_from(FLAT))
    name = flat.partition(".")[2]
    made = f"PackedSequenceSpecs(packed_sequence_size={value}, pad_seq_to_mult=2)"
    forms: list[Callable[[], str]] = [
        lambda: f"cfg.{field} = {value}",
        lambda: f"cfg.{field} = {value}",
        lambda: f"cfg.{flat} = {value}",
        lambda: f"n = {draw(numbers)}",
        lambda: f"m.{draw(st.sampled_from(['seq_length', 'context_parallel_size']))} = {value}",
        lambda: f"setattr(cfg.{flat.partition('.')[0]}, '{name}', {value})",
        lambda: "n += 1",
        lambda: "cfg.train.train_iters += 1",
        lambda: f"cfg.dataset.offline_packing_specs = {made}",
        lambda: "cfg.peft = LoRA(dim=n)",
        lambda: draw(st.sampled_from(["cfg = put(cfg)", "put(cfg, n)", "put(cfg, value=7)", "put(config=cfg, name='y')"])),
        lambda: draw(st.sampled_from(["m = cfg.model", "m = other.model", "cfg.model = m", "cfg.dataset = other.dataset"])),
        lambda: draw(
            st.sampled_from(["mystery(cfg)", "mystery(m)", "cfg = mystery(cfg)", "mystery(items)", "mystery(kw)", "print(cfg)"])
        ),
        lambda: draw(
            st.sampled_from(
                ["cfg = build(n)", "cfg = made(n)", "other = made(n, first=False)", "cfg = made(args.size, n)", "other = build()"]
            )
        ),
        lambda: draw(
            st.sampled_from([f"kw['lr'] = {value}", f"kw.update(lr={value})", f"items.append({value})", "items = list(SIZES)"])
        ),
        lambda: draw(
            st.sampled_from(["cfg = copy.deepcopy(cfg)", "cfg = second_config()", "other = cfg", "other = first_config()"])
        ),
        lambda: draw(
            st.sampled_from(
                ["cfg.peft = LoRA(**kw2)", "cfg.train.micro_batch_size, n = 1, 2", "a, b = n, 3; n = b", "cfg.validate()"]
            )
        ),
        lambda: draw(st.sampled_from(["finetune(cfg, forward_step)", "n = section(m, n)", "kw2 = dict(dim=n)", "del items[0]"])),
    ]
    return forms[kind]()


@st.composite
def blocks(draw: st.DrawFn, depth: int = 0, inside: bool = False) -> list[str]:
    """Lines of statements."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 6 if depth == 0 else 3))):
        kind = draw(st.integers(0, 9)) if depth < 3 else 0
        if kind < 5:
            lines.append(_simple(draw))
        elif kind < 7:
            lines.append(f"if {draw(conditions)}:")
            lines += _indented(draw(blocks(depth + 1, inside)))
            if draw(st.booleans()):
                lines.append(draw(st.sampled_from(["else:", f"elif {draw(conditions)}:"])))
                lines += _indented(draw(blocks(depth + 1, inside)))
        elif kind == 7:
            loop = [
                "for n in SIZES:",
                "for i in range(3):",
                "for n in range(args.size):",
                "for n in items:",
                "for key, n in TABLE.items():",
            ]
            lines.append(draw(st.sampled_from(loop)))
            lines += _indented(draw(blocks(depth + 1, True)))
            if draw(st.booleans()):
                lines += _indented([f"if {draw(conditions)}:", f"    {draw(st.sampled_from(['break', 'continue']))}"])
                lines += _indented([_simple(draw)])
        elif kind == 8:
            lines.append("try:")
            lines += _indented(draw(blocks(depth + 1, inside)))
            lines.append(draw(st.sampled_from(["except Exception:", "except (TypeError, ValueError) as error:"])))
            lines += _indented(draw(blocks(depth + 1, inside)))
        else:
            lines += ["k = 0", f"while k < {draw(st.sampled_from(['2', 'n', 'args.size']))} and k < 9:"]
            lines += _indented([*draw(blocks(depth + 1, True)), "k += 1"])
    return lines


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program that hands a configuration over at its end."""
    start = ["cfg = first_config()", "other = second_config()", "m = cfg.model", "n = 3", "items = [1, 2]", "kw = {'lr': 0.5}"]
    start.append("kw2 = {'dim': 4}")
    body = [*start, *draw(blocks()), "finetune(cfg, forward_step)"]
    if draw(st.booleans()):
        return HEAD + "\n".join(body) + "\n"
    return HEAD + "\n".join(["def main():", *_indented(body), "", "", "if __name__ == '__main__':", "    main()"]) + "\n"
