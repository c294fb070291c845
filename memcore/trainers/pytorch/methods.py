"""Methods other than supervised ones: what a step runs besides the model's own pass, and in which form.

Sources: trl 1.10, trainer/{dpo,kto,grpo,reward}_trainer.py, trainer/grpo_config.py (`beta` 0: no reference model),
experimental/{orpo,cpo}/; accelerate, accelerator.py (`prepare_model`: native mixed precision returns fp32, which
DeepSpeed's engine does not); LLaMA-Factory 0.9.6, train/dpo/trainer.py (`logits.to(torch.float32)`), torchtune 0.6,
rlhf/_utils (`get_batch_log_probs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from memcore.config.defaults import Assumption, Defaults
from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.errors import UnsupportedError
from memcore.messages import Message, joined
from memcore.networks.network import Model
from memcore.records import dataclass
from memcore.trace.engine import Engine
from memcore.trace.recipe import Objective, Recipe
from memcore.trainers.pytorch.transformers_releases import Release, before

_OF = Training.method


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A row of the table."""

    pairs: bool = False
    """A sequence of the micro-batch is two: the chosen and the rejected answer."""
    refers: bool = False
    """The step compares with a reference model."""
    distills: bool = False
    """A teacher's logits are learned from."""
    proximal: bool = False
    """The model has a value head, and a reference model that runs between updates."""
    divergence: bool = False
    supervised: bool = False
    completes: bool = False
    scores: bool = False
    measures: bool = True


METHODS: Mapping[str, Method] = {
    "dpo": Method(pairs=True, refers=True),
    "kto": Method(refers=True, divergence=True),
    "orpo": Method(pairs=True, supervised=True, measures=False),
    "cpo": Method(pairs=True, supervised=True, measures=False),
    "simpo": Method(pairs=True, measures=False),
    "reward": Method(pairs=True, scores=True),
    "classify": Method(scores=True),
    "grpo": Method(completes=True),
    "ppo": Method(proximal=True, measures=False),
    "distill": Method(distills=True, measures=False),
}
"""By the value of `training.method`, without `sft`."""
_WHOLE = ("llama-factory", "torchtune")
"""Frameworks that take log-probabilities of the whole vocabulary at once."""


_FLASH: Mapping[str, bool] = {"verl": True, "openrlhf": False, "open-instruct": False}
"""Frameworks whose kernel takes log-probabilities and keeps the logits, and whether its gradient is in place:
FlashAttention's cross-entropy, or a compiled function (open_instruct/model_utils.py, `log_softmax_and_gather`)."""
_TEMPERED: Mapping[str, Sequence[tuple[Release, str]]] = {
    "axolotl": [((0, 8), "new"), ((0, 17), "in-place")],
    "ms-swift": [((3, 3), "new"), ((4, 2), "in-place")],
    "open-instruct": [((0, 0), "new")],
    "verl": [((0, 0), "in-place")],
    "trl": [((0, 16), "new"), ((1, 0), "in-place"), ((1, 10), "new")],
}
"""How frameworks divide logits by a temperature, each from a release on.

Sources: open_instruct/grpo_utils.py; verl 0.8, workers/actor/dp_actor.py (`_forward_micro_batch`); trl,
trainer/grpo_trainer.py (`_get_per_token_logps_and_entropies`), which axolotl runs (0.16 to 0.29, since axolotl 0.17
1.5: requirements.txt and pyproject.toml); ms-swift, rlhf_trainers/grpo_trainer.py (`_get_logps_via_local_forward`).
"""
_UPCASTING = ("llama-factory", "openrlhf")
"""Frameworks that cast logits to fp32 (OpenRLHF 0.11, models/actor.py: `output["logits"].to(torch.float32)`)."""
_AS_THEY_ARE = ("torchtune", "verl", "open-instruct", "nemo-automodel")
"""Frameworks whose models return logits in the dtype of the compute."""
_TAUGHT: Mapping[str, str] = {"trl": "jensen", "ms-swift": "jensen-in-chunks", "nemo-automodel": "forward-kl"}
"""How frameworks distill: with the generalized Jensen-Shannon divergence of all fp32 logits (trl, experimental/gkd) or
of chunks of tokens (ms-swift, rlhf_trainers/gkd_loss.py), or with the forward divergence next to the cross-entropy
(NeMo Automodel, recipes/llm/kd.py); others as torchtune does."""
_STREAMS_WORDS: Release = (5, 8)
"""The first release of transformers after Liger 0.8 (April 30, 2026), whose loss of GRPO streams words."""
_LOSSES = ("cross-entropy-fp32", "cross-entropy", "fused-linear", "fused-head")
_COMPILES = (("dpo", "torchtune"),)
"""Methods with layers that a framework compiles one by one, and a loss outside (recipes/full_dpo_distributed.py)."""


