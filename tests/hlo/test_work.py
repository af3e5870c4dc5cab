"""What instructions cost: by hand, and beside XLA's own analysis of functions that JAX compiled."""

from __future__ import annotations

import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from handmade_jax import BF16, F32, S32, U8, computation, dot_dims, instruction, mlp, packed, program, shape, tuple_of
from plain_xplane import block, number

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.hlo.attributes import facts, kind_of
from tracelens_graph.hlo.facts import Facts, facts_of
from tracelens_graph.hlo.products import Product, product_of
from tracelens_graph.hlo.program import Program
from tracelens_graph.hlo.work import OURS, XLA, Departure, Work, by_xla, entry_work, trips, work
from tracelens_graph.loaders.xplane.hlo import read_program
from tracelens_graph.schema import Kind

COSTS, UNSEEN = (Path(__file__).parent / name for name in ("costs.zip", "unseen.zip"))
"""Functions that rules were made on, or looked at with; and those that came when the rules stood."""

CALLS = COSTS.with_name("calls.zip")
"""Functions that call libraries, for which XLA counts -1."""

GATHERS = ("take", "takef", "emb")
"""Functions in whose fusions XLA counts whole tables, and we the rows that are taken."""

LOOPS = {"rng": 5, "scan": 5, "while": 3, "power_iteration": 7, "uniform": 5}
"""Functions with a loop, and how often it runs; XLA counts it once."""


def read(proto: bytes) -> Program:
    return read_program(proto, 0, len(proto), 3)


def of(found: Program, name: str) -> Work:
    return work(found, found.by_name[name])


def test_a_product_and_a_fusion() -> None:
    found = read(mlp())
    assert of(found, "dot.3") == Work(2 * 4 * 16 * 8, 0, 4 * (4 * 8 + 8 * 16 + 4 * 16))
    assert of(found, "fusion.4") == Work(64, 64, 4 * 2 * 64)
    assert product_of(found, found.by_name["dot.3"]) == Product(1, 4, 16, 8)
    assert kind_of(found, found.by_name["fusion.4"]) == "fusion(elementwise)"
    assert facts(found, found.by_name["dot.3"]) == Facts(
        "dot", "f32[4,16]{1,0}", product=(1, 4, 16, 8), type="f32", flops=1024, bytes=896,
        call={"dims": [[1], [0], [], []]},
    )  # fmt: skip


def test_a_gather_in_a_fusion_reads_its_rows() -> None:
    found = read(
        program(
            "jit_g", 2,
            computation(
                1, "fused", 13,
                instruction(11, "table", "parameter", shape(F32, 1000, 64)),
                instruction(12, "rows", "parameter", shape(S32, 7, 1), more=number(9, 1)),
                instruction(13, "gather.1", "gather", shape(F32, 7, 64), [11, 12]),
            ),
            computation(
                2, "main", 23,
                instruction(21, "t", "parameter", shape(F32, 1000, 64)),
                instruction(22, "i", "parameter", shape(S32, 7, 1)),
                instruction(23, "fusion.1", "fusion", shape(F32, 7, 64), [21, 22], calls=[1]),
            ),
        )
    )  # fmt: skip
    assert of(found, "fusion.1").bytes == 4 * (2 * 7 * 64 + 7)


@pytest.mark.parametrize(("kind", "named"), [("kCustom", Departure.custom), ("kLoop", Departure.rows)])
def test_of_a_custom_fusion_xla_counts_its_gather_alone(kind: str, named: Departure) -> None:
    found = read(
        program(
            "jit_g", 2,
            computation(
                1, "fused", 14,
                instruction(11, "table", "parameter", shape(F32, 1000, 64)),
                instruction(12, "rows", "parameter", shape(S32, 7, 1), more=number(9, 1)),
                instruction(13, "gather.1", "gather", shape(F32, 7, 64), [11, 12]),
                instruction(14, "add.1", "add", shape(F32, 7, 64), [13, 13]),
            ),
            computation(
                2, "main", 23,
                instruction(21, "t", "parameter", shape(F32, 1000, 64)),
                instruction(22, "i", "parameter", shape(S32, 7, 1)),
                instruction(23, "fusion.1", "fusion", shape(F32, 7, 64), [21, 22], calls=[1], more=block(11, kind)),
            ),
        )
    )  # fmt: skip
    one = found.by_name["fusion.1"]
    assert work(found, one) == Work(7 * 64, 0, 4 * (2 * 7 * 64 + 7))
    whole = Work(7 * 64, 0, 4 * (1000 * 64 + 7 + 7 * 64))
    assert by_xla(found, one) == (Work(0, 0, 4 * (2 * 7 * 64 + 7)) if kind == "kCustom" else whole, [named])


