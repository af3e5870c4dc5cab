"""A planned call of one operation: plain data, from which a program or this process makes tensors and calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from math import prod
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from tracelens_graph.perf.scalar_types import DTYPES, LAYOUTS, MEMORY_FORMATS, item_size
from tracelens_graph.replay.schemas import Parameter, parse

_LARGEST = 1 << 62
Word = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", max_length=60)]
Count = Annotated[int, Meta(ge=0, le=_LARGEST)]

RULES: Mapping[str, frozenset[str]] = {
    rule: frozenset(options.split())
    for rule, options in {
        "normal": "", "zeros": "", "raw": "", "constant": "value", "integers": "high low", "uniform": "low high",
        "mask": "share", "first": "count", "rising": "high row", "starts": "high skip", "parts": "total",
        "falling": "total most", "counted": "row start", "matrices": "size",
    }.items()
}  # fmt: skip
"""Rules that fill tensors, which are those of `replay.program.values`, and the options of each."""

NAMED: Mapping[str, tuple[str, Sequence[str]]] = {
    "ScalarType": ("dtype", DTYPES), "Layout": ("layout", LAYOUTS), "MemoryFormat": ("memory_format", MEMORY_FORMATS),
}  # fmt: skip
"""Types of a schema whose values are recorded as numbers of an enum -> what they are, and their names."""

_ONLY_WRITE = frozenset({
    "fill_", "zero_", "copy_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_",
    "log_normal_", "_foreach_copy_", "_foreach_zero_",
})  # fmt: skip
"""Operations that write an argument and do not read it."""


class Plain(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Plain data: what is at its default is left out of its JSON."""


class Fill(Plain, frozen=True, array_like=True):
    """What a tensor holds.

    Attributes:
        rule: name of a rule: `normal`, `integers` ...
        options: what the rule is given besides, by parameter: `{"high": 32000}`.
    """

    rule: Word = "normal"
    options: Mapping[str, int | float | bool | tuple[int, ...]] = {}


NORMAL = Fill()


class TensorValue(Plain, frozen=True):
    """A tensor to make.

    Attributes:
        shape: sizes.
        dtype: type of its elements, as torch names it: `bfloat16`, `int64`.
        strides: in elements; None where they were not recorded: contiguous.
        fill: what it holds.
        layout: `strided`, `sparse_coo`, `sparse_csr` ...
        storage: number of its storage within a program; tensors with one number share memory. None: one of its own.
        offset: elements before its first one in its storage.
        on_cpu: whether it stays on the host whatever device the program runs on.
        reach: elements that its storage has at least, where others reach beyond this tensor.
        grad: whether autograd follows it.
        conj: whether it is a view that stands for the conjugates of what is stored.
    """

    shape: tuple[Count, ...]
    dtype: Word
    strides: tuple[Annotated[int, Meta(ge=-_LARGEST, le=_LARGEST)], ...] | None = None
    fill: Fill = NORMAL
    layout: Word = "strided"
    storage: Count | None = None
    offset: Count = 0
    on_cpu: bool = False
    reach: Count = 0
    grad: bool = False
    conj: bool = False

    @property
    def is_filled(self) -> bool:
        """Whether a rule fills it, as all but sparse and quantized ones."""
        return self.layout == "strided" and not self.dtype.startswith(("qint", "quint"))

    @property
    def options(self) -> frozenset[str]:
        """What its contents can be given besides their rule."""
        if self.layout != "strided":
            return frozenset({"entries", "dense", "coalesced"} if self.layout == "sparse_coo" else {"entries"})
        return RULES[self.fill.rule] if self.is_filled else frozenset()

    @property
    def span(self) -> int:
        """Elements from its first to its last in memory; of a sparse one as if it were dense."""
        if 0 in self.shape or self.strides is None:
            return prod(self.shape)
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.strides, strict=True))

    @property
    def bytes(self) -> int:
        """Bytes of its storage."""
        try:
            size = item_size(self.dtype)
        except KeyError:  # PyTorch has no such dtype, and says so
            size = 1
        return max(self.offset + self.span, self.reach) * size


class Named(Struct, frozen=True):
    """A value that torch has by name: `Named("dtype", "float32")`, `Named("memory_format", "channels_last")`.

    Attributes:
        kind: what it is.
        name: its name in torch; of a device `device` for that of the program or `cpu`; of a generator empty.
    """

    kind: Literal["dtype", "layout", "memory_format", "device", "generator"]
    name: str = ""


class Use(Struct, frozen=True):
    """A tensor of a sequence of calls, where it is an argument.

    Attributes:
        number: its number in the sequence.
        tensor: what it is; how it is made if no call has made it.
        of: number of the result that it is a view of; None for what is none.
    """

    number: int
    tensor: TensorValue
    of: int | None = None


