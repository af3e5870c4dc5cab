"""AdamW over all parameters of a rank."""

from __future__ import annotations

from tracelens_graph.simulate import kernels
from tracelens_graph.simulate.host import Thread
from tracelens_graph.simulate.tensors import Storage, Tensor, contiguous

CHUNK_ELEMENTS = 320 * 65536
"""What one multi-tensor kernel takes on at most."""


class Optimizer:
    """The parameters, and what AdamW keeps about each."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self._parameters = parameters
        self._averages, self._squares, self._scratch = ([_like(p) for p in parameters] for _ in range(3))

    def zero_grad(self, t: Thread) -> None:
        """Give back the gradients of the last step."""
        with (
            t.frame("torch/optim/optimizer.py(1065): zero_grad"),
            t.annotation("Optimizer.zero_grad#AdamW.zero_grad"),
        ):
            for grad in t.process.gradients.values():
                t.process.release(t, grad.storage)
            t.process.gradients.clear()

    def step(self, t: Thread) -> None:
        """One step, one operator over all parameters after the other."""
        parameters, averages, squares, scratch = self._parameters, self._averages, self._squares, self._scratch
        grads = [t.process.gradients[p] for p in parameters]
        rates = [1e-3] * len(parameters)
        steps = (
            ("aten::_foreach_mul_", (parameters, 0.99999), "BinaryOpScalarFunctor", 2),
            ("aten::_foreach_lerp_", (averages, grads, 0.1), "TernaryOpScalarFunctor", 3),
            ("aten::_foreach_mul_", (squares, 0.999), "BinaryOpScalarFunctor", 2),
            ("aten::_foreach_addcmul_", (squares, grads, grads, 0.001), "PointwiseOpScalarFunctor", 4),
            ("aten::_foreach_sqrt", (squares,), "UnaryOpFunctor", 2),
            ("aten::_foreach_div_", (scratch, rates), "BinaryOpScalarListFunctor", 2),
            ("aten::_foreach_add_", (scratch, 1e-8), "BinaryOpScalarFunctor", 2),
            ("aten::_foreach_addcdiv_", (parameters, averages, scratch, rates), "PointwiseOpScalarListFunctor", 4),
        )
        total = sum(p.numel for p in parameters)
        with (
            t.frame("torch/optim/optimizer.py(517): wrapper"),
            t.annotation("Optimizer.step#AdamW.step"),
            t.frame("torch/optim/optimizer.py(79): _use_grad"),
            t.frame("torch/optim/adamw.py(153): step"),
            t.frame("torch/optim/adam.py(590): _multi_tensor_adam"),
        ):
            for name, inputs, functor, tensors in steps:
                with t.op(name, *inputs):
                    for done in range(0, total, CHUNK_ELEMENTS):
                        part = min(CHUNK_ELEMENTS, total - done)
                        t.launch(kernels.multi_tensor_apply(functor, part, tensors))


def _like(parameter: Tensor) -> Tensor:
    return Tensor(parameter.shape, contiguous(parameter.shape), parameter.dtype, Storage(0))