def method_of(read: Defaults) -> Method | None:
    """Return the method that a config names; None for supervised training."""
    name = read.given(_OF.name) or "sft"
    return METHODS.get(name)


def _fuses(recipe: Recipe, name: str) -> bool:
    """Return whether kernels compute head and loss.

    Liger's, and Unsloth's of GRPO (unsloth_zoo, rl_replacements.py); its other methods are the trainers' own.
    Liger's run outside of autocast, which accelerate wraps around the forward of the whole model: they call the decoder
    (trl 0.26, trainer/grpo_trainer.py, `_get_last_hidden_state`; 0.29, dpo_trainer.py, `_compute_loss_liger`).
    """
    return name == "grpo" if recipe.implementation == "unsloth" else recipe.loss.kind == "fused-linear"


def _has_value_head(read: Defaults, method: Method) -> bool:
    """Return whether rewards come from a value head on a whole model (model/loader.py, `add_valuehead`)."""
    return method.scores and str(read.given(EngineSettings.framework)).lower() == "llama-factory"


def sequences(read: Defaults, micro_batch: int) -> int:
    """Sequences of a forward pass: twice as many where they are pairs."""
    method = method_of(read)
    return 2 * micro_batch if method is not None and method.pairs else micro_batch


def scored(read: Defaults, model: Model) -> Model:
    """The model with a head of one output where it learns rewards or classes (`AutoModelForSequenceClassification`)."""
    method = method_of(read)
    embedding_and_head = model.network.embedding_and_head
    if method is None or not method.scores or _has_value_head(read, method):
        if method is not None and not embedding_and_head.predicts:
            said = "found {!r}, but the class that config.json names has no head for words"
            read.refuse(_OF.name, said, read.given(_OF.name))
        return model
    head = replace(embedding_and_head.head, name="score", outer=(1,), bias=False)
    embedding_and_head = replace(
        embedding_and_head,
        head=head,
        predicts=True,
        tied=False,
        head_softcap=False,
        head_scaled=False,
        head_upcast=False,
    )
    return replace(model, network=replace(model.network, embedding_and_head=embedding_and_head))


def completion(read: Defaults, sequence: int) -> dict[str, int]:
    """Return the tokens whose logits there are, where those are not all."""
    method = method_of(read)
    if method is None or not method.completes:
        if read.given(_OF.completion_length) is not None:
            read.refuse(_OF.completion_length, "applies to {}, found {!r}", "grpo", read.given(_OF.name) or "sft")
        return {}
    length: int = read.take(_OF.completion_length, min(256, sequence), "TRL's default")
    if length > sequence:
        read.refuse(_OF.completion_length, "found {}; a sequence has {} tokens", length, sequence)
    return {"nc": min(length, sequence - 1) or 1}


def _tempers(read: Defaults, framework: str, method: Method) -> str:
    """Return how logits are divided by a temperature: in place, into a new tensor, or not."""
    rows = _TEMPERED.get(framework, ()) if method.completes else ()
    return next((how for since, how in reversed(rows) if not before(read, since, framework)), "")


def _shares(read: Defaults, method: Method | None, framework: str) -> None:
    """Refuse what other methods have; say where the GPU is unknown of which the inference engine keeps a fraction."""
    generates = method is not None and (method.proximal or method.completes)
    if read.given(_OF.reward_model) is not None and not generates:
        read.refuse(_OF.reward_model, "applies to {}, found {!r}", "grpo, ppo", read.given(_OF.name) or "sft")
    distills = method is not None and method.distills
    if read.given(_OF.teacher) is not None and not distills:
        read.refuse(_OF.teacher, "applies to {}, found {!r}", "distill", read.given(_OF.name) or "sft")
    elif read.given(_OF.teacher) is None and distills:
        read.refuse(_OF.name, "found {!r}; needs {}", "distill", _OF.teacher)
    if read.given(_OF.entropy) and (method is None or not method.completes or framework not in _FLASH):
        read.refuse(_OF.entropy, "applies to GRPO in {}, so leave it out here", joined(", ", _FLASH))
    share = read.given(_OF.rollout_share)
    if share and (method is None or not method.completes):
        read.refuse(_OF.rollout_share, "applies to {}, found {!r}", "grpo", read.given(_OF.name) or "sft")
    elif share and read.given(Hardware.accelerator) is None and read.given(Hardware.gpu_memory_gb) is None:
        said = Message("of a GPU of unknown size: not counted; set {}", Hardware.accelerator)
        read.assumptions.append(Assumption(_OF.rollout_share, share, said, notable=True))


