"""The ledger against what real layers and models keep: equality in bytes, not a tolerance."""

from __future__ import annotations

from collections import Counter

from tests.memory.layers import measurements


def test_every_layer_keeps_what_the_real_one_kept() -> None:
    wrong = [(m.case, m.release, m.tp, m.kept, m.rows().total) for m in measurements() if m.rows().total != m.kept]
    assert not wrong, wrong[:5]


def test_every_layer_has_the_parameters_of_the_real_one() -> None:
    wrong = []
    for measured in measurements():
        count = measured.count()
        if (count.all, count.dense_trained + count.expert_trained) != (measured.parameters, measured.trained):
            wrong.append((measured.case, measured.release, measured.tp, measured.parameters, count))
    assert not wrong, wrong[:5]


def test_the_record_covers_four_releases_and_three_tensor_parallel_sizes() -> None:
    places = Counter((measured.release, measured.tp) for measured in measurements())
    assert set(places) == {(release, tp) for release in ("0.3", "0.4", "0.5", "0.6") for tp in (1, 2, 4)}
    assert min(places.values()) > 90


def test_a_latent_query_without_low_rank_keeps_a_norm_more_from_0_6_on() -> None:
    kept = {(m.release, m.tp): m.kept for m in measurements() if m.case == "mla no q_lora"}
    assert kept["0.6", 1] - kept["0.5", 1] == 512 * (2 * 256 + 4)


def test_core_attention_recompute_adds_memory_with_query_groups() -> None:
    kept = {m.case: m.kept for m in measurements() if (m.release, m.tp) == ("0.6", 1)}
    assert kept["dense core_attn"] > kept["dense"]
    assert kept["mla core_attn"] < kept["mla"]
