"""The Megatron-Bridge that stands beside the files: a checkout around the directory, or an installed package.

Only names of folders and one small file are read; nothing is imported. Looked for where nobody names a release.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from mbpack.facts.patterns import lazy
from mbpack.facts.releases import Version, version_found

#: Where a checkout, or a folder of packages, states its version.
_INFO = (("src", "megatron", "bridge", "package_info.py"), ("megatron", "bridge", "package_info.py"))
_METADATA = lazy(r"megatron[_-]bridge-(\d[^-]*)\.(?:dist|egg)-info$", re.IGNORECASE)
_NUMBER = lazy(r"^(MAJOR|MINOR|PATCH)\s*=\s*(\d+)\s*$", re.MULTILINE)
_PRE = lazy(r"""^PRE_RELEASE\s*=\s*["']([\w.]*)["']""", re.MULTILINE)
#: Bytes of a package_info.py that are read.
_MOST = 20_000


class Beside(Struct, frozen=True):
    """A Megatron-Bridge, where it was found, in words, and the folder of its packages or its checkout.

    ``tree``: it is a source tree, not an installed release.
    """

    version: Version
    where: str
    folder: str = ""
    tree: bool = False


def find_beside() -> Beside | None:
    """The nearest one: a checkout around the working directory, then the packages of the environment; None without any."""
    try:
        here = os.getcwd()
    except FileNotFoundError:  # somebody removed the directory
        return None
    roots = (os.environ.get("VIRTUAL_ENV", ""), os.environ.get("CONDA_PREFIX", ""))
    return _find(here, tuple(sys.path), roots)


@lru_cache(maxsize=8)
def _find(here: str, path: tuple[str, ...], roots: tuple[str, ...]) -> Beside | None:
    for folder in _around(here):
        for parts in _INFO:
            text = _read(os.path.join(folder, *parts))
            version = version_found(_stated(text)) if text else None
            if version is not None:
                where = f"the checkout {folder}" if parts[0] == "src" else f"the package in {folder}"
                return Beside(version, where, folder, parts[0] == "src" or os.path.basename(folder) == "src")
    for folder in dict.fromkeys((*_site_packages(here, roots), *filter(os.path.isdir, path))):
        version = _installed(folder)
        if version is not None:
            return Beside(version, f"installed in {folder}", folder)
    return None


def _around(here: str) -> Iterator[str]:
    """The directory and those above it, up to the root of its repository."""
    folder, below = here, ""
    while folder != below:
        yield folder
        if os.path.exists(os.path.join(folder, ".git")):
            return
        folder, below = os.path.dirname(folder), folder


def _site_packages(here: str, roots: tuple[str, ...]) -> Iterator[str]:
    """Folders of packages of the active environment, and of a ``.venv`` around the directory."""
    for root in (*(os.path.join(folder, ".venv") for folder in _around(here)), *roots):
        library = os.path.join(root, "lib")
        try:
            names = sorted(os.listdir(library)) if root else []
        except OSError:
            continue
        yield from (os.path.join(library, name, "site-packages") for name in names if name.startswith("python"))


def _installed(folder: str) -> Version | None:
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    for name in names:
        match = _METADATA.match(name)
        if match:
            return version_found(match[1])
    return None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST)
    except OSError:
        return ""


def _stated(text: str) -> str:
    """The version that a package_info.py states: three numbers, and what comes before the release."""
    numbers = dict(_NUMBER.findall(text))
    if not numbers.keys() >= {"MAJOR", "MINOR", "PATCH"}:
        return ""
    pre = _PRE.search(text)
    return f"{numbers['MAJOR']}.{numbers['MINOR']}.{numbers['PATCH']}{pre[1] if pre else ''}"
