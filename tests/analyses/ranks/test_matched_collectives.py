"""Which parts of the ranks are one collective, on one clock, and how long each rank waited."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_jobs import Job, collective, job, rank

from tracelens_graph.analyses.ranks import matching
from tracelens_graph.analyses.ranks.held import Entry
from tracelens_graph.analyses.ranks.matched_collectives import ALONE, APART, MatchedCollectives
from tracelens_graph.analyses.ranks.matching_notes import notes_on_matching


def assert_right(made: Job, matched: MatchedCollectives) -> None:
    """What is one collective, and nothing else, has one number."""
    number = matched.number
    identity = np.concatenate([np.array(of_rank) for of_rank in made.identity])
    counted = np.bincount(identity[identity >= 0])
    for true in np.flatnonzero(counted > 1).tolist():
        found = number[identity == true]
        assert found[0] >= 0
        assert (found == found[0]).all()
        assert (number == found[0]).sum() == counted[true]
    lonely = (identity < 0) | (counted[np.maximum(identity, 0)] < 2)
    assert (number[lonely] < 0).all()


@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(0, 4))
def test_dropped_and_extra_collectives_shift_nothing(seed: int, dropped: int, extra: int) -> None:
    made = job(seed, 4, 60, dropped=dropped, extra=extra)
    matched = MatchedCollectives(made.ranks)
    assert_right(made, matched)
    assert len(matched.unmatched) == extra
    # What ran alone at the place of one that is missing looks like that one, at another time.
    assert {why for _, why in matched.unmatched} <= {ALONE, APART}
    one_kind = job(seed, 4, 60, kinds=[("allreduce", 1024)], dropped=dropped, extra=extra)
    assert_right(one_kind, MatchedCollectives(one_kind.ranks))


@given(st.integers(0, 10**6), st.lists(st.integers(-50_000_000, 50_000_000), min_size=3, max_size=3))
def test_clocks_that_differ_are_told_by_ends(seed: int, offsets: list[int]) -> None:
    made = job(seed, 4, 60, dropped=2, extra=1, offsets_ns=[0, *offsets])
    matched = MatchedCollectives(made.ranks)
    assert_right(made, matched)
    assert np.abs(matched.clocks.offset_ns - np.array([0, *offsets])).max() < 10_000
    assert (matched.end_ns - matched.start_ns == matched.parts.end_ns - matched.parts.start_ns).all()


@pytest.mark.parametrize(
    "kinds", [[("allreduce", 2**at) for at in range(13)], [("all_to_all", 2**at) for at in range(13)]]
)
def test_of_many_collectives_a_sample_tells_how_far_clocks_are_apart(
    kinds: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a sample of 4 million pairs does of 200,000 collectives, without sequence numbers."""
    monkeypatch.setattr(matching, "_MOST_DIFFERENCES", 4_000)
    made = job(1, 2, 1_000, kinds=kinds, dropped=5, offsets_ns=[0, 30_000_000], gap_ns=400_000)
    assert_right(made, MatchedCollectives(made.ranks))


def test_clocks_of_ranks_that_share_no_group_with_the_first_rank() -> None:
    made = job(4, 3, 40, offsets_ns=[0, 1_000_000, 4_000_000], end_noise_ns=0)
    matched = MatchedCollectives([rank(9, []), *made.ranks])
    assert matched.estimated.offset_ns.tolist() == [0, 0, 1_000_000, 4_000_000]
    assert matched.estimated.error_ns[:2].tolist() == [np.inf, 0]


def test_drift_is_taken_out_of_long_recordings() -> None:
    made = job(5, 4, 120, drifts=[0, 50e-6, -30e-6, 10e-6], offsets_ns=[0, 10**7, 0, 0], gap_ns=100_000_000)
    matched = MatchedCollectives(made.ranks)
    assert_right(made, matched)
    lost = job(5, 4, 120, drifts=[0, 50e-6, -30e-6, 10e-6], gap_ns=100_000_000, dropped=3, extra=2)
    assert_right(lost, MatchedCollectives(lost.ranks))
    assert matched.clocks.drift == pytest.approx([0, 50e-6, -30e-6, 10e-6], abs=2e-6)
    assert (matched.last_end_ns - matched.first_end_ns).max() < 15_000


def test_ranks_of_one_host_have_one_clock() -> None:
    made = job(3, 4, 20, offsets_ns=[0, 60_000, 0, 0], devices=4)
    matched = MatchedCollectives(made.ranks)
    assert_right(made, matched)
    assert not matched.clocks.offset_ns.any()
    assert notes_on_matching(matched) == [
        "all ranks are of one host, so their clocks are taken as they are; by the ends of collectives they differ by "
        f"up to {matched.estimated.offset_ns[1] / 1e3:,.1f} us (rank1)"
    ]
    assert abs(matched.estimated.offset_ns[1] - 60_000) < 7_000


