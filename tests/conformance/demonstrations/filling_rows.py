"""A filling row behind a shuffled mapping carries loss once more."""

from upstream import packed_dataset, row

RULES = ("LOS102",)
RELEASES = ("0.3", "0.4", "0.5")


def trial(good: bool) -> str | None:
    rows = [row([20, 30]) for _ in range(4)]
    more = {} if good else {"max_num_samples": 10}
    carried = sum(packed_dataset(rows, 64, **more)[-1]["loss_mask"])
    return f"the row that fills the batch carries {carried} tokens of loss" if carried else None
