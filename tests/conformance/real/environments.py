"""Where the real packages are, how they get there, and how a worker is started with them.

An environment folder holds one virtual environment (torch for CPU and the libraries that are imported while a
configuration is built) and one folder per release with Megatron-Bridge, Megatron-Core and, where a
release needs them, older libraries. Installed from the package index alone.
"""

from __future__ import annotations

import email.parser
import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
VARIABLE = "MBPACK_REAL_DIR"
DEFAULT_FOLDER = Path.home() / ".cache" / "mbpack" / "real"
Place = tuple[Path, list[Path], str]  # Python, import folders, Transformer Engine version
TORCH = "torch==2.13.*"
CPU_TORCH_INDEX = "https://download.pytorch.org/whl/cpu"
LIBRARIES = (
    "omegaconf>=2.3,<2.4 hydra-core>=1.3,<1.4 antlr4-python3-runtime==4.9.* einops rich regex pyyaml tqdm packaging "
    "typing-extensions six datasets pyarrow sentencepiece tiktoken transformers==5.8.1 peft accelerate tensorboard "
    "megatron-energon multi-storage-client mlflow-skinny triton"  # torch for CPU brings no triton
).split()


@dataclass(frozen=True)
class Release:
    """One release line; `transformer_engine` is the version it was built against (Megatron-Core asks for it)."""

    bridge: str
    core: str
    transformer_engine: str
    libraries: tuple[str, ...] = ()


RELEASES = {
    "0.3": Release("0.3.1", "0.16.1", "2.12.0", ("transformers==4.57.1", "datasets==4.4.2")),
    "0.4": Release("0.4.2", "0.17.1", "2.14.1", ("transformers==5.3.0",)),
    "0.5": Release("0.5.1", "0.18.2", "2.16.0"),
    "0.6": Release("0.6.2", "0.19.2", "2.17.1"),
}


class EnvironmentMissing(Exception):
    """The release is not installed; the message says which command installs it."""


def folder() -> Path:
    return Path(os.environ.get(VARIABLE) or DEFAULT_FOLDER)


def line_of(release: str) -> str:
    """0.6.2 -> 0.6"""
    return ".".join(release.split(".")[:2])


def find(release: str, root: Path | None = None) -> Place:
    """Python, import folders and Transformer Engine version for a release line or patch release.

    Raises EnvironmentMissing when it was not set up.
    """
    root = root or folder()
    python = root / "venv" / "bin" / "python"
    for name in (release, line_of(release)):
        packages = root / name
        if python.exists() and installed(packages, "megatron-bridge") is not None:
            known = RELEASES.get(line_of(release), list(RELEASES.values())[-1])
            older = root / f"tf-{name}"
            return python, [packages, *([older] if older.is_dir() else [])], known.transformer_engine
    raise EnvironmentMissing(
        f"Megatron-Bridge {release} is not in {root}: run `python -m tests.conformance.real setup {root} {release}`, "
        f"and set {VARIABLE} when the folder is not {DEFAULT_FOLDER}"
    )


def available(root: Path | None = None) -> list[str]:
    """Release lines that are set up, oldest first."""
    found = []
    for release in RELEASES:
        try:
            find(release, root)
        except EnvironmentMissing:
            continue
        found.append(release)
    return found


def digest() -> str:
    """A mark of what runs inside the environments: it changes with every change of these tools."""
    parts = (HERE / name for name in ("worker.py", "standins.py", "offline_hub.py", "hub.tsv"))
    return hashlib.sha256(b"\0".join(part.read_bytes() for part in parts)).hexdigest()[:12]


def command(release: str, action: str, gpu: str = "H100", place: Place | None = None) -> tuple[list[str], dict[str, str]]:
    """How to start `worker.py` for a release, or for what stands at a place: argument list and environment."""
    python, packages, engine = place or find(release)
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    env["PYTHONPATH"] = os.pathsep.join(map(str, packages))
    worker = [str(python), str(HERE / "worker.py"), "--release", release, "--transformer-engine", engine]
    return [*worker, "--gpu", gpu, action], env


def installed(packages: Path, name: str) -> str | None:
    """Version of a distribution in a `pip --target` folder."""
    for info in packages.glob(f"{name.replace('-', '_')}-*.dist-info"):
        return info.name.split("-")[1].removesuffix(".dist")
    return None


def setup(root: Path, releases: list[str]) -> None:
    """Create the virtual environment if need be, then one folder per release."""
    python = root / "venv" / "bin" / "python"
    if not python.exists():
        root.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(root / "venv")])
    try:  # the CPU build is a tenth of the size
        _pip(python, ["--index-url", CPU_TORCH_INDEX, "--no-deps", "--retries", "1", TORCH])
    except SystemExit:
        print(f"{CPU_TORCH_INDEX} cannot be reached: torch comes from the package index")
    _pip(python, [TORCH])
    _pip(python, LIBRARIES)
    for release in releases:
        _install(python, root, release)
        print(f"ready: Megatron-Bridge {release} in {root / release}")


def _install(python: Path, root: Path, release: str) -> None:
    known = RELEASES.get(release) or next((r for r in RELEASES.values() if r.bridge == release), None)
    target = root / release
    bare = ["--no-deps", "--ignore-requires-python", "--upgrade", "--target", str(target)]
    if known:
        _pip(python, [*bare, f"megatron-bridge=={known.bridge}", f"megatron-core=={known.core}"])
        if known.libraries:
            _pip(python, ["--upgrade", "--target", str(root / f"tf-{release}"), *known.libraries])
        return
    if not re.fullmatch(r"\d+\.\d+\.\d+\S*", release):
        raise SystemExit(f"unknown release {release}: name one of {', '.join(RELEASES)} or a full version such as 0.7.0")
    # A release that this file does not know: its own metadata says which Megatron-Core and transformers it wants.
    _pip(python, [*bare, f"megatron-bridge=={release}"])
    wanted = requirements(target, release)
    line = RELEASES.get(line_of(release))
    core = f"megatron-core=={line_of(line.core)}.*" if line else wanted.get("megatron-core", "megatron-core")
    _pip(python, [*bare, core])
    _pip(python, ["--upgrade", "--target", str(root / f"tf-{release}"), wanted.get("transformers", "transformers")])


def requirements(target: Path, release: str) -> dict[str, str]:
    """Distribution -> requirement without extras and markers, from the metadata of an installed Megatron-Bridge."""
    text = next(target.glob("megatron_bridge-*.dist-info/METADATA")).read_text()
    found: dict[str, str] = {}
    for line in email.parser.HeaderParser().parsestr(text).get_all("Requires-Dist") or []:
        match = re.match(r"([\w.-]+)(?:\[[^\]]*\])?\s*\(?([^;)]*)", line)
        if match:
            found.setdefault(match.group(1).lower(), match.group(1) + match.group(2).strip())
    return found


def _pip(python: Path, arguments: list[str]) -> None:
    _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments])


def _run(arguments: list[str]) -> None:
    print("+", " ".join(arguments), flush=True)
    try:
        subprocess.run(arguments, check=True)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"failed with exit code {error.returncode}: {' '.join(arguments)}") from None
