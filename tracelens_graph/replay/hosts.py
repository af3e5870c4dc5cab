"""Which tensors of a call are on the host though it works on a device: what copies tell, and what PyTorch demands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracelens_graph.replay.arguments import Argument, Named, TensorValue, Value, mapped
from tracelens_graph.replay.call import Call

_ON_HOST = {
    ("_pack_padded_sequence", "lengths"), ("_pad_packed_sequence", "batch_sizes"),
    ("_pack_padded_sequence_backward", "batch_sizes"), ("lstm", "batch_sizes"), ("gru", "batch_sizes"),
    ("rnn_tanh", "batch_sizes"), ("rnn_relu", "batch_sizes"), ("tensor_split", "tensor_indices_or_sections"),
    ("_cudnn_ctc_loss", "targets"), ("_cudnn_ctc_loss", "input_lengths"), ("_cudnn_ctc_loss", "target_lengths"),
}  # fmt: skip
"""(op, argument) that PyTorch demands on the host."""

_COPIES = {"copy_": "src", "_to_copy": "self", "to": "self"}
"""Ops that copy between host and device -> the argument that is copied."""


def with_hosts(call: Call, arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with those tensors on the host that belong there.

    An execution trace tells devices. Without one, the kind of a copy below the call does: `Memcpy HtoD`.
    """
    name = call.op.partition("::")[2]
    if not call.has_gpu:
        arguments = [replace(one, value=mapped(one.value, _anywhere)) for one in arguments]
    host = {argument for op, argument in _ON_HOST if op == name}
    if name in _COPIES and len(call.observed) != len(call):
        copies = " ".join(call.around.kernels)
        if "HtoD" in copies or "HostToDevice" in copies:
            host.add(_COPIES[name])
            arguments = [_on(one, "device") for one in arguments]
        elif "DtoH" in copies or "DeviceToHost" in copies:
            host |= {"self"} if name == "copy_" else set()
            arguments = [_on(one, "cpu") for one in arguments]
    if not host:
        return list(arguments)
    return [replace(one, value=mapped(one.value, _host)) if one.name in host else one for one in arguments]


def _on(argument: Argument, device: str) -> Argument:
    """An argument that is a device, as one."""
    return replace(argument, value=Named("device", device)) if argument.type.startswith("Device") else argument


def _host(tensor: TensorValue, place: int) -> Value:
    return replace(tensor, on_cpu=True)


def _anywhere(tensor: TensorValue, place: int) -> Value:
    return replace(tensor, on_cpu=False) if tensor.on_cpu else tensor
