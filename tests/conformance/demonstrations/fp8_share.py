"""An FP8 layer refuses a share of a row that is no whole number of blocks."""

RULES = ("ALN116",)
RELEASES = ("0.3", "0.4", "0.5", "0.6", "0.7")
EXPECTED = ("ValueError", "AssertionError")


def trial(good: bool) -> str | None:
    import math

    import torch
    import upstream

    text = (upstream.ENGINE / "transformer_engine" / "pytorch" / "utils.py").read_text()
    start = text.index("def assert_dim_for_fp8_exec")
    body = text[start : text.index("\n\n\n", start)]
    space = {"torch": torch, "math": math, "List": list}
    exec(compile(body, "assert_dim_for_fp8_exec", "exec"), space)
    space["assert_dim_for_fp8_exec"](torch.zeros(4096 if good else 4100, 1, 4096))
    return None