def with_objective(read: Defaults, model: Model, engine: Engine, recipe: Recipe) -> Recipe:
    """Return the recipe of a step that learns by another method."""
    method, framework = method_of(read), str(read.given(EngineSettings.framework)).lower()
    _shares(read, method, framework)
    if method is None:
        if read.given(_OF.reference) is not None:
            read.refuse(_OF.reference, "applies to methods with a reference model, found {!r}", "sft")
        return recipe
    name = str(read.given(_OF.name))
    _refuse_others(recipe, name, framework)
    whole, fused, tiled = framework in _WHOLE, _fuses(recipe, name), recipe.loss.kind == "fused-head"
    unsloths = recipe.implementation == "unsloth"
    if fused and (
        method.scores
        or method.proximal
        or method.distills
        or method.divergence
        or (unsloths and recipe.precision.autocast)
    ):
        raise UnsupportedError(
            _OF.name, "found {!r}, which is not supported yet with {}", name, "training.loss 'fused-linear'"
        )
    learns_head = fused and not unsloths and framework not in _FLASH
    reference = _reference(read, model, method)
    taught = _TAUGHT.get(framework, "") if method.distills else ""
    entropy = bool(read.given(_OF.entropy)) and not fused
    objective = Objective(
        method=name,
        reference="" if method.proximal else reference,
        copies="copy" in (reference, read.given(_OF.reference)),
        whole=whole or method.proximal,
        upcasts=(framework in _UPCASTING and not method.scores)
        or taught == "jensen"
        or (engine.native and framework not in _AS_THEY_ARE and not (method.scores or fused or tiled)),
        divergence=method.divergence,
        supervised=method.supervised,
        completes=method.completes and recipe.ulysses is None,  # each rank has logits of all of its tokens
        scores=method.scores,
        values=_has_value_head(read, method) or method.proximal,
        proximal=method.proximal,
        distills=method.distills,
        taught=taught,
        rewards=bool(read.take(_OF.reward_model, False)),
        fused=fused,
        learns_head=learns_head,
        streams_words=learns_head and method.completes and not before(read, _STREAMS_WORDS),
        tiled=tiled,
        pairs=method.pairs,
        measures=method.measures and not (whole or tiled or method.scores) and framework not in _FLASH,
        flash=framework in _FLASH and not (method.scores or fused),
        in_place=_FLASH.get(framework, False) and not entropy,
        entropy=entropy,
        tempered=_tempers(read, framework, method) if not (method.scores or fused or tiled) else "",
    )
    precision = replace(recipe.precision, autocast=None) if fused else recipe.precision
    return replace(recipe, objective=objective, precision=precision)


def _reference(read: Defaults, model: Model, method: Method) -> str:
    """Return which model the step is compared with."""
    given = read.given(_OF.reference)
    if not (method.refers or method.proximal):
        if given == "copy" and method.completes:
            return ""
        if given is not None:
            read.refuse(_OF.reference, "found {!r}; {!r} compares with no reference model", given, read.given(_OF.name))
        return ""
    if given == "adapter" and not model.network.adapted:
        read.refuse(_OF.reference, "found {!r}; needs {}", "adapter", "training.adapter")
    usual = "adapter" if model.network.adapted else "copy"
    found: str = read.take(_OF.reference, usual, "as the trainers do")
    return "" if found == "precomputed" else found


def _refuse_others(recipe: Recipe, name: str, framework: str) -> None:
    """Layers and layouts whose steps with further passes are not known."""
    if recipe.implementation not in ("transformers", "liger", "unsloth"):
        raise UnsupportedError(
            _OF.name,
            "found {!r} with layers of {!r}; supported: {}",
            name,
            recipe.implementation,
            "transformers, liger, unsloth",
        )
    asked = {
        "pipeline parallelism": recipe.pipeline is not None,
        "tensor parallelism": recipe.tensor is not None,
        "context parallelism": bool(recipe.ring_turns),
        "torch.compile": recipe.compiled and (name, framework) not in _COMPILES,
        Message("training.loss {!r}", recipe.loss.kind): recipe.implementation != "unsloth"
        and recipe.loss.kind not in (*_LOSSES, *(["chunked"] if name == "distill" else [])),
    }
    found = [each for each, there in asked.items() if there]
    if found:
        raise UnsupportedError(_OF.name, "found {!r}, which is not supported yet with {}", name, joined(", ", found))