Value: TypeAlias = "bool | int | float | complex | str | TensorValue | Named | Use | tuple[Value, ...] | None"
"""What an argument can be; lists are tuples here."""


class Argument(Struct, frozen=True):
    """One argument of a planned call.

    Attributes:
        name: its name in the schema.
        type: its type as the schema writes it: `Tensor`, `SymInt[2]`, `ScalarType?`.
        value: what is passed.
        assumed: why this value, where the trace does not show it; empty where it does.
    """

    name: str
    type: str
    value: Any
    assumed: str = ""

    def changed(self, change: Callable[[TensorValue, int], Value]) -> Argument:
        """The argument with each tensor in it changed; `change` gets the place in its list, 0 for no list."""
        return replace(self, value=mapped(self.value, change))


def mapped(value: Value, change: Callable[[TensorValue, int], Value], place: int = 0) -> Value:
    """A value with each tensor in it changed; see `Argument.changed`."""
    if isinstance(value, TensorValue):
        return change(value, place)
    return tuple(mapped(one, change, at) for at, one in enumerate(value)) if isinstance(value, tuple) else value


def tensors(value: Value) -> Iterator[TensorValue]:
    """All tensors in a value."""
    if isinstance(value, TensorValue | Use):
        yield value.tensor if isinstance(value, Use) else value
    elif isinstance(value, tuple):
        for one in value:
            yield from tensors(one)


def uses(values: Iterable[Value]) -> Iterator[Use]:
    """All tensors that have numbers, in order."""
    for value in values:
        if isinstance(value, Use):
            yield value
        elif isinstance(value, tuple):
            yield from uses(value)


class Recorded(Plain, frozen=True):
    """The arguments of a call as the profiler wrote them, one entry per argument; empty where it did not."""

    dims: tuple[Any, ...] = ()
    types: tuple[str, ...] = ()
    strides: tuple[Any, ...] = ()
    values: tuple[str, ...] = ()


class Traced(Plain, frozen=True):
    """What a trace says of the calls of one signature.

    Attributes:
        calls: how many there are.
        uid: the call that was planned: that with the most GPU time.
        kernels: names of the GPU work below that call, in order of launch.
        children: names of the ops that it calls, in order, at all depths.
        kernel_us: time of that call's GPU work, the sum of durations, in us.
        median_us: median over all calls of the sum of their GPU work, in us.
        gpu: name of the GPU; empty where the trace does not show.
        host_us: duration of that call on the host, in us.
        total_us: sum over all calls of their GPU work, in us.
        percent: `total_us` as share of the GPU time of the trace, or of its part; 0 where that is not known.
        trace: name of the trace's file, and its part.
        within: the traced operation, where another one is called that leads to it on the traced GPU; empty otherwise.
    """

    calls: int = 1
    uid: int = -1
    kernels: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    kernel_us: float = 0.0
    median_us: float = 0.0
    gpu: str = ""
    host_us: float = 0.0
    total_us: float = 0.0
    percent: float = 0.0
    trace: str = ""
    within: str = ""


class Work(Plain, frozen=True):
    """What performance models say of a call.

    Attributes:
        flops, bytes: floating-point operations and bytes moved; None where no model knows.
        roof_us: least time on the traced GPU, in us; None where the device is not known.
    """

    flops: float | None = None
    bytes: float | None = None
    roof_us: float | None = None


class Launch(Plain, frozen=True):
    """A launch of a kernel that PyTorch's compiler wrote in Triton, whose source no trace has.

    Attributes:
        kernel: its name.
        source: name of the file, beside the program, that its source is read from.
        grid: programs in x, y and z.
        options: `num_warps` and `num_stages`, as far as they are recorded.
        file: name of the file that it was compiled from; empty where not recorded.
    """

    kernel: str
    source: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]+\.py\Z", max_length=80)]
    grid: tuple[Count, Count, Count]
    options: Mapping[Word, Count] = {}
    file: str = ""