def triton_product() -> Program:
    """A product in a fusion, whose operands are wrapped in fusions that do nothing; the second in two of them."""
    return read(
        program(
            "jit_t", 4,
            computation(1, "same", 11, instruction(11, "p", "parameter", shape(BF16, 4, 8))),
            computation(2, "same.1", 21, instruction(21, "p", "parameter", shape(BF16, 8, 16))),
            computation(
                3, "body", 36,
                instruction(31, "p0", "parameter", shape(BF16, 4, 8)),
                instruction(32, "p1", "parameter", shape(BF16, 8, 16), more=number(9, 1)),
                instruction(33, "block_fusion.1", "fusion", shape(BF16, 4, 8), [31], calls=[1]),
                instruction(34, "block_fusion.2", "fusion", shape(BF16, 8, 16), [32], calls=[2]),
                instruction(35, "block_fusion.3", "fusion", shape(BF16, 8, 16), [34], calls=[2]),
                instruction(36, "dot.1", "dot", shape(BF16, 4, 16), [33, 35], more=dot_dims([1], [0])),
                instruction(37, "rows", "slice", shape(BF16, 2, 16), [35]),
            ),
            computation(
                4, "main", 43,
                instruction(41, "a", "parameter", shape(BF16, 4, 8)),
                instruction(42, "b", "parameter", shape(BF16, 8, 16)),
                instruction(43, "gemm_fusion_dot.1", "fusion", shape(BF16, 4, 16), [41, 42], calls=[3]),
            ),
        )
    )  # fmt: skip


def test_operands_that_fusions_pass_on_are_read() -> None:
    slices = 2 * 16  # the rows that are taken are read once more
    assert of(triton_product(), "gemm_fusion_dot.1") == Work(2 * 4 * 8 * 16, 0, 2 * (4 * 8 + 8 * 16 + 4 * 16 + slices))


def test_a_fusion_that_returns_what_it_was_given_reads_it() -> None:
    found = read(
        program(
            "jit_c", 2,
            computation(1, "same", 11, instruction(11, "p", "parameter", shape(F32, 4, 8))),
            computation(
                2, "main", 22,
                instruction(21, "a", "parameter", shape(F32, 4, 8)),
                instruction(22, "copy_fusion", "fusion", shape(F32, 4, 8), [21], calls=[1]),
            ),
        )
    )  # fmt: skip
    assert of(found, "copy_fusion").bytes == 2 * 4 * 4 * 8


@parametrize("path", [path for path in xplane_files() if "attention" in path.name])
def test_products_of_triton_move_their_operands(path: Path) -> None:
    moved = {
        one.name: one.args["Instruction"]["bytes"]
        for one in loaded(path).find(Kind.Op)
        if one.name.startswith("gemm_fusion_dot")
    }
    operands_and_result = {"": 16 + 24 + 192, ".1": 152, ".3": 232, ".6": 256, ".7": 208}
    assert moved == {f"gemm_fusion_dot{end}": size << 20 for end, size in operands_and_result.items()}


def test_computations_that_call_each_other_end() -> None:
    body = instruction(11, "call.1", "call", shape(F32, 4), [], calls=[2])
    other = instruction(21, "call.2", "call", shape(F32, 4), [], calls=[1])
    found = read(program("loop", 2, computation(1, "a", 11, body), computation(2, "b", 21, other)))
    assert of(found, "call.2") == Work()


@pytest.mark.parametrize("opcode", ["fusion", "call", "while"])
def test_computations_that_call_themselves_many_times_end(opcode: str) -> None:
    parameter = instruction(1, "p", "parameter", shape(F32, 4))
    calls = [instruction(i, f"{opcode}.{i}", opcode, shape(F32, 4), [1, 1], calls=[1]) for i in range(2, 60)]
    found = read(program("loop", 1, computation(1, "a", 2, parameter, *calls)))
    assert of(found, f"{opcode}.2").flops == 0


