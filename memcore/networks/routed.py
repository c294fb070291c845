"""The row of a sparse feed-forward layer: how a family names its router and its experts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from memcore.networks.parts import Experts
from memcore.networks.reader import Reader
from memcore.networks.rows import Dense, activation_of
from memcore.networks.weights import Constant, Linear, Weight
from memcore.records import dataclass
from memcore.symbols import Axis, Shape

Decides: TypeAlias = "str | bool | Callable[[Reader], bool]"
"""The key that decides, what the code fixes, or how a family computes it."""


def decided(reader: Reader, decides: Decides) -> bool:
    """Return what is decided for the file at hand."""
    return decides(reader) if callable(decides) else reader.flag(decides)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A sparse feed-forward layer of routed experts."""

    variant: str
    module: str = "mlp"
    router: str = "gate"
    router_bias: bool = False
    experts: str = "experts"
    layout: str = "fused"
    """`fused`: gate_up_proj (E, 2m, h) and down_proj (E, h, m); `transposed`: (E, h, 2m) and (E, m, h); `ungated`:
    up_proj (E, m, h) and down_proj; `stacked`: w1, v1 and w2 (E·m, h)."""
    bias: bool = False
    width: str = "moe_intermediate_size"
    count: str = "num_experts"
    chosen: str = "num_experts_per_tok"
    activation: str = "hidden_act"
    fixed_activation: str | None = None
    shared: Dense | None = None
    shared_if: str | None = None
    """A key that counts shared experts; without any there are none."""
    shared_gate: str | None = None
    routing: tuple[Weight, ...] = ()
    """Further parameters of the router, named relative to the module."""
    router_module: str = "own"
    """What holds its matrix, as in `Linear.module`."""
    router_dtype: str | None = None
    """The dtype that the code gives the router, whatever the model's."""
    correction: str | None = None
    correction_if: Decides = True
    correction_dtype: str | None = None
    """The dtype that the code gives it; None: the model's, as long as it is not loaded from a checkpoint, which keeps
    it in fp32."""
    tabled: bool = False
    """A table says which experts every word goes to."""
    groups: tuple[str, str] | None = None
    """The keys of how many groups experts form, and how many of them a token can choose from."""
    groups_if: Decides = True
    options: tuple[tuple[str, Decides], ...] = ()
    """What the variant leaves open, with what decides."""
    experts_first: bool = False
    """The experts are made before the router."""
    looped: bool = False
    """Experts run one after the other in a Python loop."""
    latent: str | None = None
    """The key of a smaller width in which experts work (Nemotron 3)."""
    latent_names: tuple[str, str] = ("fc1_latent_proj", "fc2_latent_proj")
    """The matrices into it and out of it."""

    def read(self, reader: Reader) -> Experts:
        """Return the sparse layer."""
        many, chosen = reader.symbol("E", reader.integer(self.count)), reader.symbol("e", reader.integer(self.chosen))
        if reader.sizes[chosen] > reader.sizes[many]:
            reader.refuse(self.chosen, "{} of {} experts", reader.sizes[chosen], reader.sizes[many])
        m = reader.symbol("m", reader.integer(self.width))
        prefix = f"{self.module}." if self.module else ""
        source, around = self._latent(reader)
        has_shared = self.shared is not None and (self.shared_if is None or reader.integer(self.shared_if, 0, least=0))
        correction = f"{prefix}{self.correction}" if self.correction and decided(reader, self.correction_if) else None
        return Experts(
            module=self.module,
            router=Linear(
                f"{prefix}{self.router}",
                (many,),
                ("h",),
                self.router_bias,
                dtype=self.router_dtype,
                module=self.router_module,
            ),
            experts=tuple(self._experts(f"{prefix}{self.experts}", many, m, source)),
            activation=self.fixed_activation or activation_of(reader, self.activation),
            gated=self.layout != "ungated",
            variant=self.variant,
            shared=self.shared.read(reader) if self.shared is not None and has_shared else None,
            shared_gate=Linear(f"{prefix}{self.shared_gate}", (1,), ("h",)) if self.shared_gate else None,
            routing=tuple(replace(weight, name=f"{prefix}{weight.name}") for weight in self.routing),
            latent=around,
            correction=Constant(correction, (many,), self.correction_dtype) if correction else None,
            table=Constant(f"{prefix}{self.router}.tid2eid", ("V", chosen), "int64") if self.tabled else None,
            routed=chosen,
            groups=self._groups(reader),
            options=frozenset(name for name, decides in self.options if decided(reader, decides)),
            loops=reader.sizes[many] if self.looped else 0,
            experts_first=self.experts_first,
        )

    def _groups(self, reader: Reader) -> tuple[Axis, Axis] | None:
        if self.groups is None or not decided(reader, self.groups_if):
            return None
        groups, chosen = self.groups
        return reader.symbol("ge", reader.integer(groups)), reader.symbol("te", reader.integer(chosen))

    def _latent(self, reader: Reader) -> tuple[str, tuple[Linear, ...]]:
        if self.latent is None or not reader.has(self.latent):
            return "h", ()
        width = reader.symbol("le", reader.integer(self.latent))
        names = [f"{self.module}.{each}" for each in self.latent_names]
        return width, (Linear(names[0], (width,), ("h",)), Linear(names[1], ("h",), (width,)))

    def _experts(self, name: str, many: str, m: str, source: str) -> list[Weight]:
        shapes: dict[str, dict[str, tuple[Shape, ...]]] = {
            "fused": {"gate_up_proj": ((many,), (2, m), (source,)), "down_proj": ((many,), (source,), (m,))},
            "transposed": {"gate_up_proj": ((many,), (source,), (2, m)), "down_proj": ((many,), (m,), (source,))},
            "ungated": {"up_proj": ((many,), (m,), (source,)), "down_proj": ((many,), (source,), (m,))},
            "stacked": dict.fromkeys(("w1", "v1", "w2"), ((many, m), (source,))),
        }
        found = {
            matrix: Weight(
                f"{name}.{matrix}", axes, "routed-expert", split="outer" if "down" not in matrix else "inner"
            )
            for matrix, axes in shapes[self.layout].items()
        }
        if not self.bias:
            return list(found.values())
        widths: dict[str, Shape] = {"gate_up_proj": (2, m), "down_proj": ("h",)}
        biases = {
            matrix: Weight(f"{name}.{matrix}_bias", ((many,), axes), "routed-expert") for matrix, axes in widths.items()
        }
        return [weight for matrix in found for weight in (found[matrix], biases[matrix])]


def shared_expert(
    name: str, width: str = "moe_intermediate_size", times: str | None = None, **changes: object
) -> Dense:
    """Return a dense layer in parallel to routed experts."""
    return replace(Dense(module=name, width=width, times=times, symbol="w", kind="shared-expert"), **changes)  # type: ignore[arg-type]
