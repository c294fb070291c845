"""What a row of the family tables says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from memcore.networks.images import Images
from memcore.networks.network import Tower
from memcore.networks.parts import Extra
from memcore.networks.patterns import FfnPlan, MixerPlan, Place, dense, uniform
from memcore.networks.reader import Reader
from memcore.networks.rows import Dense, FfnRow, Grouped, MixerRow
from memcore.networks.weights import Linear, Weight
from memcore.records import dataclass

Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """How one `model_type` names and wires its parts.

    Names of tensors are those of transformers 5.23; what an absent key means stands in `data/classes.json`.
    """

    mixers: Mapping[str, MixerRow] = field(default_factory=lambda: {"attention": Grouped()})
    ffns: Mapping[str, FfnRow] = field(default_factory=lambda: {"dense": Dense()})
    mixer_plan: MixerPlan = uniform
    ffn_plan: FfnPlan = dense
    second_mixer: Callable[[Place], MixerRow | None] | None = None
    second_ffn: FfnRow | None = None
    second_if: str | None = None
    """A key without which (or with zero) there is no second feed-forward layer."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Canonical name -> this family's own name of a key, in addition to those of its class."""
    path: str = "model.layers"
    embedding: str = "model.embed_tokens"
    embedding_rows: Callable[[Reader], int] | None = None
    """Rows of the embedding, where it has others than the head."""
    embedding_norm: str | None = None
    positions: str | None = None
    position_offset: int = 0
    """Rows of the position table beyond the maximum length."""
    final_norm: str | Callable[[Reader], str | None] = "model.norm"
    head: str = "lm_head"
    head_bias: str | bool = False
    norm: str = "rms"
    norm_bias: str | bool = False
    norms: Names | Callable[[Reader, Place], Names] = ("input_layernorm", "post_attention_layernorm")
    order: tuple[str, ...] = ()
    """A layer's modules as the original makes them, where that is not mixers, feed-forward layers, norms."""
    residual: str | Callable[[Reader, Place], str] = "sequential"
    embedding_scaled: bool = False
    """Its module scales the embedding by a buffer (Gemma)."""
    embedding_multiplied: bool = False
    """The model scales it by a number (Granite)."""
    head_scaled: bool = False
    head_upcast: bool = False
    """Logits are cast to fp32 as soon as they exist (Mamba)."""
    softcap: str | None = "final_logit_softcapping"
    """The key of a cap on logits."""
    more: Callable[[Reader, Place], Extra | None] | None = None
    """Further parameters of a layer."""
    projections: Callable[[Reader], tuple[Linear, ...]] | None = None
    """Out of the layers and into them, where the embedding is narrower."""
    start: str = "decoder"
    """What runs before the layers."""
    others: Callable[[Reader], tuple[Weight, ...]] | None = None
    """Further parameters outside the layers."""
    only: Mapping[str, object] = field(default_factory=dict)
    """Keys of which one value is described; others change the network."""
    ties: bool = True
    """The head can share the embedding's tensor; if not, transformers ignores `tie_word_embeddings`."""
    prediction: str | None = None
    """Layers that predict several tokens, which transformers does not build but checkpoints hold: `copies` embedding
    and head, or `shares` them."""
    drafts: Callable[[Reader], int] | None = None
    """The parameters of such layers, where they are not like the last one."""
    saves_head: bool = False
    """Checkpoints hold the head as well as the embedding whose tensor it shares."""
    like: str | None = None
    """The type whose class says what an absent key means, where transformers has none for this one."""
    warning: str | None = None
    """What a user must know about what is counted."""
    sdpa: bool = True
    """Whether transformers runs this family with SDPA; if not, it falls back to eager attention."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """A language model with towers."""

    text: str
    """The language model's type, where the file does not say."""
    towers: Callable[[Reader, Reader], tuple[tuple[Tower, tuple[int, ...]], ...]]
    """Reads them and how often their runs repeat, given the whole configuration and that of the language model."""
    images: Callable[[Reader, Reader], Images] | None = None
    """What becomes of an image, given the same."""
    early: Callable[[Reader], int] = lambda whole: 0
    """How many of the decoder's first layers are special, given the whole configuration: they are runs of their own."""
    text_key: str = "text_config"
    tied_by: Literal["whole", "text", "either"] = "whole"
    """Whose `tie_word_embeddings` ties the head; the language model's in files from before transformers 5."""
    moved: tuple[str, str] = ("model.", "model.language_model.")
    """How the language model's tensors are renamed."""
    head: str = "lm_head"
    warning: str | None = None
    """What a user must know about what is counted."""