def test_an_operand_that_is_not_there() -> None:
    found = read(program("p", 1, computation(1, "main", 1, instruction(1, "dot.1", "dot", shape(F32, 4, 4), [7, 8]))))
    assert of(found, "dot.1") == Work(0, 0, 64)


def test_a_library_for_products() -> None:
    config = '{"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],' \
        '"rhs_contracting_dimensions":["1"]}}}'  # fmt: skip
    call = instruction(
        3, "custom-call.1", "custom-call", shape(F32, 4, 16), [1, 2],
        more=block(28, "__cublas$gemm") + block(43, config),
    )  # fmt: skip
    operands = [
        instruction(1, "a", "parameter", shape(F32, 4, 8)), instruction(2, "b", "parameter", shape(F32, 16, 8))
    ]  # fmt: skip
    found = read(program("p", 1, computation(1, "main", 3, *operands, call)))
    assert of(found, "custom-call.1").flops == 2 * 4 * 16 * 8
    assert kind_of(found, found.by_name["custom-call.1"]) == "custom-call(gemm)"


CONVOLUTION = block(15, b"".join(block(1, number(1, 3) + number(3, 1) + number(4, 1)) for _ in range(2))) + block(
    16,
    number(3, 1) + number(4, 0) + packed(6, [2, 3]) + number(7, 0) + number(8, 1) + packed(11, [2, 3])
    + number(9, 0) + number(10, 1) + packed(12, [2, 3]),
)  # fmt: skip
"""Three by three, padded by one: batch, channels, height, width."""


@pytest.mark.parametrize("what", ["Forward", "BackwardInput", "BackwardFilter"])
def test_a_convolution_and_its_backward_passes_do_the_same_work(what: str) -> None:
    x, w, y = shape(F32, 2, 3, 5, 5), shape(F32, 8, 3, 3, 3), shape(F32, 2, 8, 5, 5)
    left, right, made = {"Forward": (x, w, y), "BackwardInput": (y, w, x), "BackwardFilter": (x, y, w)}[what]
    call = instruction(
        3, "conv.1", "custom-call", tuple_of(made, shape(U8, 1000)), [1, 2],
        more=CONVOLUTION + block(28, f"__cudnn$conv{what}"),
    )  # fmt: skip
    operands = [instruction(1, "a", "parameter", left), instruction(2, "b", "parameter", right)]
    found = read(program("p", 1, computation(1, "main", 3, *operands, call)))
    inside = (3 * 5 - 2) ** 2  # of 5 positions of a kernel of 3 two lose a product to padding
    assert of(found, "conv.1") == Work(2 * 2 * 3 * 8 * inside, 0, 4 * (2 * 3 * 25 + 8 * 3 * 9 + 2 * 8 * 25))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"kind"',
        "1",
        '{"kind":1}',
        '{"kind":"dot","flops":9223372036854775808}',
        '{"kind":"dot","product":[1]}',
    ],
)
def test_texts_that_are_no_facts(text: str) -> None:
    assert facts_of(text) is None


def recorded() -> list[tuple[str, str]]:
    found = []
    for kept in (COSTS, UNSEEN, CALLS):
        with zipfile.ZipFile(kept) as archive:
            found += [(kept.name, name) for name in sorted(json.loads(archive.read("costs.json")))]
    return found


def recorded_one(kept: str, name: str) -> tuple[Program, dict[str, int]]:
    with zipfile.ZipFile(COSTS.with_name(kept)) as archive:
        return read(block(1, archive.read(f"{name}.hlo"))), json.loads(archive.read("costs.json"))[name]


def test_enough_functions_are_compared() -> None:
    kept = Counter(name for name, _ in recorded())
    assert kept["costs.zip"] >= 60
    assert kept["unseen.zip"] >= 30
    assert kept["calls.zip"] >= 5


@pytest.mark.parametrize(("kept", "name"), recorded())
def test_by_xlas_rules_costs_are_those_of_xla(kept: str, name: str) -> None:
    found, told = recorded_one(kept, name)
    assert entry_work(found, XLA)._asdict() == told


