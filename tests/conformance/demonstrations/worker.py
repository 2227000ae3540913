"""Runs demonstrations inside one release's environment: `worker.py release|engine RELEASE TE_VERSION TE_FOLDER NAME...`, a JSON line each.

`engine` loads Transformer Engine's own Python, which cannot live in one process with the stand-ins for it.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import os
import sys
import traceback
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "real"), str(HERE.parent / "engine")]


def attempt(module: object, good: bool) -> dict[str, object]:
    """One setting: the damage, None where there is none, or the traceback of what should not have happened."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            damage = module.trial(good)  # type: ignore[attr-defined]
    except BaseException as error:
        if type(error).__name__ in getattr(module, "EXPECTED", ()):
            return {"damage": f"{type(error).__name__}: {str(error).splitlines()[0][:160] if str(error) else ''}"}
        return {"failed": traceback.format_exc()[-1500:]}
    return {"damage": damage}


def main() -> None:
    kind, release, version, folder, *names = sys.argv[1:]
    os.environ.update(CUDA_VISIBLE_DEVICES="", TORCHDYNAMO_DISABLE="1", HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    out = sys.stdout
    import upstream

    upstream.prepare(release, version, Path(folder), kind == "engine")
    for name in names:
        try:
            module = importlib.import_module(name)
        except BaseException:
            failed = {"failed": traceback.format_exc()[-1500:]}
            print(json.dumps({"name": name, "bad": failed, "good": failed}), file=out, flush=True)
            continue
        print(json.dumps({"name": name, "bad": attempt(module, False), "good": attempt(module, True)}), file=out, flush=True)


if __name__ == "__main__":
    main()
