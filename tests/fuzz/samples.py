"""What is fuzzed: for every input format a way to make one more input, and the commands that read it."""

from __future__ import annotations

import copy
import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.conformance.rows import DATA, read, text_of

from . import mutate, packs, texts

FORMATS = ("text", "text", "text", "text", "json", "sarif", "github", "junit")


@dataclass(frozen=True)
class Sample:
    """Files to write into an empty folder, and command lines to run there; ``stdin`` is what `-` reads.

    ``steady``: the last call must leave every file as it is (a fix that was made needs no second one).
    """

    target: str
    calls: tuple[tuple[str, ...], ...]
    files: dict[str, bytes] = field(default_factory=dict)
    stdin: bytes = b""
    steady: bool = False


def sample(seed: int, number: int, only: str | None = None) -> Sample:
    """Input number so-and-so of a seed: always the same."""
    rng = Random(f"fuzz/{seed}/{number}")
    names = [name for name, weight in WEIGHTS.items() for _ in range(weight)]
    name = only or rng.choice(names)
    return TARGETS[name](rng)


@lru_cache(maxsize=1)
def configurations() -> tuple[tuple[str, ...], tuple[tuple[str, Any], ...]]:
    """Recorded configurations: as texts, and as (directive line, tree)."""
    found: list[str] = []
    for release in ("0.3", "0.4", "0.5", "0.6", "0.7"):
        found += [text_of(row) for row in read(DATA / "verdicts" / f"{release}-reference.jsonl.gz")[::97]]
        path = DATA / "overrides" / f"{release}-reference.jsonl.gz"
        if path.exists():
            found += [text_of(row) for row in read(path)[::7]]
    found += [path.read_text() for path in sorted((DATA / "examples").glob("*.yaml"))]
    trees = []
    for text in found:
        try:
            tree = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (yaml.YAMLError, ValueError):
            continue
        if isinstance(tree, dict):
            trees.append((text.partition("\n")[0], tree))
    return tuple(found), tuple(trees)


@lru_cache(maxsize=1)
def _configuration_bytes() -> tuple[bytes, ...]:
    return tuple(text.encode() for text in configurations()[0])


def configuration(rng: Random) -> bytes:
    """One configuration: damaged bytes, a damaged tree, both, words, or noise."""
    kind = rng.random()
    if kind < 0.3:
        seeds = _configuration_bytes()
        return mutate.bytes_of(rng, rng.choice(seeds), seeds)
    if kind < 0.8:
        directive, tree = rng.choice(configurations()[1])
        changed = _assigned(rng, tree) if rng.random() < 0.4 else mutate.tree_of(rng, tree)
        data = _dumped(rng, directive, changed)
        return mutate.bytes_of(rng, data) if rng.random() < 0.15 else data
    if kind < 0.95:
        return texts.document(rng).encode("utf-8", "surrogatepass")
    return rng.randbytes(rng.randint(0, 400))