@pytest.mark.parametrize(("kept", "name"), recorded())
def test_ours_depart_where_that_is_named(kept: str, name: str) -> None:
    found, told = recorded_one(kept, name)
    named = {one for each in found.computations[found.entry].instructions for one in by_xla(found, each)[1]}
    expected = {
        Departure.rows: name in GATHERS,
        Departure.trips: name in LOOPS or name == "solve",
        Departure.libraries: kept == CALLS.name,
    }
    assert named == {departure for departure, departs in expected.items() if departs}
    assert (entry_work(found)._asdict() == told) == (not named)


def test_a_gather_in_a_fusion_costs_less_than_its_table() -> None:
    for name in GATHERS:
        found, told = recorded_one(COSTS.name, name)
        assert entry_work(found).bytes < told["bytes"] / 10


@pytest.mark.parametrize(("name", "count"), LOOPS.items())
def test_a_loop_costs_what_its_trips_do(name: str, count: int) -> None:
    found, _ = recorded_one(UNSEEN.name if name in ("power_iteration", "uniform") else COSTS.name, name)
    (loop,) = (one for one in found.instructions.values() if one.opcode == "while")
    once = work(found, loop, OURS - {Departure.trips})
    assert min(once.flops, once.bytes) > 0
    assert trips(loop) == count
    assert work(found, loop) == Work(*(count * part for part in once))
    known = facts(found, loop)
    by_rules_of_xla = [known.xla_flops, known.xla_transcendentals, known.xla_bytes]
    assert by_rules_of_xla == [figure or None for figure in once]
    assert known.departs == "loop trips"


def test_departures_are_named_where_they_make_a_difference() -> None:
    found = triton_product()
    theirs, named = by_xla(found, found.by_name["gemm_fusion_dot.1"])
    assert (theirs, named) == (Work(2 * 4 * 8 * 16, 0, 2 * 4 * 16), [Departure.passed])
    known = facts(found, found.by_name["gemm_fusion_dot.1"])
    assert (known.xla_flops, known.xla_bytes, known.departs) == (None, 128, "passed on")
    plain = read(mlp())
    assert by_xla(plain, plain.by_name["dot.3"]) == (of(plain, "dot.3"), [])


def loop(config: str) -> Program:
    """A loop over a loop over a call of a library, each with this configuration."""
    of_one, call = shape(F32, 4), block(28, "custom")
    return read(
        program(
            "jit_l", 3,
            computation(1, "inner", 12, instruction(11, "p", "parameter", of_one),
                        instruction(12, "call.1", "custom-call", of_one, [11], more=call)),
            computation(2, "outer", 22, instruction(21, "p", "parameter", of_one),
                        instruction(22, "while.1", "while", of_one, [21], calls=[1], more=block(43, config))),
            computation(3, "main", 32, instruction(31, "p", "parameter", of_one),
                        instruction(32, "while.2", "while", of_one, [31], calls=[2], more=block(43, config))),
        )
    )  # fmt: skip


def test_loops_in_loops_multiply() -> None:
    found = loop('{"known_trip_count":{"n":"7"},"known_init_step":{"init":"0","step":"1"}}')
    assert of(found, "while.2") == Work(0, 0, 7 * 7 * 2 * 16)
    assert by_xla(found, found.by_name["while.2"]) == (Work(-1, 0, -1), [Departure.trips, Departure.libraries])


@pytest.mark.parametrize(
    "config",
    ["", "known_trip_count", '{"known_trip_count":7}', '{"known_trip_count":{}}', '{"known_trip_count":{"n":"-7"}}',
     '{"known_trip_count":{"n":"1e3"}}', '{"known_trip_count":{"n":"' + "9" * 5000 + '"}}',
     '{"known_trip_count":' + "[" * 100_000],
)  # fmt: skip
def test_loops_whose_trips_nobody_knows_count_once(config: str) -> None:
    assert of(loop(config), "while.2") == Work(0, 0, 2 * 16)


def test_a_loop_that_never_runs_costs_nothing() -> None:
    assert of(loop('{"known_trip_count":{"n":"0"}}'), "while.2") == Work()
