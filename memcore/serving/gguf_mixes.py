"""Which type `llama-quantize` gives a tensor: the rules of its file types, as a table.

Source: `llama_tensor_get_type_impl` of llama.cpp's `src/llama-quant.cpp` (ggml 0.25, llama.cpp 0.5). For a tensor, the
first row counts whose role is the tensor's, whose file types contain the one at hand, and whose conditions all hold;
without one, the tensor has the file's base type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from memcore.records import dataclass

FILE_TYPES: Mapping[str, str] = {
    "F32": "F32", "F16": "F16", "BF16": "BF16",
    "Q4_0": "Q4_0", "Q4_1": "Q4_1", "Q5_0": "Q5_0", "Q5_1": "Q5_1", "Q8_0": "Q8_0", "Q1_0": "Q1_0", "Q2_0": "Q2_0",
    "MXFP4_MOE": "MXFP4", "TQ1_0": "TQ1_0", "TQ2_0": "TQ2_0",
    "Q2_K": "Q2_K", "Q2_K_S": "Q2_K", "Q3_K_S": "Q3_K", "Q3_K_M": "Q3_K", "Q3_K_L": "Q3_K",
    "Q4_K_S": "Q4_K", "Q4_K_M": "Q4_K", "Q5_K_S": "Q5_K", "Q5_K_M": "Q5_K", "Q6_K": "Q6_K",
    "IQ1_S": "IQ1_S", "IQ1_M": "IQ1_M", "IQ2_XXS": "IQ2_XXS", "IQ2_XS": "IQ2_XS", "IQ2_S": "IQ2_XS", "IQ2_M": "IQ2_S",
    "IQ3_XXS": "IQ3_XXS", "IQ3_XS": "IQ3_S", "IQ3_S": "IQ3_S", "IQ3_M": "IQ3_S", "IQ4_NL": "IQ4_NL", "IQ4_XS": "IQ4_XS",
}  # fmt: skip
"""The base type of each file type (`llama_ftype_get_default_type`)."""

ALIASES: Mapping[str, str] = {
    "Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "FP16": "F16", "FP32": "F32",
    "MXFP4": "MXFP4_MOE",
}  # fmt: skip
"""Other names of file types."""
WIDER: Mapping[str, str] = {
    "q2_k_l": "q2_k", "q3_k_xl": "q3_k_m", "q4_k_l": "q4_k_m", "q5_k_l": "q5_k_m", "q6_k_l": "q6_k", "q2_k_xl": "q2_k",
    "q4_k_xl": "q4_k_m", "q5_k_xl": "q5_k_m", "q6_k_xl": "q6_k", "q8_k_xl": "q8_0",
}  # fmt: skip
"""What repositories call files whose embeddings, head or some layers are wider than llama-quantize makes them."""


def plain_type(text: str) -> str:
    """Return a file type as a repository's tag, a file's name or an Ollama tag has it.

    >>> plain_type("UD-Q4_K_XL"), plain_type("fp16")
    ('q4_k_xl', 'f16')
    """
    found = text.lower().removeprefix("ud-")
    # There is one type of eight bits (tools/quantize/quantize.cpp).
    return {"fp16": "f16", "fp32": "f32", "q8": "q8_0"}.get(found, found)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor stands, and in what kind of model."""

    role: str
    """What it is for: value, down, output …"""
    index: int
    """Tensors of its role that came before (`i_ffn_down` …); with experts, the layer."""
    counted: int
    """Tensors of its role that came before, experts or not."""
    count: int
    """Of how many: layers, or tensors that are like values."""
    groups: int
    """Query heads for each key head of the first layer."""
    experts: int
    seventy: bool
    """llama.cpp takes it for a 70B model."""
    falcon: bool
    imatrix: bool

    @property
    def more_bits(self) -> bool:
        """Return whether a layer is in the first or last eighth, or every third in between (`use_more_bits`)."""
        eighth = self.count // 8
        return self.index < eighth or self.index >= 7 * self.count // 8 or (self.index - eighth) % 3 == 2


CONDITIONS: Mapping[str, Callable[[Place], bool]] = {
    "groups≥4": lambda at: at.groups >= 4,
    "groups≥4|experts≥4": lambda at: at.groups >= 4 or at.experts >= 4,
    "experts=8": lambda at: at.experts == 8,
    "experts≠8": lambda at: at.experts != 8,
    "70B": lambda at: at.seventy,
    "falcon": lambda at: at.falcon,
    "not falcon": lambda at: not at.falcon,
    "imatrix": lambda at: at.imatrix,
    "no imatrix": lambda at: not at.imatrix,
    "more bits": lambda at: at.more_bits,
    "i<n/8": lambda at: at.index < at.count // 8,
    "counted<n/8": lambda at: at.counted < at.count // 8,
    "i<n/16": lambda at: at.index < at.count // 16,
    "i<2": lambda at: at.index < 2,
    "i<4": lambda at: at.index < 4,
    "n/8≤i<7n/8": lambda at: at.count // 8 <= at.index < 7 * at.count // 8,
}

_LOW = "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M"

