"""Jobs with planted culprits, and what the first screen has to show of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simulated_jobs import Cause, Job


@dataclass(frozen=True)
class Planted:
    """A job and its culprits.

    Attributes:
        job: the job.
        ranks: the culprits: each of them is named, and no other rank is.
        words: what else has to stand on the first screen, in any case of letters.
    """

    job: Job
    ranks: tuple[int, ...] = ()
    words: tuple[str, ...] = ()


def _host(kind: str, *ranks: int, us: float = 3000, **more: object) -> Cause:
    return Cause(kind, ranks, us=us, **more)  # type: ignore[arg-type]


LOADER = _host("data_loader", 3)
TWO = (_host("data_loader", 2), _host("python", 5, us=2500))
PIPELINE = Job(ranks=16, per_host=4, tensor=2, pipeline=4, clocks_us=(0, 5000, -3000, 200))

PLANTED: Mapping[str, Planted] = {
    "healthy": Planted(Job()),
    "healthy_jitter": Planted(Job(jitter=0.05, steps=8)),
    "healthy_of_two_hosts": Planted(Job(ranks=16, clocks_us=(0, 41_000), jitter=0.03)),
    "healthy_fsdp": Planted(Job(style="fsdp", jitter=0.03)),
    "healthy_experts": Planted(Job(style="moe", jitter=0.03)),
    "healthy_tensor": Planted(Job(tensor=4, jitter=0.03)),
    "healthy_pipeline": Planted(PIPELINE),
    "healthy_interleaved": Planted(Job(ranks=8, pipeline=4, virtual=2, layers=2, jitter=0.03)),
    "healthy_gloo_groups": Planted(Job(gloo=True, tensor=2, jitter=0.03)),
    "healthy_gloo": Planted(Job(gloo=True, ranks=4, jitter=0.03)),
    "two_ranks": Planted(Job(ranks=2, causes=(_host("data_loader", 1),)), (1,), ("data loader",)),
    "loader": Planted(Job(causes=(LOADER,)), (3,), ("data loader",)),
    "loader_without_stacks": Planted(Job(causes=(LOADER,), stacks=False), (3,), ("data loader",)),
    "python": Planted(Job(causes=(_host("python", 6),)), (6,), ("python", "gc.py")),
    "allocation": Planted(Job(causes=(_host("allocation", 0),)), (0,), ("allocation",)),
    "clock": Planted(Job(causes=(Cause("slower_kernels", (4,), factor=1.3),)), (4,), ("slower kernels",)),
    "inputs": Planted(Job(causes=(Cause("other_inputs", (1,), factor=1.4),)), (1,), ("other inputs",)),
    "more_work": Planted(Job(causes=(Cause("more_gpu_work", (7,), us=900),)), (7,), ("more gpu work",)),
    "two_culprits": Planted(Job(causes=TWO), (2, 5), ("data loader", "python")),
    "two_alike": Planted(Job(causes=(_host("data_loader", 2, 5),)), (2, 5), ("data loader",)),
    "two_clocks": Planted(Job(ranks=16, causes=(Cause("slower_kernels", (4, 9), factor=1.3),)), (4, 9)),
    "slow_host": Planted(
        Job(ranks=16, per_host=4, causes=(Cause("slower_kernels", (4, 5, 6, 7), factor=1.25),)), (4, 5, 6, 7),
        ("host 1", "slower kernels"),
    ),
    "half_of_hosts": Planted(
        Job(per_host=4, causes=(_host("data_loader", 4, 5, 6, 7),)), (4, 5, 6, 7), ("host 1", "data loader")
    ),
    "slow_stage": Planted(
        Job(ranks=8, per_host=2, pipeline=4, causes=(Cause("slower_kernels", (4, 5), factor=1.4),)), (4, 5), ("stage",)
    ),
    "interleaved_stage": Planted(
        Job(ranks=8, pipeline=4, virtual=2, layers=2, causes=(Cause("slower_kernels", (4, 5), factor=1.4),)), (4, 5),
        ("stage 2", "slower kernels"),
    ),
    "interleaved_rank": Planted(
        Job(ranks=8, pipeline=4, virtual=2, steps=3, causes=(_host("python", 6),)), (6,), ("python",)
    ),
    "interleaved_loader": Planted(
        Job(ranks=8, pipeline=2, virtual=3, layers=2, causes=(_host("data_loader", 1),)), (1,), ("data loader",)
    ),
    "rank_in_pipeline": Planted(
        Job(ranks=16, per_host=4, pipeline=4, causes=(_host("python", 6, us=1500),)), (6,), ("python",)
    ),
    "tensor_group": Planted(
        Job(ranks=16, tensor=4, per_host=4, causes=(Cause("slower_kernels", (8, 9, 10, 11), factor=1.3),)),
        (8, 9, 10, 11), ("slower kernels",),
    ),
    "rank_in_tensor_group": Planted(Job(tensor=4, causes=(Cause("slower_kernels", (5,), factor=1.3),)), (5,)),
    "fsdp": Planted(Job(style="fsdp", causes=(Cause("slower_kernels", (2,), factor=1.3),)), (2,)),
    "fsdp_loader": Planted(Job(style="fsdp", causes=(LOADER,)), (3,), ("data loader",)),
    "experts": Planted(Job(style="moe", causes=(Cause("other_inputs", (6,), factor=1.5),)), (6,)),
    "moves": Planted(
        Job(steps=8, causes=(_host("python", *range(8), moves=True),)), tuple(range(8)), ("python", "gc.py", "in turn")
    ),
    "kernels_move": Planted(
        Job(steps=8, seed=312, causes=(Cause("slower_kernels", tuple(range(8)), factor=1.4, moves=True),)),
        tuple(range(8)), ("all kernels 1.4", "in turn"),
    ),
    "work_moves": Planted(
        Job(steps=8, seed=313, causes=(Cause("more_gpu_work", tuple(range(8)), us=1500, moves=True),)),
        tuple(range(8)), ("more gpu work (radix_sort", "in turn"),
    ),
    "loader_moves": Planted(
        Job(steps=8, causes=(_host("data_loader", 1, 4, 6, moves=True),)), (1, 4, 6), ("data loader",)
    ),
    "inputs_move": Planted(
        Job(ranks=4, tensor=2, steps=6, seed=543, causes=(Cause("other_inputs", (0, 3), factor=1.5, moves=True),)),
        (0, 3), ("other inputs", "in turn"),
    ),
    "inputs_of_two": Planted(
        Job(ranks=6, steps=3, seed=1925, causes=(Cause("other_inputs", (0, 1), factor=1.5),)), (0, 1), ("other inputs",)
    ),
    "one_step_of_few_kernels": Planted(
        Job(ranks=4, layers=3, seed=816, causes=(Cause("slower_kernels", (1,), factor=2.0, steps=(2,)),)), (1,),
        ("in step 5", "slower kernels"),
    ),
    "host_of_few_kernels": Planted(
        Job(ranks=16, per_host=4, clocks_us=(0, 900, -4e3, 120), steps=4, layers=3, seed=612,
            causes=(Cause("slower_kernels", (4, 5, 6, 7), factor=1.3, steps=(2,)),)), (4, 5, 6, 7),
        ("host 1", "in step 5"),
    ),
    "half_of_ranks": Planted(
        Job(steps=4, seed=951, causes=(Cause("slower_kernels", (0, 2, 5, 7), factor=1.3),)), (0, 2, 5, 7),
        ("all kernels 1.30x",),
    ),
    "half_of_ranks_in_a_step": Planted(
        Job(steps=6, style="fsdp", seed=952, causes=(Cause("slower_kernels", (0, 2, 5, 7), factor=1.5, steps=(2,)),)),
        (0, 2, 5, 7), ("in step 5",),
    ),
    "one_step": Planted(Job(steps=8, causes=(_host("data_loader", 5, us=6000, steps=(4,)),)), (5,), ("step 7",)),
    "missing_file": Planted(Job(causes=(LOADER,), missing=(6,)), (3,), ("data loader",)),
    "foreign_file": Planted(Job(causes=(LOADER,), foreign=(6,)), (3,), ("rank 6",)),
    "cut_file": Planted(Job(causes=(LOADER,), cut=(6,)), (3,), ("rank 6",)),
    "begins_late": Planted(Job(causes=(LOADER,), begins={6: 2}), (3,), ("data loader",)),
    "ends_early": Planted(Job(causes=(LOADER,), ends={6: 2}), (3,), ("data loader",)),
    "lost_kernels": Planted(Job(causes=(LOADER,), lost={6: 2, 1: 1}), (3,), ("data loader",)),
    "few_shared": Planted(
        Job(ranks=32, steps=3, layers=2, clocks_us=(0, 21_000, -15_000, 300), missing=(7, 28),
            causes=(_host("python", 19),)), (19,), ("python",),
    ),
    "one_shared": Planted(
        Job(ranks=16, steps=1, layers=2, clocks_us=(0, 21_000), causes=(_host("python", 11),)), (11,), ("one clock",)
    ),
    "gloo": Planted(Job(gloo=True, ranks=4, causes=(_host("python", 2),)), (2,), ("python",)),
    "gloo_missing": Planted(Job(gloo=True, causes=(_host("data_loader", 2),), missing=(7,)), (2,), ("data loader",)),
    "gloo_jitter": Planted(
        Job(gloo=True, jitter=0.2, causes=(Cause("slower_kernels", (5,), factor=1.5),)), (5,), ("aten::mm",)
    ),
    "gloo_of_groups": Planted(Job(gloo=True, tensor=2, jitter=0.02, causes=(_host("python", 2),)), (2,), ("python",)),
    "healthy_gloo_of_hosts": Planted(
        Job(gloo=True, tensor=2, per_host=2, clocks_us=(0, -900, 50, 12_000), jitter=0.05)
    ),
    "gloo_of_hosts": Planted(
        Job(gloo=True, per_host=4, clocks_us=(0, 4200), causes=(_host("python", 6),)), (6,), ("python",)
    ),
    "gloo_of_groups_on_hosts": Planted(
        Job(gloo=True, tensor=2, per_host=4, jitter=0.02, clocks_us=(0, 4200), causes=(_host("python", 6),)), (6,),
        ("python",),
    ),
    "gloo_jitter_on_hosts": Planted(
        Job(gloo=True, per_host=2, jitter=0.1, clocks_us=(0, -900, 50, 12_000),
            causes=(Cause("slower_kernels", (5,), factor=1.5),)), (5,), ("aten::mm",),
    ),
    "stage_of_groups": Planted(
        Job(ranks=16, tensor=2, pipeline=4, layers=1, jitter=0.02,
            causes=(Cause("slower_kernels", (8, 9, 10, 11), factor=1.35),)),
        (8, 9, 10, 11), ("stage 2", "slower kernels"),
    ),
    "host_of_slow_cpus": Planted(
        Job(ranks=16, per_host=4, pipeline=4, kernel_us=15.0,
            causes=(Cause("slow_host", (12, 13, 14, 15), factor=1.8),)),
        (12, 13, 14, 15), ("host 3",),
    ),
    "many": Planted(Job(ranks=64, steps=3, causes=(_host("data_loader", 17),), missing=(40,), lost={3: 1}), (17,)),
    "many_hosts": Planted(
        Job(ranks=64, steps=3, lost={3: 1}, causes=(Cause("slower_kernels", tuple(range(24, 32)), factor=1.2),)),
        tuple(range(24, 32)), ("host 3",),
    ),
    "a_little_slower": Planted(Job(steps=3, causes=(Cause("slower_kernels", (4,), factor=1.03),)), (4,), ("1.03x",)),
    "a_little_slower_in_a_ring": Planted(
        Job(ranks=4, style="ring", steps=3, causes=(Cause("slower_kernels", (1,), factor=1.04),)), (1,),
        ("all kernels 1.04x",),
    ),
    "slower_kernels_in_a_step": Planted(
        Job(steps=5, causes=(Cause("slower_kernels", (3,), factor=1.5, steps=(2,)),)), (3,), ("in step 5",)
    ),
    "more_work_in_a_ring": Planted(
        Job(style="ring", steps=3, missing=(1,), causes=(Cause("more_gpu_work", (0,), us=900),)), (0,), ("radix_sort",)
    ),
    "a_little_slower_between_collectives": Planted(
        Job(style="moe", steps=3, jitter=0.005, causes=(Cause("slower_kernels", (6,), factor=1.04),)), (6,),
        ("all kernels 1.04x",),
    ),
    "last_by_little": Planted(Job(biases={5: 0.004}, jitter=0.0005, steps=8), (), ("rank 5",)),
    "old_profiler": Planted(Job(causes=(LOADER,), args=False, sequences=False, hosts=False), (3,), ("data loader",)),
    "three_dimensions": Planted(
        Job(ranks=16, tensor=2, pipeline=4, layers=2, per_host=8, causes=(Cause("slower_kernels", (11,), factor=1.4),)),
        (11,), ("slower kernels",),
    ),
    "first_stage": Planted(
        Job(ranks=8, pipeline=4, causes=(Cause("slower_kernels", (0, 1), factor=1.5),)), (0, 1),
        ("stage 0", "slower kernels"),
    ),
    "first_of_interleaved": Planted(
        Job(ranks=8, pipeline=4, virtual=2, layers=2, causes=(Cause("slower_kernels", (0, 1), factor=1.5),)), (0, 1),
        ("stage 0",),
    ),
    "stage_of_one_rank": Planted(
        Job(ranks=4, pipeline=4, causes=(Cause("slower_kernels", (1,), factor=1.5),)), (1,), ("slower kernels",)
    ),
    "tokens_of_an_expert": Planted(
        Job(ranks=16, style="moe", jitter=0.05, causes=(Cause("other_inputs", (3,), factor=1.6),)), (3,),
        ("other inputs",),
    ),
    "host_of_fsdp": Planted(
        Job(ranks=16, per_host=4, style="fsdp", causes=(Cause("slower_kernels", (8, 9, 10, 11), factor=1.3),)),
        (8, 9, 10, 11), ("host 2", "slower kernels"),
    ),
    "gloo_of_slow_groups": Planted(
        Job(gloo=True, tensor=2, jitter=0.02, causes=(Cause("slower_kernels", (5,), factor=1.5),)), (5,), ("aten::mm",)
    ),
    "loader_at_times": Planted(
        Job(steps=9, causes=(_host("data_loader", 5, us=6000, steps=(0, 3, 6)),)), (5,),
        ("data loader", "steps 3, 6 and 9"),
    ),
    "one_pause": Planted(
        Job(steps=10, style="fsdp", causes=(_host("python", 2, us=12_000, steps=(5,)),)), (2,),
        ("step 8", "python", "gc.py"),
    ),
    "throttle": Planted(
        Job(steps=10, causes=(Cause("slower_kernels", (6,), factor=1.4, steps=(6, 7, 8, 9)),)), (6,),
        ("steps 9-12", "slower kernels"),
    ),
    "two_in_two_groups": Planted(
        Job(ranks=16, tensor=4, causes=(Cause("slower_kernels", (2,), factor=1.3), _host("python", 9, us=4000))),
        (2, 9), ("slower kernels", "python"),
    ),
    "pair_of_a_ring": Planted(
        Job(ranks=8, style="ring", share=lambda source, target: 0.2 if (source, target) == (2, 3) else 1.0), (),
        ("slow link", "rank 2 -> 3"),
    ),
    # Ranks 4 to 7 are late as well, in bubbles: without their delays the job takes as long.
    "moves_through_a_pipeline": Planted(
        Job(ranks=8, pipeline=4, steps=8, causes=(_host("python", *range(8), us=2500, moves=True),)), (0, 1, 2, 3),
        ("in turn", "python", "gc.py"),
    ),
    "pipeline_missing_file": Planted(
        Job(ranks=16, pipeline=4, missing=(9,), causes=(_host("python", 6, us=2500),)), (6,), ("python", "rank 9")
    ),
    "pipeline_foreign_file": Planted(
        Job(ranks=16, pipeline=4, foreign=(9,), causes=(Cause("slower_kernels", (6,), factor=1.6),)), (6,), ("rank 9",)
    ),
    "foreign_files_of_fsdp": Planted(
        Job(style="fsdp", foreign=(2, 5), causes=(Cause("slower_kernels", (1,), factor=1.3),)), (1,),
        ("slower kernels", "rank2 is left out", "rank5 is left out"),
    ),
    "foreign_files_of_experts": Planted(
        Job(style="moe", foreign=(2, 5), seed=3, causes=(Cause("slower_kernels", (1,), factor=1.3),)), (1,),
        ("rank2 is left out", "rank5 is left out"),
    ),
    "foreign_file_of_a_ring": Planted(
        Job(style="ring", foreign=(6,), jitter=0.03, causes=(_host("python", 3),)), (3,),
        ("python", "rank6 is left out", "that all ranks leave together"),
    ),
    "foreign_file_of_a_tensor_group": Planted(
        Job(tensor=4, foreign=(2,), causes=(Cause("slower_kernels", (1,), factor=1.3),)), (1,), ("rank2 is left out",)
    ),
    "foreign_file_of_a_pair": Planted(
        Job(tensor=2, foreign=(4,), seed=40, causes=(Cause("slower_kernels", (5,), factor=1.25),)), (5,),
        ("rank4 is left out", "slower kernels"),
    ),
    "foreign_file_of_a_pair_of_two": Planted(
        Job(ranks=4, tensor=2, foreign=(3,), seed=1, causes=(Cause("slower_kernels", (2,), factor=1.3),)), (2,),
        ("rank3 is left out",),
    ),
    "missing_file_of_a_tensor_group": Planted(
        Job(tensor=2, missing=(4,), causes=(_host("python", 5),)), (5,), ("no file of rank 4",)
    ),
    "missing_file_of_a_ring": Planted(
        Job(style="ring", missing=(4,), causes=(_host("python", 1),)), (1,), ("no file of rank 4",)
    ),
    "missing_stage": Planted(
        Job(pipeline=4, missing=(3,), causes=(Cause("slower_kernels", (6,), factor=1.4),)), (6,), ("no file of rank 3",)
    ),
    "next_to_a_missing_stage": Planted(
        Job(ranks=8, pipeline=4, steps=3, missing=(4,), seed=246, causes=(Cause("slower_kernels", (6,), factor=1.3),)),
        (6,), ("no file of rank 4", "slower kernels", "rank6 alone 1.1"),
    ),
    "before_a_missing_last_stage": Planted(
        Job(ranks=8, pipeline=4, steps=3, missing=(6,), seed=264, causes=(Cause("slower_kernels", (4,), factor=1.3),)),
        (4,), ("no file of rank 6", "slower kernels"),
    ),
    "gloo_pipeline": Planted(
        Job(gloo=True, pipeline=2, jitter=0.03, seed=31, causes=(_host("python", 4),)), (4,), ("python",)
    ),
    "healthy_gloo_pipeline": Planted(Job(gloo=True, pipeline=2, jitter=0.1, seed=31)),
    "gloo_of_two_causes": Planted(
        Job(gloo=True, ranks=16, tensor=4, jitter=0.02,
            causes=(_host("python", 2, us=6000), _host("python", 13, us=2500))),
        (2, 13), ("python",),
    ),
    "gloo_of_two_kinds": Planted(
        Job(gloo=True, tensor=2, jitter=0.02,
            causes=(_host("python", 1, us=4000), Cause("slower_kernels", (6,), factor=1.3))), (1, 6),
        ("python", "aten::mm"),
    ),
    "slow_host_of_four": Planted(
        Job(ranks=16, per_host=4, steps=3, host_us=60, kernel_us=60, seed=403, clocks_us=(0, 7, 8, 9),
            causes=(Cause("slow_host", (4, 5, 6, 7), factor=1.5),)), (4, 5, 6, 7), ("host 1", "slow host"),
    ),
    "loader_before_the_first_call": Planted(
        Job(ranks=4, steps=3, stacks=False, seed=311, causes=(_host("data_loader", 1, us=6000, steps=(0,)),)), (1,),
        ("in step 3", "data loader"),
    ),
    "more_work_of_a_stage": Planted(
        Job(ranks=4, pipeline=4, steps=2, seed=601, causes=(Cause("more_gpu_work", (2,), us=1200),)), (),
        ("stage 2", "uneven stages, more gpu work (radix_sort"),
    ),
}  # fmt: skip
"""Name of a job -> it."""
