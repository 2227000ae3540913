"""`mbpack explain`: why."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from mbpack.cli.choices import TEXT_JSON, check_choice, choice
from mbpack.cli.inputs import InputError
from mbpack.cli.output import emit
from mbpack.facts import formulas
from mbpack.facts.formulas import Derived


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain)


def explain(
    topic: Annotated[
        str | None, typer.Argument(help="Rule code, slug, configuration key, mode, family, pitfall number, or `releases`.")
    ] = None,
    tp: Annotated[int | None, typer.Option(help="Tensor parallel size.")] = None,
    pp: Annotated[int | None, typer.Option(help="Pipeline parallel size.")] = None,
    vpp: Annotated[int | None, typer.Option(help="Virtual pipeline parallel size.")] = None,
    cp: Annotated[int | None, typer.Option(help="Context parallel size.")] = None,
    eval_cp: Annotated[int | None, typer.Option(help="Evaluation context parallel size.")] = None,
    sp: Annotated[bool, typer.Option("--sp/--no-sp", help="Sequence parallel.")] = False,
    gpus: Annotated[int | None, typer.Option(help="Number of GPUs.")] = None,
    dp: Annotated[int | None, typer.Option(help="Data parallel size.")] = None,
    mbs: Annotated[int | None, typer.Option(help="Micro batch size.")] = None,
    gbs: Annotated[int | None, typer.Option(help="Global batch size.")] = None,
    seq_length: Annotated[int | None, typer.Option(help="Sequence or pack length in tokens.")] = None,
    max_seqlen_per_dp_cp_rank: Annotated[int | None, typer.Option(help="Tokens per rank of an online pack.")] = None,
    output_format: Annotated[str, typer.Option("--format", metavar=choice(TEXT_JSON), help="How it is printed.")] = "text",
    pager: Annotated[
        bool, typer.Option("--pager/--no-pager", help="Show what is longer than the terminal in a pager (PAGER, else less).")
    ] = True,
) -> int:
    """Explain a rule, key, mode, family or pitfall; with numbers, calculate. Without a topic: the map of everything."""
    from mbpack.report.columns import printable
    from mbpack.report.explain import UnknownTopicError, found, overview
    from mbpack.report.style import Style, style_for

    numbers = Numbers(tp, pp, vpp, cp, eval_cp, sp, gpus, dp, mbs, gbs, seq_length, max_seqlen_per_dp_cp_rank)
    machine = output_format == "json"
    style = Style() if machine else style_for()
    try:
        check_choice("--format", output_format, TEXT_JSON)
        answers = numbers.answers(topic or "")
        kind, text = found(topic, style) if topic is not None else ("overview", overview(style))
    except UnknownTopicError as error:
        if not answers:
            return _refuse(printable(str(error)))
        kind, text = "number", ""
    except (ValueError, InputError) as error:
        return _refuse(str(error))
    if machine:
        from mbpack.report.explain_json import explain_data
        from mbpack.report.json import dumps

        emit(dumps(explain_data(topic, kind, answers, text)), machine=True)
        return 0
    whole = "\n\n".join(part for part in ("\n".join(answers), text) if part)
    if pager:
        from mbpack.cli.pager import show

        show(whole)
    else:
        emit(whole)
    return 0


def _refuse(message: str) -> int:
    print(f"mbpack explain: {message}", file=sys.stderr)
    return 2


class Numbers:
    """The numbers given on the command line, and what they amount to."""

    def __init__(
        self,
        tp: int | None,
        pp: int | None,
        vpp: int | None,
        cp: int | None,
        eval_cp: int | None,
        sp: bool,
        gpus: int | None,
        dp: int | None,
        mbs: int | None,
        gbs: int | None,
        length: int | None,
        per_rank: int | None,
    ) -> None:
        self.given = any(value is not None for value in (tp, pp, cp, eval_cp, gpus, dp, mbs, gbs, length, per_rank)) or sp
        named = {
            "--tp": tp, "--pp": pp, "--vpp": vpp, "--cp": cp, "--eval-cp": eval_cp, "--gpus": gpus, "--dp": dp,
            "--mbs": mbs, "--gbs": gbs, "--seq-length": length, "--max-seqlen-per-dp-cp-rank": per_rank,
        }  # fmt: skip
        self.wrong = [f"{name} {value}" for name, value in named.items() if value is not None and value < 1]
        self.tp, self.pp, self.vpp, self.cp, self.eval_cp, self.sp = tp or 1, pp or 1, vpp or 1, cp or 1, eval_cp, sp
        self.gpus, self.dp, self.mbs, self.gbs, self.length, self.per_rank = gpus, dp, mbs or 1, gbs, length, per_rank

    def answers(self, topic: str) -> list[str]:
        """Lines of arithmetic that a topic asks for; none when no number was given.

        Raises:
            ValueError: a size is not positive, or sizes do not divide.
        """
        if not self.given:
            return []
        if self.wrong:
            raise ValueError(f"sizes must be positive, found {', '.join(self.wrong)}")
        name = topic.rpartition(".")[2].lower().replace("-", "_")
        if name in ("pad_seq_to_mult", "mult", "pad_multiple", "in_batch_packing_pad_to_multiple_of"):
            return [str(formulas.pad_multiple(self.tp, self.cp, self.sp, self.eval_cp))]
        if name in ("dp", "data_parallel", "data_parallel_size"):
            return [str(self._dp())]
        if name in ("num_microbatches", "microbatches", "global_batch_size", "gbs"):
            return self._microbatches()
        if name in ("token_slots", "token_slots_per_step", "packed_sequence_size", "seq_length"):
            return self._slots()
        if name in ("pack_capacity", "max_seqlen_per_dp_cp_rank") and self.per_rank:
            return [str(formulas.pack_capacity(self.per_rank, self.cp))]
        return []

    def _dp(self) -> Derived:
        if self.gpus is None:
            if self.dp is None:
                raise ValueError("the data parallel size needs --gpus (and --tp, --pp, --cp)")
            return Derived(self.dp, "")
        return formulas.data_parallel_size(self.gpus, self.tp, self.pp, self.cp)

    def _microbatches(self) -> list[str]:
        if self.gbs is None:
            raise ValueError("the number of microbatches needs --gbs")
        dp = self._dp()
        found = formulas.num_microbatches(self.gbs, self.mbs, dp.value)
        lines = [f"data parallel {dp}", f"microbatches {found}"]
        if self.pp > 1:
            lines.append(f"pipeline bubble {formulas.bubble_share(self.pp, found.value, self.vpp)}")
        return lines

    def _slots(self) -> list[str]:
        if self.length is None or self.gbs is None:
            return []
        slots = formulas.token_slots(self.length, self.gbs)
        unit = self.mbs * self._dp().value if self.gpus or self.dp else self.mbs
        lengths = [self.length // 4, self.length // 2, self.length * 2, self.length * 4]
        same = formulas.equal_slot_alternatives(slots.value, [n for n in lengths if n > 0], unit)
        words = ", ".join(f"{length} x {batch}" for length, batch in same)
        return [f"token slots {slots.value:,} = {slots.because}" + (f"   same slots: {words}" if words else "")]