def _assigned(rng: Random, tree: Any) -> Any:
    """Real keys set to values of every kind: rules calculate with what stands there."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 2, 4, 8))):
        *owners, name = rng.choice(texts.keys()).split(".")
        place = tree
        for owner in owners:
            place = place.setdefault(owner, {})
            if not isinstance(place, dict):
                break
        else:
            place[name] = copy.deepcopy(rng.choice(mutate.ODD[:19] if rng.random() < 0.6 else mutate.ODD))
    return tree


def _dumped(rng: Random, directive: str, tree: Any) -> bytes:
    if not directive.startswith("#"):
        directive = "# mbpack: bridge=0.6"
    if rng.random() < 0.2:
        directive = mutate.bytes_of(rng, directive.encode()).decode("utf-8", "replace").replace("\n", " ")
    flow = rng.choice((False, False, None, True))
    text = yaml.dump(
        tree, sort_keys=False, default_flow_style=flow, allow_unicode=True, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    )
    return f"{directive}\n{text}".encode("utf-8", "surrogatepass")


def _document(rng: Random) -> Sample:
    data = configuration(rng)
    output_format = rng.choice(FORMATS)
    call = ("doctor", "a.yaml") if output_format == "text" else ("doctor", "a.yaml", "--format", output_format)
    kind = rng.random()
    if kind < 0.04:
        return Sample("document", (("doctor", "a.yaml", "--show-resolved"),), {"a.yaml": data})
    if kind < 0.08:
        return Sample("document", (("doctor", "-"),), stdin=data)
    if kind < 0.14:
        return Sample("document", (("doctor", "--merge", "a.yaml", "b.yaml"),), {"a.yaml": data, "b.yaml": configuration(rng)})
    if kind < 0.18:
        name = mutate.bytes_of(rng, b"conf/run.yaml").decode("utf-8", "surrogateescape").replace("/", "_").replace("\0", "_")
        name = name if name not in ("", ".", "..") and len(name) < 80 and not name.startswith("-") else "x.yaml"
        return Sample("document", (("doctor", f"./{name}"),), {name: data})
    return Sample("document", (call,), {"a.yaml": data})


def _fixed(rng: Random) -> Sample:
    flags = rng.choice((("--fix",), ("--fix", "--unsafe-fixes"), ("--fix", "--unsafe-fixes")))
    call = ("doctor", *flags, "a.yaml")
    return Sample("fixed", (call, call), {"a.yaml": configuration(rng)}, steady=True)


def _migrated(rng: Random) -> Sample:
    call = ("migrate", "a.yaml", "--to", rng.choice(("0.3", "0.4", "0.5", "0.6", "0.7")))
    return Sample("migrated", (call, ("doctor", "a.yaml")), {"a.yaml": configuration(rng)})


def _overrides(rng: Random) -> Sample:
    pairs = texts.pairs(rng)
    recipe = rng.choice(("llama3_8b_sft_config", "qwen3_8b_sft_config", "qwen3_vl_8b_sft_config", "gpt_oss_20b_sft_config", "x"))
    release = rng.choice(("0.3", "0.5", "0.6", "0.6", "0.7"))
    call = ("doctor", "--bridge", release, "--recipe", recipe, "--gpus", "8", "--", *pairs)
    kind = rng.random()
    if kind < 0.1:
        call = ("doctor", "--fix", "--unsafe-fixes", *call[1:])
    elif kind < 0.15:
        return Sample("overrides", (("migrate", "--to", release, "--recipe", recipe, "--", *pairs),))
    elif kind < 0.3:
        data = configuration(rng)
        return Sample("overrides", (("doctor", "--", "a.yaml", *pairs),), {"a.yaml": data})
    return Sample("overrides", (call,))


MODEL: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "intermediate_size": 8192,
    "vocab_size": 32000,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 512,
    "n_shared_experts": 1,
}


def _fitted(rng: Random) -> Sample:
    options = rng.choice(((), ("--no-search",), ("--json",), ("--gpu", "h200"), ("--gpus", "16"), ("--seq-length", "65536")))
    if rng.random() < 0.3:
        data = json.dumps(mutate.tree_of(rng, MODEL), default=str, skipkeys=True).encode("utf-8", "surrogatepass")
        if rng.random() < 0.3:
            data = mutate.bytes_of(rng, data)
        call = ("fit", "llama3_8b_sft_config", "--bridge", "0.6", "--no-search", "--hf-config", "config.json", *options)
        return Sample("fitted", (call,), {"config.json": data})
    recipe = rng.choice(("llama3_8b_sft_config", "qwen3_30b_a3b_sft_config", "deepseek_v3_pretrain_config"))
    call = ("fit", "a.yaml", "--bridge", "0.6", "--recipe", recipe, *options)
    return Sample("fitted", (call,), {"a.yaml": configuration(rng)})


def _script(rng: Random) -> Sample:
    text = texts.script(rng)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.6:
        data = mutate.bytes_of(rng, data, texts.SCRIPTS)
    files = {"run.sh": data, "conf/a.yaml": b"model: {seq_length: 4096}\n"}
    if rng.random() < 0.1:
        return Sample("script", (("migrate", "run.sh", "--to", "0.6"),), files)
    if rng.random() < 0.1:
        return Sample("script", (("doctor", "--fix", "run.sh"),), files)
    return Sample("script", (("doctor", "run.sh"),), files)


def _answers(rng: Random) -> Sample:
    data = texts.answers(rng).encode("utf-8", "surrogatepass")
    if rng.random() < 0.4:
        data = mutate.bytes_of(rng, data)
    flags = rng.choice((("--no-input",), ("--yes",), ("--yes",), ("--yes", "--as", "overrides")))
    return Sample("answers", (("init", "--answers", "a.yaml", "--dry-run", *flags),), {"a.yaml": data})


def _packed(rng: Random) -> Sample:
    files = packs.folder(rng)
    kind = rng.random()
    if kind < 0.5:
        path = rng.choice((*files, "."))
        options = rng.choice(((), ("--cp", "2", "--tp", "2", "--sp"), ("--format", "json"), ("--gbs", "8")))
        return Sample("packed", (("inspect", path, *options),), files)
    files["run.yaml"] = packs.configuration(rng, sorted(files))
    options = rng.choice(((), ("--inspect",)))
    return Sample("packed", (("doctor", "run.yaml", *options),), files)


def _lengths(rng: Random) -> Sample:
    name, data = packs.lengths(rng)
    if rng.random() < 0.1:
        name, data = name + ".gz", _zipped(rng, data)
    kind = rng.random()
    if kind < 0.5:
        return Sample("lengths", (("lengths", name, "--counts", rng.choice(("stored", "runtime"))),), {name: data})
    if kind < 0.85:
        options = rng.choice(((), ("--dp", "2", "--gbs", "16"), ("--mode", "all"), ("--json", "-"), ("--max-single", "100")))
        call = ("plan", name, "--pack", rng.choice(("64", "2048", "512,4096")), *options)
        return Sample("lengths", (call,), {name: data})
    text = b"# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8\nmodel: {seq_length: 4096}\ndataset: {seq_length: 4096}\n"
    return Sample("lengths", (("doctor", "a.yaml", "--lengths", name),), {name: data, "a.yaml": text})


def _zipped(rng: Random, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as stream:
        stream.write(data)
    zipped = buffer.getvalue()
    return mutate.bytes_of(rng, zipped) if rng.random() < 0.5 else zipped


RIGHT = b"# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8\ntrain: {micro_batch_size: 2}\n"


def _baseline(rng: Random) -> Sample:
    tree: Any = {"version": 1, "findings": [f"{rng.getrandbits(64):016x}" for _ in range(rng.randint(0, 5))]}
    data = rng.randbytes(rng.randint(0, 60))
    if rng.random() < 0.9:
        data = json.dumps(mutate.tree_of(rng, tree), default=str, skipkeys=True).encode()
    if rng.random() < 0.5:
        data = mutate.bytes_of(rng, data)
    return Sample("baseline", (("doctor", "a.yaml", "--baseline", "base.json"),), {"a.yaml": RIGHT, "base.json": data})


PROJECT = (
    b'[project]\nname = "x"\n[tool.mbpack]\nbridge = "0.6"\nrecipe = "llama3_8b_sft_config"\ngpus = 16\nlauncher = "script"\n'
    b'select = ["ALN", "batch"]\nignore = ["ALN101"]\n'
)


def _project(rng: Random) -> Sample:
    data = mutate.bytes_of(rng, PROJECT)
    return Sample("project", (("doctor", "a.yaml"),), {"a.yaml": RIGHT, "pyproject.toml": data})


def _topics(rng: Random) -> Sample:
    word = rng.choice(texts.TOPICS)
    if rng.random() < 0.8:
        word = mutate.bytes_of(rng, word.encode(), limit=2000).decode("utf-8", "surrogateescape").replace("\0", "")
    kind = rng.random()
    if kind < 0.6:
        return Sample("topics", (("explain", "--", word),))
    flag = rng.choice(("--select", "--ignore", "--bridge", "--recipe", "--gpus", "--launcher", "--step", "--nodes", "--format"))
    return Sample("topics", (("doctor", f"{flag}={word}", "a.yaml"),), {"a.yaml": RIGHT})


TARGETS: dict[str, Callable[[Random], Sample]] = {
    "document": _document,
    "fixed": _fixed,
    "migrated": _migrated,
    "overrides": _overrides,
    "fitted": _fitted,
    "script": _script,
    "answers": _answers,
    "packed": _packed,
    "lengths": _lengths,
    "baseline": _baseline,
    "project": _project,
    "topics": _topics,
}
#: Out of a hundred inputs; the slow ones are rarer.
WEIGHTS = {
    "document": 34,
    "fixed": 3,
    "migrated": 3,
    "overrides": 14,
    "fitted": 2,
    "script": 14,
    "answers": 4,
    "packed": 8,
    "lengths": 8,
    "baseline": 4,
    "project": 3,
    "topics": 3,
}


def files_below(folder: Path) -> dict[str, bytes]:
    """What is in a folder now."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
