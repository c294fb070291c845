"""slime's command lines: Megatron-LM's arguments for the update of the actor, and its own for what comes between.

Source: slime (August 2026), slime/backends/megatron_utils/arguments.py (`_set_default_megatron_args`: the distributed
optimizer and bf16, always), slime/utils/arguments.py (`--colocate` takes SGLang off the GPU for the update; a batch
counts sequences), slime/backends/megatron_utils/loss.py (logits in fp32, log-probabilities of vocabulary shards).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from memcore.config.engine import EngineSettings
from memcore.config.hardware import Hardware
from memcore.config.training import Training
from memcore.formats.normalized import GPUS, PER_NODE, Normalized
from memcore.formats.tool import Key
from memcore.messages import Message
from memcore.trainers.megatron.files import MEGATRON, arguments

_MODEL, _LENGTH, _EACH = "--hf-checkpoint", "--seq-length", "--micro-batch-size"
_DYNAMIC, _TOKENS, _PACKED, _FRAMEWORK, _CRITIC = (
    "--use-dynamic-batch-size", "--max-tokens-per-gpu", "*packed", "*framework", "*critic",
)  # fmt: skip
_PROMPT, _ANSWER = "--rollout-max-prompt-len", "--rollout-max-response-len"
_ENTROPY = "--entropy-coef"
_POSITIONS = 4096
"""Of sequences and positions, where nothing is said."""


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """A run in Megatron-LM's arguments; the model is that of the checkpoint where its sizes stand in another script."""
    told = {"--use-distributed-optimizer": True, "--micro-batch-size": 1, **found, _FRAMEWORK: "slime", _PACKED: True}
    told |= {} if told.get("--fp16") else {"--bf16": True}
    if told.pop("--advantage-estimator", "grpo") == "ppo":
        told[_CRITIC] = True
    sizes = {name: told[name] for name in MEGATRON.dimensions if name in told}
    if any(
        "$" in str(value) for value in sizes.values()
    ):  # what Bash works out; slime checks sizes against the model's
        told = {name: value for name, value in told.items() if name not in sizes}
    elif "--num-layers" in sizes:
        told.pop(_MODEL, None)
        told.setdefault("--max-position-embeddings", _POSITIONS)
    each, nodes = told.pop("--actor-num-gpus-per-node", 8), told.pop("--actor-num-nodes", 1)
    if isinstance(each, int) and isinstance(nodes, int):
        told |= {GPUS: each * nodes, **({PER_NODE: each} if nodes > 1 else {})}
    elif not isinstance(each, int):
        told[GPUS] = each
    notes = [
        "slime: only the actor's update is estimated; generation and scoring come before it",
        "log-probabilities of vocabulary shards are counted as a supervised loss",
        *_lengths(told),
        *_trained(told),
    ]
    if told.pop(_ENTROPY, 0) not in (0, 0.0):
        notes.append(Message("{}: the softmax and the gradient of the entropies are not counted", _ENTROPY))
    normalized, more = arguments(told)
    return normalized, (*notes, *more)


def _trained(told: dict[str, Any]) -> list[str]:
    """Set the model that trains where the checkpoint is the rollout engine's in FP8; return a note.

    Source: slime, scripts/low_precision/ (`--ref-load` and `--load` are in bf16).
    """
    model = str(told.get(_MODEL, "")).rstrip("/")
    if not model.endswith(_ROLLED):
        return []
    told[_MODEL] = model.removesuffix(_ROLLED)
    return [Message("{}: FP8 weights are the rollout engine's; those that train are counted in bf16", _MODEL)]


_ROLLED = "-FP8"


def _lengths(told: dict[str, Any]) -> list[str]:
    """Set the tokens of a micro-batch: as many as are packed, or a prompt with its answer; return a note."""
    tokens, ranks = told.pop(_TOKENS, None), told.get("--context-parallel-size", 1)
    prompt, answer = told.get(_PROMPT, 0), told.get(_ANSWER)
    if told.pop(_DYNAMIC, False) and isinstance(tokens, int) and isinstance(ranks, int):
        told |= {_LENGTH: tokens * ranks, _EACH: 1}
        return [Message("sequences are packed up to {} tokens per GPU: counted as one sequence", _TOKENS)]
    if isinstance(prompt, int) and isinstance(answer, int):
        told[_LENGTH] = prompt + answer
    return [] if prompt else [Message("{} is not given: prompts are not counted", _PROMPT)]


_BETWEEN = (
    "--rollout-*", "--sglang-*", "--prompt-data", "--input-key", "--label-key", "--metadata-key",
    "--apply-chat-template*", "--rm-*", "--custom-*", "--num-rollout", "--num-epoch", "--n-samples-*", "--ref-load",
    "--balance-data", "--over-sampling-*", "--dynamic-sampling-*", "--partial-rollout", "--use-kl-loss", "--kl-*",
    "--use-unbiased-kl", "--eps-*", "--use-tis", "--tis-*", "--colocate", "--offload*", "--no-offload-*",
    "--critic-*", "--use-slime-router", "--slime-*", "--router-*", "--update-weight*", "--debug-*", "--force",
    "--address", "--runtime-env-json", "--working-dir", "--head", "--num-gpus", "--dashboard-*", "--node-ip-address",
    "--disable-usage-stats", "--port", "--log-probs-*", "--log-passrate", "--reward-key", "--tool-key",
    "--num-steps-per-rollout", "--use-fault-tolerance", "--use-wandb", "--buffer-*", "--megatron-to-hf-mode",
    "--normalize-*", "--gamma", "--lambd", "--get-mismatch-metrics", "--use-rollout-*", "--multimodal-keys",
    "--train-backend", "--group-rm", "--start-rollout-id",
)  # fmt: skip
"""Arguments of generation, rewards, the queue and Ray, and numbers that weigh the loss."""


SLIME = replace(
    MEGATRON,
    name="slime",
    title="slime",
    family=MEGATRON.name,
    tells=(_MODEL, "--actor-num-gpus-per-node"),
    prefixes=(),
    model=_MODEL,
    read_only=True,
    normalized=_normalized,
    world=(),
    keys=(
        *(each for each in MEGATRON.keys if each.path != Hardware.gpus_per_node),
        Key(path=Hardware.num_gpus, name=GPUS),
        Key(path=Hardware.gpus_per_node, name=PER_NODE),
        Key(path=Training.packed_sequences, name=_PACKED),
        Key(path=Training.method.critic, name=_CRITIC),
        Key(path=EngineSettings.framework, name=_FRAMEWORK),
    ),
    settles=(_DYNAMIC, _TOKENS, _PROMPT, _ANSWER, _ENTROPY, "--advantage-estimator", "--actor-num-*"),
    ignored=(*MEGATRON.ignored, *_BETWEEN),
    source="slime, slime/utils/arguments.py",
)
TOOLS = (SLIME,)
