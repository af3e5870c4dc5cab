"""Which parts of the ranks are one collective, on one clock, and how long each rank waited."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_jobs import Held, Job, collective, job, rank

from tracelens_graph.analyses.ranks import matching
from tracelens_graph.analyses.ranks.matched_collectives import ALONE, APART, Meetings


def assert_right(made: Job, meetings: Meetings) -> None:
    """What is one collective, and nothing else, has one number."""
    number = meetings.meeting
    identity = np.concatenate([np.array(of_rank) for of_rank in made.identity])
    counted = np.bincount(identity[identity >= 0])
    for true in np.flatnonzero(counted > 1).tolist():
        found = number[identity == true]
        assert found[0] >= 0
        assert (found == found[0]).all()
        assert (number == found[0]).sum() == counted[true]
    lonely = (identity < 0) | (counted[np.maximum(identity, 0)] < 2)
    assert (number[lonely] < 0).all()


@given(st.integers(0, 10**6), st.integers(2, 6), st.booleans())
def test_equal_jobs_are_matched(seed: int, ranks: int, sequences: bool) -> None:
    made = job(seed, ranks, 30, sequences=sequences)
    assert_right(made, Meetings(made.ranks))


@given(st.integers(0, 10**6), st.integers(0, 5), st.integers(0, 4))
def test_dropped_and_extra_collectives_shift_nothing(seed: int, dropped: int, extra: int) -> None:
    made = job(seed, 4, 60, dropped=dropped, extra=extra)
    meetings = Meetings(made.ranks)
    assert_right(made, meetings)
    assert len(meetings.unmatched) == extra
    # What ran alone at the place of one that is missing looks like that one, at another time.
    assert {why for _, why in meetings.unmatched} <= {ALONE, APART}
    one_kind = job(seed, 4, 60, kinds=[("allreduce", 1024)], dropped=dropped, extra=extra)
    assert_right(one_kind, Meetings(one_kind.ranks))


@given(st.integers(0, 10**6), st.lists(st.integers(-50_000_000, 50_000_000), min_size=3, max_size=3))
def test_clocks_that_differ_are_told_by_ends(seed: int, offsets: list[int]) -> None:
    made = job(seed, 4, 60, dropped=2, extra=1, offsets_ns=[0, *offsets])
    meetings = Meetings(made.ranks)
    assert_right(made, meetings)
    assert np.abs(meetings.clocks.offset_ns - np.array([0, *offsets])).max() < 10_000
    assert (meetings.end_ns - meetings.start_ns == meetings.parts.end_ns - meetings.parts.start_ns).all()


@pytest.mark.parametrize(
    "kinds", [[("allreduce", 2**at) for at in range(13)], [("all_to_all", 2**at) for at in range(13)]]
)
def test_of_many_collectives_a_sample_tells_how_far_clocks_are_apart(
    kinds: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a sample of 4 million pairs does of 200,000 collectives, without sequence numbers."""
    monkeypatch.setattr(matching, "_MOST_DIFFERENCES", 4_000)
    made = job(1, 2, 1_000, kinds=kinds, dropped=5, offsets_ns=[0, 30_000_000], gap_ns=400_000)
    assert_right(made, Meetings(made.ranks))


def test_without_noise_clocks_are_told_to_the_ns() -> None:
    made = job(3, 4, 20, offsets_ns=[0, 7, -50_000_000, 123_456_789], end_noise_ns=0)
    meetings = Meetings(made.ranks)
    assert_right(made, meetings)
    assert meetings.estimated.offset_ns.tolist() == [0, 7, -50_000_000, 123_456_789]


def test_clocks_of_ranks_that_share_no_group_with_the_first_rank() -> None:
    made = job(4, 3, 40, offsets_ns=[0, 1_000_000, 4_000_000], end_noise_ns=0)
    meetings = Meetings([rank(9, []), *made.ranks])
    assert meetings.estimated.offset_ns.tolist() == [0, 0, 1_000_000, 4_000_000]
    assert meetings.estimated.error_ns[:2].tolist() == [np.inf, 0]


def test_drift_is_taken_out_of_long_recordings() -> None:
    made = job(5, 4, 120, drifts=[0, 50e-6, -30e-6, 10e-6], offsets_ns=[0, 10**7, 0, 0], gap_ns=100_000_000)
    meetings = Meetings(made.ranks)
    assert_right(made, meetings)
    lost = job(5, 4, 120, drifts=[0, 50e-6, -30e-6, 10e-6], gap_ns=100_000_000, dropped=3, extra=2)
    assert_right(lost, Meetings(lost.ranks))
    assert meetings.clocks.drift == pytest.approx([0, 50e-6, -30e-6, 10e-6], abs=2e-6)
    assert (meetings.last_end_ns - meetings.first_end_ns).max() < 15_000


def test_ranks_of_one_host_have_one_clock() -> None:
    made = job(3, 4, 20, offsets_ns=[0, 60_000, 0, 0], devices=4)
    meetings = Meetings(made.ranks)
    assert_right(made, meetings)
    assert not meetings.clocks.offset_ns.any()
    assert meetings.notes == [
        "all ranks are of one host, so their clocks are taken as they are; by the ends of collectives they differ by "
        f"up to {meetings.estimated.offset_ns[1] / 1e3:,.1f} us (rank1)"
    ]
    assert abs(meetings.estimated.offset_ns[1] - 60_000) < 7_000