class ReplayPlan(Struct, frozen=True):
    """One operation with arguments, ready to be called.

    Attributes:
        op: its name with the namespace: `aten::mm`.
        overload: the overload, empty for the default one.
        schema: its schema, as PyTorch registers it.
        positional, keyword: its arguments.
        recorded: what the profiler wrote of them: a replay should be recorded alike.
        traced: what the trace says of the calls that it stands for.
        work: what models say of one call.
        notes: what else is not as it was, in words.
        imports: modules that register the operation, where it is none of PyTorch's own.
        gradient: if there are any, the gradient of the operation is called, given these gradients of its results.
        modes: what PyTorch is to be in during the call: `no_grad`, `below_autograd`, `autocast bfloat16`, and settings
            of `torch.backends` such as `cudnn.benchmark=True`.
        launch: the kernel that is launched, where it is no operation of a library.
    """

    kind: ClassVar[str] = "op"

    op: str
    overload: str
    schema: str
    positional: tuple[Argument, ...]
    keyword: tuple[Argument, ...] = ()
    recorded: Recorded = Recorded()
    traced: Traced = Traced()
    work: Work = Work()
    notes: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    gradient: tuple[TensorValue | None, ...] = ()
    launch: Launch | None = None

    @property
    def name(self) -> str:
        """What it is called: its operation; of a gradient the traced operation."""
        return self.traced.within if self.gradient else self.op

    @property
    def arguments(self) -> Iterator[Argument]:
        """All arguments, positional ones first."""
        yield from self.positional
        yield from self.keyword

    @property
    def given(self) -> tuple[list[Argument], list[Argument]]:
        """The arguments that are passed, positional and by keyword: those that differ from the schema's defaults.

        What an older version of PyTorch lacks mostly has its default, so that it is not passed there either.
        """
        parameters = {one.name: one for one in parse(self.schema).parameters}
        positional: list[Argument] = []
        keyword: list[Argument] = []
        for at, one in enumerate(self.arguments):
            if one.name not in parameters or not is_default(one.value, parameters[one.name]):
                (positional if at == len(positional) < len(self.positional) else keyword).append(one)
        return positional, keyword

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the trace does not show and was chosen, in words, one entry per argument."""
        return tuple(f"{one.name}: {one.assumed}" for one in self.arguments if one.assumed)

    @property
    def restored(self) -> tuple[str, ...]:
        """Names of the arguments that the operation reads and writes, so that a second call would see the first one's.

        That is what the schema says is written, but for operations that only write, and for `out` arguments that have
        elements: those without any grow, and the next call is to find them empty again.
        """
        if self.op.rpartition("::")[2] in _ONLY_WRITE or (
            self.imports and _module("custom.program").only_writes(self.op)
        ):
            return ()
        empty = {one.name for one in self.keyword if isinstance(one.value, TensorValue) and 0 in one.value.shape}
        return tuple(
            one.name
            for one in parse(self.schema).parameters
            if one.is_written and (not one.is_keyword or one.name in empty)
        )

    @property
    def bytes(self) -> int:
        """Bytes of the storages of all tensors, shared ones once."""
        own, shared = 0, dict[int, int]()
        for one in (tensor for argument in self.arguments for tensor in tensors(argument.value)):
            if one.storage is None:
                own += one.bytes
            else:
                shared[one.storage] = max(shared.get(one.storage, 0), one.bytes)
        return own + sum(shared.values())

    def with_arguments(self, change: Callable[[Argument], Argument]) -> ReplayPlan:
        """The same call with each argument changed."""
        return replace(self, positional=tuple(map(change, self.positional)), keyword=tuple(map(change, self.keyword)))

    def with_traced(self, traced: Traced, work: Work) -> ReplayPlan:
        """The same call with what a trace and models say of it."""
        return replace(self, traced=traced, work=work)

    @property
    def about(self) -> str:
        """The heading of its program in full."""
        text: str = _module("program_text").heading(self)
        return text

    def json(self) -> dict[str, Any]:
        """The plan as plain data."""
        data: dict[str, Any] = _module("plan_json").plan_json(self)
        return data

    def script(self, full: bool = False) -> str:
        """Its program: one file, which needs PyTorch alone.

        Args:
            full: the program with the plan as JSON, which checks and restores more and has more options; in place of
                the short one that a person reads. Tensors that the short one has no words for are in full in any case.
        """
        text: str = _module("short_program").script(self, full)
        return text

    def run(self, device: str | None = None) -> Any:
        """Call the operation once in this process.

        Args:
            device: such as `cuda`; by default a GPU where there is one.

        Raises:
            CannotReplay: the installed PyTorch has no such operator.
            NoTorchError: PyTorch is not installed.
            RuntimeError: PyTorch refuses the call.
        """
        return _module("run").run(self, device)


def named(parameter: Parameter, value: Value) -> Value:
    """A value as a parameter has it: of a type that torch has names for, the name in place of the number."""
    if parameter.kind.base in NAMED and type(value) is int:
        kind, names = NAMED[parameter.kind.base]
        return Named(kind, names[value])  # type: ignore[arg-type]
    return value


def default_of(parameter: Parameter) -> Value:
    """The value of an argument that is not given; None also where there is no default."""
    value = parameter.default_value
    return tuple(value) if isinstance(value, list) else named(parameter, value)


def is_default(value: Value, parameter: Parameter) -> bool:
    """Whether an argument is as if it were not given."""
    default = default_of(parameter)
    same_type = type(value) is type(default) or parameter.kind.base == "float"
    return parameter.default is not None and same_type and value == default


def _module(name: str) -> Any:
    """What does something with plans, and so imports this module: it is imported when that is asked for."""
    return import_module(f"tracelens_graph.replay.{name}")