def test_a_rank_whose_clock_is_plainly_not_that_of_its_host_is_corrected() -> None:
    made = job(3, 4, 20, offsets_ns=[0, 50_000_000, 0, 0], devices=4)
    matched = MatchedCollectives(made.ranks)
    assert_right(made, matched)
    assert abs(matched.clocks.offset_ns[1] - 50_000_000) < 7_000


def test_hosts_of_several_ranks_are_corrected_together() -> None:
    made = job(8, 8, 60, offsets_ns=[0] * 4 + [3_000_000] * 4, devices=4)
    matched = MatchedCollectives(made.ranks)
    assert_right(made, matched)
    assert len(matched.clocks.offset_ns) == 2
    assert abs(matched.clocks.offset_ns[1] - 3_000_000) < 2_000
    raw = MatchedCollectives(made.ranks, correct=False)
    assert (raw.end_ns == raw.parts.end_ns).all()


def test_wait_transfer_and_end_skew() -> None:
    times = ((10, 40), (25, 41), (12, 43))
    ranks = [rank(place, [(collective(7), start, end)]) for place, (start, end) in enumerate(times)]
    matched = MatchedCollectives(ranks)
    assert len(matched) == 1
    assert matched.wait_ns.tolist() == [15, 0, 13]
    assert matched.transfer_ns.tolist() == [15, 15, 15]
    assert matched.end_skew_ns.tolist() == [0, 1, 3]
    assert matched.last_part.tolist() == [1]


@given(st.integers(0, 10**6), st.integers(0, 60_000))
def test_wait_transfer_and_end_skew_add_up(seed: int, noise: int) -> None:
    matched = MatchedCollectives(job(seed, 4, 20, end_noise_ns=noise, offsets_ns=[0, 1000, 2000, 3000]).ranks)
    there = matched.number >= 0
    total = matched.wait_ns + matched.transfer_ns + matched.end_skew_ns
    assert (total == np.where(there, matched.end_ns - matched.start_ns, 0)).all()
    assert min(matched.wait_ns.min(), matched.transfer_ns.min(), matched.end_skew_ns.min()) >= 0


def test_a_broadcast_may_be_left_before_others_come() -> None:
    early, late = (collective(1, "broadcast"), 0, 1_000), (collective(1, "broadcast"), 900_000, 950_000)
    matched = MatchedCollectives([rank(0, [early]), rank(1, [late])])
    assert matched.number.tolist() == [0, 0]
    assert matched.wait_ns.tolist() == [1_000, 0]
    assert matched.transfer_ns.tolist() == [0, 50_000]
    barrier = MatchedCollectives([rank(0, [(collective(1), 0, 1_000)]), rank(1, [(collective(1), 900_000, 950_000)])])
    assert [why for _, why in barrier.unmatched] == [APART, APART]


def test_groups_are_told_by_their_ranks() -> None:
    def held(name: str, ranks: tuple[int, ...], at: int) -> Entry:
        return (collective(1, group=name, ranks=ranks), at, at + 30_000)

    ranks = [
        rank(0, [held("1", (0, 1), 0), held("2", (0, 2), 100_000)]),
        rank(1, [held("7", (0, 1), 5_000)]),
        rank(2, [held("7", (0, 2), 105_000)]),
    ]
    assert MatchedCollectives(ranks).number.tolist() == [0, 1, 0, 1]
    # Two groups of the same ranks are told apart by their names.
    twins = [rank(place, [held("1", (0, 1), 0), held("2", (0, 1), 5_000)]) for place in range(2)]
    assert MatchedCollectives(twins).number.tolist() == [0, 1, 0, 1]


def test_a_transfer_is_matched_by_its_ends() -> None:
    def part(kind: str, source: int | None, target: int | None, at: int) -> Entry:
        one = collective(9, kind, ranks=(0, 1), source_rank=source, target_rank=target)
        return one, at, at + 30_000

    sender = rank(0, [part("send", 0, 1, 0), part("recv", None, 0, 90_000)])
    receiver = rank(1, [part("recv", 0, 1, 5_000), part("send", 1, 0, 92_000)])
    matched = MatchedCollectives([sender, receiver])
    assert matched.number.tolist() == [0, 1, 0, 1]
    assert matched.kind == ["send", "send"]
