"""Eager PyTorch without data.

Tensors here have a shape, a dtype and a lifetime, but no numbers. Running a model's forward pass, its loss and
`backward()` on them leaves a *tape*: everything that one GPU allocates and frees during a step, in order. What
autograd keeps for the backward pass is not listed by hand; it follows from one rule per operation
(`operations.py`, after PyTorch's derivatives.yaml) and from ordinary Python lifetimes: a tensor's memory is freed
when its last reference goes, here as in PyTorch.

Shapes are symbols (`b`, `s`, `h` ...), so a tape is recorded once for each structure of a network and then
evaluated for any sizes in microseconds (`memcore.trace.program`).
"""
