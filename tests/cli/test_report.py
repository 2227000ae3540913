"""`mbpack report`: what an issue needs, and nothing that names a person, a place or a secret."""

from __future__ import annotations

import platform
import re
import socket
from getpass import getuser
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mbpack import __version__
from mbpack.config.document import parse
from mbpack.report.issue import installed, public
from mbpack.report.redact import Redactor, redacted
from tests.cli.conftest import BROKEN, Call

ROOT = Path(__file__).parents[2]
READY = sorted((ROOT / "recipes").glob("*.yaml"))
#: Texts that must never come out, wherever they stand.
SECRETS = (
    "hf_kZxQwErTyUiOpAsDfGhJkLzXcVbNm",
    "alice",
    "/lustre/fsw/coreai/users/alice/ckpt",
    "gpu-node-17.corp.example.com",
    "10.0.17.23",
    "s3://bucket-of-alice/data",
    "sk-ant-0123456789abcdef",
    "C:\\Users\\alice",
    "~/alice.json",
    "hunter2",
    "480012345678901234",
    "ALICE_TOKEN",
)


def blocks(out: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", out, re.MULTILINE | re.DOTALL)


def test_versions_alone(mbpack: Call) -> None:
    code, out, err = mbpack("report")
    assert (code, err) == (0, "")
    (shown,) = blocks(out + "\n", "text")
    assert f"mbpack            {__version__}\n" in shown
    assert f"Python            {platform.python_version()}" in shown
    assert platform.system() in shown
    assert "PyYAML 6" in shown
    assert socket.gethostname() not in out
    assert getuser() not in out.replace("root", "") or getuser() == "root"
    assert str(ROOT) not in out
    assert str(Path.home()) + "/" not in out


def test_the_megatron_bridge_beside_is_named_without_its_path(mbpack: Call, folder: Path) -> None:
    packages = folder / ".venv" / "lib" / "python3.12" / "site-packages"
    for name in ("megatron_bridge-0.5.1", "megatron_core-0.16.1+alice.build7", "transformer_engine-2.9.0", "alices_tool-1.0"):
        (packages / f"{name}.dist-info").mkdir(parents=True)
    out = mbpack("report").out
    assert "Megatron-Bridge   0.5.1 (an installed package)" in out
    assert "megatron-bridge 0.5.1, megatron-core 0.16.1 (and a local part), transformer-engine 2.9.0" in out
    assert "alice" not in out
    assert str(folder) not in out


def test_a_configuration_with_its_findings(mbpack: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text(BROKEN + "logger: {wandb_project: moonshot}\n# moonshot\n")
    code, out, _ = mbpack("report", "a.yaml", "model.num_layers=4", "dataset.dataset_root=/home/alice")
    assert code == 0
    assert "Configuration 1: Megatron-Bridge 0.6, recipe llama3_8b_sft_config, GPUs 16, launcher script" in out
    file, arguments = (yaml.safe_load(block) for block in blocks(out, "yaml"))
    written = yaml.safe_load(BROKEN)
    assert {section: file[section] for section in written} == written
    assert file["logger"] == {"wandb_project": "<text 1>"}
    assert arguments == {"model": {"num_layers": 4}, "dataset": {"dataset_root": "<path 1>"}}
    assert "BAT101 error rejected train.micro_batch_size line 9" in out
    assert out.count(", refused first\n") == 1
    assert "ALN101 error silent dataset.offline_packing_specs.pad_seq_to_mult line 15" in out
    assert "moonshot" not in out


@pytest.mark.parametrize("path", READY, ids=lambda path: path.name)
def test_ready_overrides_keep_every_key_and_number(mbpack: Call, path: Path) -> None:
    (shown,) = blocks(mbpack("report", str(path)).out, "yaml")
    written, kept = yaml.safe_load(path.read_text(encoding="utf-8")), yaml.safe_load(shown)

    def same(before: Any, after: Any) -> None:
        if isinstance(before, dict):
            assert before.keys() == after.keys()
            for name in before:
                same(before[name], after[name])
        elif not isinstance(before, str):
            assert before == after

    same(written, kept)
    assert kept["train"] == written["train"]


def test_scripts_and_programs(mbpack: Call, folder: Path) -> None:
    (folder / "run.sh").write_text(
        "export WANDB_API_KEY=hunter2\nsrun --account=alice torchrun --nproc_per_node=8 scripts/training/run_recipe.py "
        "--recipe llama3_8b_sft_config --dataset squad dataset.dataset_root=/lustre/alice train.micro_batch_size=2\n"
    )
    (folder / "train.py").write_text(
        "from megatron.bridge.recipes.llama import llama3_8b_sft_config\n"
        "from megatron.bridge.training.finetune import finetune\n"
        "from megatron.bridge.training.gpt_step import forward_step\n"
        "cfg = llama3_8b_sft_config()\ncfg.train.micro_batch_size = 2\ncfg.logger.wandb_project = 'hunter2'\n"
        "finetune(cfg, forward_step)\n"
    )
    code, out, err = mbpack("report", "run.sh", "train.py")
    assert (code, err) == (0, "")
    assert out.count("micro_batch_size: 2") == 2
    assert "Configuration 2: " in out
    assert not any(secret in out for secret in ("alice", "hunter2", "run.sh", "train.py"))


# ---------------------------------------------------------------------- nothing leaks


def hostile(secret: str) -> dict[str, Any]:
    """A secret in every kind of place that a configuration has."""
    return {
        "model": {
            "seq_length": 8192,
            "attention_backend": secret,
            secret: 1,
            f"seq_length_{secret}": 2,
            "init_method": {"_target_": f"megatron.{secret}", "_args_": [secret, [secret, {"a": secret}]]},
            "fp8": f"${{oc.env:{secret},{secret}}}",
            "bf16": f"${{model.{secret}}}",
            "id2label": {secret: secret, 7: secret},
        },
        "train": {"micro_batch_size": f"2 {secret}", "global_batch_size": f"8{secret}"},
        "tokenizer": {"tokenizer_model": secret, "hf_tokenizer_kwargs": {"token": secret, "use_auth_token": secret}},
        "logger": {"wandb_project": secret, "wandb_entity": secret, "api_key": 123456},
        secret: {"owner": secret},
    }


@pytest.mark.parametrize("secret", SECRETS)
def test_no_secret_comes_out_of_any_place(mbpack: Call, folder: Path, secret: str) -> None:
    name = "k" + re.sub(r"\W", "_", secret)
    text = f"# mbpack: bridge=0.6 recipe=llama3_8b_sft_config gpus=8 ignore[ALN101] {secret}\n# {secret}\n"
    text += yaml.safe_dump(hostile(secret)) + f"env_vars: {{{name}: '{secret}'}} # {secret}\n"
    (folder / f"{name}.yaml").write_text(text)
    (folder / "broken.yaml").write_text(f"model: {{a: [{secret}\n")
    code, out, err = mbpack("report", f"{name}.yaml", f"logger.wandb_project={secret}", f"+{name}={secret}", "--gpus", "8")
    out += mbpack("report", "broken.yaml").out
    assert (code, err) == (0, "")
    assert secret not in out
    assert secret.strip("/~\\").lower() not in out.lower()
    assert "123456" not in out
    assert "seq_length: 8192" in out


def test_a_recipe_of_ones_own_is_not_named(mbpack: Call, folder: Path) -> None:
    (folder / "a.yaml").write_text("# mbpack: bridge=0.6 recipe=alice_secret_70b_config gpus=8\ntrain: {micro_batch_size: 1}\n")
    out = mbpack("report", "a.yaml").out
    assert "recipe <recipe 1>" in out or "recipe not named" in out
    assert "alice" not in out


word = st.text(st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029\ufeff"), min_size=4, max_size=30)


@settings(max_examples=150, deadline=None)
@given(st.recursive(word | st.integers(), lambda inner: st.dictionaries(word, inner, max_size=4) | st.lists(inner, max_size=3)))
def test_no_text_of_a_user_comes_out(value: Any) -> None:
    document = parse(yaml.safe_dump({"model": {"some": value}}, allow_unicode=True).encode())
    out = "\n".join(redacted(document, Redactor()))
    out = re.sub(r"<[a-z]+ \d+>|\d+", "", out)
    shown = set(re.findall(r"[^\s:\"'{}\[\]-]+", out)) - {"model", "#", "cannot", "be", "read", "as", "a", "mapping"}
    from mbpack.facts.public_words import is_public, is_public_key

    assert all(
        is_public(one) or is_public_key(one) or one in ("null", "true", "false", "None", "True", "False", "more") for one in shown
    ), out


def test_what_is_equal_stays_equal_and_what_is_public_stays() -> None:
    redactor = Redactor()
    assert redactor.value("/a/b") == redactor.value("/a/b") == "<path 1>"
    assert redactor.value("/a/c") == "<path 2>"
    for text in (
        "flash",
        "selective",
        "transformer_engine",
        "bf16_mixed",
        "megatron.bridge.training.config.TrainingConfig",
        "batch",
    ):
        assert redactor.value(text) == text
    assert redactor.value("8192") == '"8192"'
    assert redactor.value(1e-5) == "1e-05"
    assert redactor.value(10**12) == "1000000000000"
    assert redactor.value(480012345678901234).startswith("<number")
    assert redactor.key("micro_batch_sise") == "micro_batch_sise"
    assert redactor.key("seq_length_alice").startswith("<key")


@pytest.mark.parametrize(
    ("version", "shown"),
    [("2.5.0", "2.5.0"), ("2.5.0+alice.host", "2.5.0 (and a local part)"), ("0.7.0rc1", "0.7.0rc1"), ("", "unknown")],
)
def test_versions_lose_their_local_part(version: str, shown: str) -> None:
    assert public(version) == shown


def test_folders_that_cannot_be_read_hold_nothing() -> None:
    assert installed(["/no/such/folder"]) == {}


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["missing.yaml"], "missing.yaml"),
        (["--bridge", "9.9"], "9.9"),
        (["--gpus", "0"], "gpus"),
        (["--launcher", "x"], "launcher"),
    ],
)
def test_what_cannot_be_reported_is_one_line(mbpack: Call, argv: list[str], said: str) -> None:
    code, out, err = mbpack("report", *argv)
    assert (code, out) == (2, "")
    assert err.startswith("mbpack report: ")
    assert said in err
    assert len(err.splitlines()) == 1


def test_the_issue_forms_ask_for_it() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    texts = {form.name: yaml.safe_load(form.read_text(encoding="utf-8")) for form in forms}
    assert {"wrong-verdict.yml", "defect.yml", "wish.yml", "config.yml"} == texts.keys()
    for name in ("wrong-verdict.yml", "defect.yml"):
        fields = {field.get("id"): field for field in texts[name]["body"]}
        assert "mbpack report" in fields["report"]["attributes"]["description"]
        assert fields["report"]["validations"] == {"required": True}
    assert "mbpack report" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
