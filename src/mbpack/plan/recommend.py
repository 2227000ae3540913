"""Which candidate to take, and why, in one or two lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mbpack.plan.candidates import Candidate

#: Shares of the tokens to keep, percent: the shortest pack that reaches the first reachable of these is recommended.
KEEP = (99.9, 99.5, 99.0, 98.0)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The candidate to take (None when none can run) and the reasons, one sentence each."""

    pack_size: int | None
    reasons: tuple[str, ...]


def recommend(candidates: Sequence[Candidate]) -> Recommendation:
    """The shortest pack that keeps the data: activation memory grows with the pack, packing efficiency barely does.

    Fill hardly differs between pack lengths, so what counts is how much of the data survives truncation and dropping.
    The thresholds of :data:`KEEP` are tried in turn; when none is reached, the candidate that keeps most is taken.
    """
    usable = [candidate for candidate in candidates if candidate.usable and candidate.packed is not None]
    if not usable:
        return Recommendation(None, ("no candidate can run: see the messages below",))
    best = max(candidate.kept_share for candidate in usable)
    goal = next((share for share in KEEP if best >= share), best)
    chosen = min((one for one in usable if one.kept_share >= goal), key=lambda one: one.pack_size)
    packed = chosen.packed
    assert packed is not None
    reasons = []
    shorter = [one for one in candidates if one.pack_size < chosen.pack_size]
    longer = [one for one in usable if one.pack_size > chosen.pack_size]
    kept = f"keeps {percent(chosen.kept_share)} of the tokens"
    if len(candidates) == 1:
        reasons.append(kept)
    elif goal == best and best < KEEP[-1]:
        reasons.append(f"{kept}, more than any other candidate: try longer packs, or split long rows")
    elif shorter:
        reasons.append(f"{kept} at the smallest activation memory ({_why_not(shorter[-1])})")
    else:
        reasons.append(f"{kept} and is the shortest candidate: the smallest activation memory")
    if longer and longer[0].kept_share - chosen.kept_share >= 0.05:
        gain = longer[0].kept_share - chosen.kept_share
        reasons.append(f"{longer[0].pack_size} would keep {gain:.1f}% more")
    saved = packed.packs - packed.ffd_packs
    if saved > 0:
        reasons.append(f"a better packer could save {saved:,} pack{'s' if saved > 1 else ''} ({100 * saved / packed.packs:.1f}%)")
    return Recommendation(chosen.pack_size, tuple(reasons))


def _why_not(shorter: Candidate) -> str:
    """Why the next shorter candidate was not taken."""
    if shorter.crash is not None or shorter.packed is None:
        return f"{shorter.pack_size} fails"
    if not shorter.usable:
        return f"{shorter.pack_size} has too few packs"
    return f"{shorter.pack_size} keeps {percent(shorter.kept_share)}"


def percent(share: float) -> str:
    """A share in percent that never rounds up to 100% while something is missing."""
    if share >= 100 or share < 99.9:
        return f"{min(share, 100):.1f}%" if share < 99.9 else "100%"
    return f"{int(share * 100) / 100:.2f}%" if share >= 99.95 else f"{share:.1f}%"
