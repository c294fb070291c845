"""What of a Megatron job learns, and what Megatron Bridge and ms-swift take where a config leaves it open."""

from __future__ import annotations

from dataclasses import replace

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.messages import joined
from memcore.networks.adapters import around, learns, with_saved
from memcore.networks.network import Model
from memcore.networks.parts import SpecialMixer
from memcore.networks.weights import Linear
from memcore.trainers.megatron.networks.adapted import ALL, USUAL, adapted, targets_of
from memcore.trainers.megatron.networks.towers import SEEING, embedder
from memcore.trainers.megatron.settings import MegatronSettings
from memcore.trainers.pytorch.adapted_experts import names_of
from memcore.trainers.pytorch.learning import trainable_parts


def learning_model(read: Defaults, model: Model, dtype: str, *, images: bool) -> Model:
    """The model with its adapters, and with what is frozen; ms-swift freezes towers and projectors (`freeze_vit`)."""
    model = trainable_parts(read, with_adapters(read, _classifying(read, model), dtype))
    path, network = Training.trainable, model.network
    if not images and all(weight.kind in SEEING for weight, _, _ in model.tensors if learns(weight, network)):
        read.refuse(path, "found {!r}; a text-only step uses no trainable parameters", read.given(path))
    swift = embedder(read.given(EngineSettings.framework), network) == "swift"
    if read.given(path) is not None or network.adapted or not swift:
        return model
    read.assumptions.append(Assumption(path, "language model", "ms-swift freezes towers and projectors", notable=True))
    return replace(model, network=replace(network, frozen=SEEING))


def _classifying(read: Defaults, model: Model) -> Model:
    """The model with a head of one output on every rank where it learns classes (mcore-bridge, `OutputLayerLinear`)."""
    name = read.given(Training.method.name) or "sft"
    if name == "sft":
        return model
    if name != "classify" or not is_swift(read):
        read.refuse(Training.method.name, "found {!r}; with {}: {}", name, "Megatron-SWIFT", "sft, classify")
        return model
    around = model.network.embedding_and_head
    head = Linear(around.head.name, (1,), ("h",))
    return replace(model, network=replace(model.network, embedding_and_head=replace(around, head=head, tied=False)))


def _with_saved(read: Defaults, model: Model) -> Model:
    """Return the model with trained copies of its embedding or head; a head of classes learns alongside adapters."""
    path = Training.adapter.modules_to_save
    names = list(names_of(read.given(path) or ()))
    if names and not is_swift(read):
        raise UnsupportedError(path, "with Megatron, supported only for {}", "ms-swift")
    known = around(model.network)
    for unknown in [each for each in names if each not in known]:
        read.refuse(path, "found {!r}; trained copies are supported only for {}", unknown, joined(" and ", known))
    classifies = model.network.embedding_and_head.head.split is None
    names += [known[1]] if classifies and known[1] not in names else []
    if model.network.embedding_and_head.tied:  # its head has no matrix of its own to copy
        names = [each for each in names if each != known[1]]
    return model if read.problems or not names else with_saved(model, names, ties=True)


def is_swift(read: Defaults) -> bool:
    """Return whether the framework is ms-swift."""
    return str(read.given(EngineSettings.framework)).lower() == "ms-swift"


def with_adapters(read: Defaults, model: Model, dtype: str) -> Model:
    """Return the model with its adapters, if it has any; `dtype`: of parameters.

    Raises UnsupportedError for adapters of layers that are not supported.
    """
    if read.given(Training.adapter.type) is None:
        adapter = Training.adapter
        for setting in (adapter.rank, adapter.target_modules, adapter.dtype, adapter.dropout, adapter.modules_to_save):
            if read.given(setting) is not None:
                read.refuse(setting, "needs {}", adapter.type)
        return model
    swift = is_swift(read)
    named = read.take(Training.adapter.target_modules, ALL if swift else USUAL, "the framework's default")
    targets = [named] if isinstance(named, str) else list(named)
    known = targets_of(model)
    for unknown in [each for each in targets if each not in known and each != ALL and each not in USUAL]:
        read.refuse(
            Training.adapter.target_modules, "found {!r}; linear layers: {}, or {}", unknown, joined(", ", known), ALL
        )
    if ALL in targets and any(
        isinstance(layer.mixer, SpecialMixer) and not layer.mixer.linears for layer in model.network.kinds
    ):
        raise UnsupportedError(
            Training.adapter.target_modules,
            "found {!r}; adapters on Mamba layers are not supported yet; allowed: {}",
            ALL,
            joined(", ", known),
        )
    given = read.take(Training.adapter.dtype, dtype, "the parameter dtype")
    if given != dtype:
        read.refuse(
            Training.adapter.dtype, "found {!r}; Megatron's adapters have the parameters' dtype, {!r}", given, dtype
        )
    rank = read.take(Training.adapter.rank, 8 if swift else 32, "the framework's default")
    dropout = float(read.take(Training.adapter.dropout, 0.05 if swift else 0.0, "the framework's default"))
    # `share_expert_adapters` is Megatron-Bridge's default; experts that are modules of their own have one each.
    each = swift or not read.given(MegatronSettings.moe_grouped_gemm)
    return _with_saved(read, adapted(model, tuple(targets), rank, dtype, dropout, each=each))