def test_a_rank_whose_clock_is_plainly_not_that_of_its_host_is_corrected() -> None:
    made = job(3, 4, 20, offsets_ns=[0, 50_000_000, 0, 0], devices=4)
    meetings = Meetings(made.ranks)
    assert_right(made, meetings)
    assert abs(meetings.clocks.offset_ns[1] - 50_000_000) < 7_000


def test_hosts_of_several_ranks_are_corrected_together() -> None:
    made = job(8, 8, 60, offsets_ns=[0] * 4 + [3_000_000] * 4, devices=4)
    meetings = Meetings(made.ranks)
    assert_right(made, meetings)
    assert len(meetings.clocks.offset_ns) == 2
    assert abs(meetings.clocks.offset_ns[1] - 3_000_000) < 2_000
    raw = Meetings(made.ranks, correct=False)
    assert (raw.end_ns == raw.parts.end_ns).all()


def test_the_host_that_a_trace_names_counts() -> None:
    made = job(8, 2, 20, offsets_ns=[0, 3_000_000], devices=8)
    here, there = (replace(one, host=host) for one, host in zip(made.ranks, ("a", "b"), strict=True))
    assert Meetings([here, there]).hosts == [0, 1]
    assert abs(Meetings([here, there]).clocks.offset_ns[1] - 3_000_000) < 7_000
    assert Meetings(made.ranks).hosts == [0, 0]


def test_wait_transfer_and_end_skew() -> None:
    times = ((10, 40), (25, 41), (12, 43))
    ranks = [rank(place, [(collective(7), start, end)]) for place, (start, end) in enumerate(times)]
    meetings = Meetings(ranks)
    assert len(meetings) == 1
    assert meetings.wait_ns.tolist() == [15, 0, 13]
    assert meetings.transfer_ns.tolist() == [15, 15, 15]
    assert meetings.end_skew_ns.tolist() == [0, 1, 3]
    assert meetings.last_part.tolist() == [1]


@given(st.integers(0, 10**6), st.integers(0, 60_000))
def test_wait_transfer_and_end_skew_add_up(seed: int, noise: int) -> None:
    meetings = Meetings(job(seed, 4, 20, end_noise_ns=noise, offsets_ns=[0, 1000, 2000, 3000]).ranks)
    matched = meetings.meeting >= 0
    total = meetings.wait_ns + meetings.transfer_ns + meetings.end_skew_ns
    assert (total == np.where(matched, meetings.end_ns - meetings.start_ns, 0)).all()
    assert min(meetings.wait_ns.min(), meetings.transfer_ns.min(), meetings.end_skew_ns.min()) >= 0


def test_a_broadcast_may_be_left_before_others_come() -> None:
    early, late = (collective(1, "broadcast"), 0, 1_000), (collective(1, "broadcast"), 900_000, 950_000)
    meetings = Meetings([rank(0, [early]), rank(1, [late])])
    assert meetings.meeting.tolist() == [0, 0]
    assert meetings.wait_ns.tolist() == [1_000, 0]
    assert meetings.transfer_ns.tolist() == [0, 50_000]
    barrier = Meetings([rank(0, [(collective(1), 0, 1_000)]), rank(1, [(collective(1), 900_000, 950_000)])])
    assert [why for _, why in barrier.unmatched] == [APART, APART]


def test_of_three_the_one_that_does_not_fit_is_left_out() -> None:
    parts = [(10_000, 50_000), (20_000, 50_500), (700_000, 800_000)]
    meetings = Meetings([rank(place, [(collective(1), *part)]) for place, part in enumerate(parts)])
    assert meetings.meeting.tolist() == [0, 0, -1]
    assert meetings.unmatched == [(2, APART)]


def test_groups_are_told_by_their_ranks() -> None:
    def held(name: str, ranks: tuple[int, ...], at: int) -> Held:
        return (collective(1, group=name, ranks=ranks), at, at + 30_000)

    ranks = [
        rank(0, [held("1", (0, 1), 0), held("2", (0, 2), 100_000)]),
        rank(1, [held("7", (0, 1), 5_000)]),
        rank(2, [held("7", (0, 2), 105_000)]),
    ]
    assert Meetings(ranks).meeting.tolist() == [0, 1, 0, 1]
    # Two groups of the same ranks are told apart by their names.
    twins = [rank(place, [held("1", (0, 1), 0), held("2", (0, 1), 5_000)]) for place in range(2)]
    assert Meetings(twins).meeting.tolist() == [0, 1, 0, 1]


def test_a_transfer_is_matched_by_its_ends() -> None:
    def part(kind: str, source: int | None, target: int | None, at: int) -> Held:
        one = collective(9, kind, ranks=(0, 1), source_rank=source, target_rank=target)
        return one, at, at + 30_000

    sender = rank(0, [part("send", 0, 1, 0), part("recv", None, 0, 90_000)])
    receiver = rank(1, [part("recv", 0, 1, 5_000), part("send", 1, 0, 92_000)])
    meetings = Meetings([sender, receiver])
    assert meetings.meeting.tolist() == [0, 1, 0, 1]
    assert meetings.kind == ["send", "send"]
    assert not meetings.is_barrier.any()


def test_nothing_to_match() -> None:
    for ranks in ([], [rank(0, [])], [rank(0, []), rank(1, [])], [rank(0, [(collective(1), 0, 10)]), rank(1, [])]):
        meetings = Meetings(ranks)
        assert len(meetings) == 0
        assert meetings.kind == []
        assert not len(meetings.is_barrier)
        assert not len(meetings.last_part)
        assert meetings.wait_ns.tolist() == [0] * len(meetings.parts)
