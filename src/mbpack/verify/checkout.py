"""A Megatron-Bridge checkout: whether a directory is one, and which release it holds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from mbpack.facts.releases import NIGHTLY, RELEASES, Release, UnknownReleaseError, parse_version

PACKAGE = "src/megatron/bridge"
INFO = f"{PACKAGE}/package_info.py"
TESTS = "tests"
_CLONE = "git clone https://github.com/NVIDIA-NeMo/Megatron-Bridge"


class CheckoutError(ValueError):
    """A directory that cannot be used as a checkout; the message is one line: what is wrong and how to mend it."""


class Checkout(Struct, frozen=True):
    """A checkout: its root, the version it states (None where it states none), where, and what that means to mbpack."""

    root: Path
    version: str | None
    source: str
    release: Release
    note: str = ""


def is_checkout(directory: Path) -> bool:
    """Whether a directory looks like a checkout with its tests."""
    return (directory / PACKAGE).is_dir() and (directory / TESTS).is_dir()


def around(directory: Path) -> Path | None:
    """The checkout a directory lies in: itself or the nearest above, up to the root of its repository."""
    for folder in (directory, *directory.parents):
        if is_checkout(folder):
            return folder
        if (folder / ".git").exists():
            return None
    return None


def open_checkout(directory: str, bridge: str | None = None) -> Checkout:
    """Look at a directory that is meant to be a checkout; ``bridge`` is the release to take instead of its own.

    Raises:
        CheckoutError: it is none, or its release is neither stated there nor given.
    """
    root = Path(directory)
    if not root.is_dir():
        raise CheckoutError(f"{directory}: no such directory" if not root.exists() else f"{directory}: not a directory")
    if not (root / PACKAGE).is_dir():
        raise CheckoutError(_no_checkout(root, directory))
    if not (root / TESTS).is_dir():
        raise CheckoutError(f"{directory}: has {PACKAGE} but no {TESTS} directory; a full checkout has one ({_CLONE})")
    version, source = stated_version(root)
    if bridge is not None:
        release = parse_version(bridge).release
        own = _release(version)[0] if version is not None else None
        differs = own is not None and own is not release and release is not NIGHTLY
        note = f"the checkout itself says {version} ({source}); --bridge {bridge} was asked for" if differs else ""
        return Checkout(root, version, source, release, note)
    if version is None:
        raise CheckoutError(f"{directory}: its release cannot be read from {INFO}; name it with --bridge")
    return Checkout(root, version, source, *_release(version))


def _no_checkout(root: Path, directory: str) -> str:
    if (root / "megatron" / "bridge").is_dir() or (root / "bridge" / "package_info.py").is_file():
        return f"{directory}: an installed package, which ships no tests; a checkout does ({_CLONE})"
    above = around(root.resolve())
    if above is not None:
        return f"{directory}: inside a Megatron-Bridge checkout, not its root; use --repo {above}"
    return f"{directory}: not a Megatron-Bridge checkout ({PACKAGE} is missing); get one with {_CLONE}"


def _release(version: str) -> tuple[Release, str]:
    """What mbpack knows a stated version as; one that is newer than all it knows counts as nightly.

    Raises:
        CheckoutError: the version is older than what mbpack knows, or no version.
    """
    try:
        found = parse_version(version).release
    except UnknownReleaseError as error:
        raise CheckoutError(str(error)) from None
    if found is not NIGHTLY:
        return found, ""
    newest = max(release for release in RELEASES if release is not NIGHTLY).name
    return found, f"{version} is newer than {newest}, the newest mbpack knows: the tests of {newest} are looked for"


def stated_version(root: Path) -> tuple[str | None, str]:
    """The version a checkout states, and in which file: the numbers of package_info.py, else a text."""
    for name in (INFO, f"{PACKAGE}/__init__.py"):
        try:
            tree = ast.parse((root / name).read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        version = _version_in(tree.body)
        if version is not None:
            return version, name
    return None, ""


def _version_in(body: Sequence[ast.stmt]) -> str | None:
    values: dict[str, object] = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            values.update({target.id: node.value.value for target in node.targets if isinstance(target, ast.Name)})
    numbers = [values.get(name) for name in ("MAJOR", "MINOR", "PATCH")]
    if all(isinstance(number, int) for number in numbers):
        return ".".join(map(str, numbers)) + str(values.get("PRE_RELEASE") or "")
    text = values.get("__version__", values.get("VERSION"))
    return text.partition("+")[0] if isinstance(text, str) and text[:1].isdigit() else None