_TABLE = f"""
output  IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS | - | Q5_K
embedding  IQ1_S IQ1_M IQ2_XXS IQ2_XS | - | Q2_K
embedding  IQ2_S IQ2_M IQ3_XXS | - | IQ3_S
embedding  TQ1_0 TQ2_0 Q2_0 | - | Q4_K

value  {_LOW} | groups≥4|experts≥4 | Q4_K
value  IQ2_S IQ2_M | - | IQ3_S
value  {_LOW} | - | Q2_K
key  {_LOW} | experts=8 | Q4_K
down  IQ2_S IQ2_M | counted<n/8 | IQ3_S
down  {_LOW} | counted<n/8 | Q2_K
attention-output  {_LOW} | experts=8 | Q5_K
attention-output  IQ1_S IQ1_M | - | IQ2_XXS
attention-output  IQ2_S IQ2_M | - | IQ3_S

value  Q2_K | groups≥4 | Q4_K
value  Q2_K | - | Q3_K
value  Q2_K_S | groups≥4 | Q4_K
value  IQ3_XXS | groups≥4 | Q4_K
value  IQ3_XXS | no imatrix | IQ3_S
value  IQ3_XS IQ3_S | groups≥4 | Q4_K
value  IQ3_M | - | Q4_K
value  Q3_K_M | i<2 | Q5_K
value  Q3_K_M | - | Q4_K
value  Q3_K_L | - | Q5_K
value  IQ4_NL IQ4_XS | groups≥4 | Q5_K
value  Q4_K_M Q5_K_M | more bits | Q6_K
value  Q4_K_S | i<4 | Q5_K

key  IQ3_XS | - | IQ3_XXS
key  IQ3_XXS | - | IQ2_S
query  IQ3_XS | - | IQ3_XXS
query  IQ3_XXS | - | IQ2_S

down  Q2_K | - | Q3_K
down  Q2_K_S | i<n/8 | Q4_K
down  IQ3_XXS | no imatrix, i<n/8 | Q4_K
down  IQ3_XXS | no imatrix | Q3_K
down  Q3_K_M | i<n/16 | Q5_K
down  Q3_K_M | not falcon | Q4_K
down  Q3_K_M | more bits | Q4_K
down  IQ3_M | i<n/8 | Q4_K
down  IQ3_M | experts=8, more bits | Q4_K
down  Q3_K_L | falcon | Q4_K
down  Q3_K_L | - | Q5_K
down  Q4_K_M | falcon, i<n/16 | Q6_K
down  Q4_K_M | falcon, more bits | Q5_K
down  Q4_K_M | not falcon, more bits | Q6_K
down  IQ4_NL IQ4_XS | no imatrix, i<n/8 | Q5_K
down  Q5_K_M | more bits | Q6_K
down  Q4_K_S | not falcon, i<n/8 | Q5_K
down  Q4_0 | imatrix, i<n/8 | Q4_1
down  Q5_0 | imatrix, i<n/8 | Q5_1

attention-output  Q3_K_L | falcon | Q4_K
attention-output  Q2_K Q3_K_S Q3_K_M Q4_K_S Q4_K_M | experts=8, not falcon | Q5_K
attention-output  IQ3_XXS IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS | experts=8, not falcon | Q5_K
attention-output  Q2_K | experts≠8, not falcon | Q3_K
attention-output  IQ3_XXS | experts≠8, not falcon | IQ3_S
attention-output  Q3_K_M IQ3_M | experts≠8, not falcon | Q4_K
attention-output  Q3_K_L | experts≠8, not falcon | Q5_K

gate  IQ3_XS | n/8≤i<7n/8 | IQ3_XXS
up  IQ3_XS | n/8≤i<7n/8 | IQ3_XXS
"""

ABOVE: Mapping[str, tuple[tuple[str, str, Mapping[str, str] | str], ...]] = {
    "value": (("above", "70B", {"Q3_K": "Q5_K", "Q4_K": "Q5_K"}), ("above", "experts=8", "Q8_0")),
    "key": (("instead", "experts=8", "Q8_0"),),
}
"""What holds for file types above two bits on top of the table: a role's conditions, and the type, or what it turns
into."""
TWO_BITS = frozenset(_LOW.split())

FALLBACK: Mapping[str, str] = {
    **dict.fromkeys(("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_XS"), "IQ4_NL"),
    **dict.fromkeys(("Q2_0", "Q2_K", "Q3_K", "TQ1_0", "TQ2_0"), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
"""For rows that are no whole number of blocks (`tensor_type_fallback`); F16 where the row does not fit that either."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of the table."""

    role: str
    file_types: frozenset[str]
    conditions: tuple[str, ...]
    type: str

    def holds(self, file_type: str, at: Place) -> bool:
        """Return whether it decides for a tensor of its role."""
        return file_type in self.file_types and all(CONDITIONS[each](at) for each in self.conditions)


def parse(table: str) -> tuple[Rule, ...]:
    """Return the rows of a table of rules: role, file types | conditions | type."""
    found = []
    for line in table.splitlines():
        if line.strip():
            head, _, rest = line.partition(" | ")
            conditions, _, kind = rest.rpartition(" | ")
            role, *file_types = head.split()
            named = () if conditions == "-" else tuple(conditions.split(", "))
            found.append(Rule(role, frozenset(file_types), named, kind.strip()))
    return tuple(found)


RULES = parse(_TABLE)


def decided(role: str, file_type: str, at: Place) -> str | None:
    """Return the type that the table gives a tensor of a role, if any."""
    return next((rule.type for rule in _BY_ROLE.get((role, file_type), ()) if rule.holds(file_type, at)), None)


_BY_ROLE: Mapping[tuple[str, str], tuple[Rule, ...]] = {
    (role, each): tuple(rule for rule in RULES if rule.role == role and each in rule.file_types)
    for role in {rule.role for rule in RULES}
    for each in FILE_TYPES
}
