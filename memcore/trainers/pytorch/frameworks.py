"""Who drives an engine, where that decides what is in memory: training loops of libraries and their defaults.

Sources: transformers/trainer.py (`compute_loss` holds a model's outputs only until it returns; embeddings' moments are
kept in 32 bits), peft/method_comparison/MetaMathQA/run.py, torchtune/recipes, litgpt/finetune/lora.py (no communication
before the last micro-batch; bitsandbytes' precision plugin replaces every linear layer, the output head too),
NVIDIA-NeMo/Automodel recipes/llm/train_ft.py (`_forward_backward_step`: `out` lives until the backward pass is done)
and components/distributed/utils.py (`get_sync_ctx`: since 0.2 only the last micro-batch reduces gradients; since 0.3
`defer_fsdp_grad_sync`, on by default, says so),
NVIDIA-NeMo/RL nemo_rl/models/automodel/setup.py (FSDP2's `output_dtype` is fp32, LoRA is Automodel's in fp32) and
train.py (`del outputs`; each micro-batch reduces, as nothing calls `get_sync_ctx`), alike from 0.4 to 0.7,
meta-llama/llama-cookbook utils/train_utils.py and policies/activation_checkpointing_functions.py,
AnswerDotAI/fsdp_qlora train.py (its `output` lives until the step is done; transformers 4.38 upcast logits itself),
mlc-ai/pith-train pithtrain/modules/training.py and dualpipe (two stages on every rank, `Adam(model.parameters(), lr)`),
PrimeIntellect-ai/prime-rl src/prime_rl/trainer/sft/train.py (`del logits` leaves them in `out`, which lives until the
next forward pass), trainer/model.py (`forward` upcasts what the model returns) and trainer/optim.py (a plain AdamW).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from memcore.config.defaults import Defaults
from memcore.config.engine import EngineSettings
from memcore.config.parallelism import Parallelism
from memcore.config.training import Training
from memcore.messages import Message
from memcore.networks.stages import Partition, sparing_ends
from memcore.records import dataclass
from memcore.trainers.pytorch.prime_rl_commits import chunks_of
from memcore.trainers.pytorch.torchtitan_commits import (
    COMPILES_ALL_OR_NOTHING,
    COMPILES_NO_LOSS,
    KEEPS_LOGITS,
    UPCASTS_LOGITS,
    WRAPS_BLOCKS_ALONE,
    is_among,
)
from memcore.trainers.pytorch.transformers_releases import STARTS_NEW, Release, before, hangs_on, loop_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A row of the table."""

    keeps_outputs: bool = False
    """The loop's variable holds the model's outputs through the backward pass."""
    implementation: str = "transformers"
    """Whose layers it runs."""
    checkpoints: str = "none"
    """Its policy of activation checkpoints where nothing is said (trl/trainer/base_config.py; torchtitan,
    config/job_config.py, `ActivationCheckpoint.mode`)."""
    early_bitsandbytes: bool = False
    """Its time's bitsandbytes held on to the inputs of 4-bit layers, and Fabric quantized them from fp16."""
    quantizes_head: bool = False
    """The output head is quantized with the rest."""
    original_parameters: bool = False
    """It gives FSDP1 `use_orig_params`."""
    initializes_on_gpu: bool = False
    """Each rank initializes its units itself; others have them from the first rank (`sync_module_states`)."""
    compiles_model: bool = False
    """Where it compiles, one graph has the whole model with its loss (transformers/trainer.py, `torch_compile`, and
    accelerate/accelerator.py, `prepare_model`: `torch.compile(model)`)."""
    compiles_loss: bool = False
    """Where it compiles, it compiles the loss too (torchtune/training/_compile.py, `compile_loss`)."""
    upcasts_logits: bool = False
    """Its models upcast their logits, except where the loss is in chunks (torchtune/modules/transformer.py)."""
    skips_sync: bool = False
    """Only the last micro-batch of a step reduces gradients (`no_sync`)."""
    exempts_embeddings: bool = True
    """8-bit optimizers of bitsandbytes keep the moments of embeddings in 32 bits (Hugging Face's Trainer)."""
    step: str | None = None
    """The implementation of the optimizer's step that it takes, if not the usual one; `torch.optim` by itself updates
    all parameters at once (`foreach`)."""
    brings: frozenset[str] = frozenset()
    """Optimizers that it has of its own: implementations `transformers` of the table."""
    adapts_itself: bool = False
    """Its adapters are its own, not PEFT's, in the dtype of the matrices that they stand next to
    (torchtune/modules/peft/lora.py; nemo_automodel/components/_peft/lora.py)."""
    crosses_experts: bool = False
    """Ranks that divide experts are others than those that shard: each slice of experts is sharded as all else is
    (axolotl, integrations/expert_parallel/plugin.py, `fully_shard_experts`)."""
    divides_adapters: bool = False
    """Its tensor-parallel ranks share the rank of adapters (NeMo Automodel, distributed/parallel_styles.py)."""
    stacks: bool = False
    """Its Muon takes the stacked matrices of routed experts, too."""
    schedule: str | None = None
    """The pipeline's schedule that it always runs, on one rank too."""
    tile: int | None = None
    """The tokens of a tile of tiled feed-forward layers, if not as many as the hidden size."""
    partition: Partition | None = None
    """How it shares layers among a pipeline's stages."""
    hosts_checkpoints: bool = False
    """What it offloads of activations is the input of each checkpoint of the old form (ArcticTraining with transformers
    4: model/hf_factory.py, `gradient_checkpointing_enable`; monkey_patches.py, `CheckpointFunctionWithCPUOffload`)."""
    dispatcher: tuple[str, str] = ("alltoall", "torchtitan's default")
    """How tokens reach the experts that ranks share, and why."""
    fuses_gates: bool = False
    """The activation of routed experts is one kernel, which multiplies by the scores of rows, and the router computes
    in the dtype of tokens (NeMo Automodel, components/moe/experts.py, `get_expert_activation_for_deepep`; layers.py,
    `Gate`)."""
    shares_experts: bool = False
    """Its own networks run where ranks share routed experts: gathered parameters stay until the backward pass, and
    experts that no other rank has are no FSDP unit (NeMo Automodel 0.5, components/distributed/config.py,
    `MoEParallelizerConfig`; components/moe/parallelizer.py, `apply_fsdp`: `ignored_params`)."""
    wraps_layers: bool = False
    """It checkpoints by wrapping layers, of which transformers knows nothing: a KV cache stays on. Until September 2023
    llama-recipes left it on (meta-llama/llama-cookbook#165), and transformers' caches were tuples then."""

    fetches_states: bool = False
    """Optimizer states on the host come to the GPU for the step (prime-rl, trainer/optim/state_offload.py)."""
    folds_words: bool = False
    """Its fused head has some words at a time (`memcore.layers.fused_head`)."""

    release: str = "much"
    """How much hangs on its release, which decides losses, dtypes and kernels: much, little or nothing."""


TRAINER = Framework(brings=frozenset({"adafactor"}), compiles_model=True)
UNNAMED = Framework(exempts_embeddings=False)
"""The optimizer as its library makes it."""
_LOOP = Framework(keeps_outputs=True, exempts_embeddings=False, step="foreach")

FRAMEWORKS: Mapping[str, Framework] = {
    "peft": _LOOP,
    "accelerate": replace(_LOOP, compiles_model=True),
    "lit-gpt": Framework(
        keeps_outputs=True,
        implementation="lit-gpt",
        quantizes_head=True,
        early_bitsandbytes=True,
        original_parameters=True,
        skips_sync=True,
        exempts_embeddings=False,
        step="foreach",
    ),
    "fsdp_qlora": Framework(keeps_outputs=True, upcasts_logits=True, step="foreach"),
    "torchtune": Framework(adapts_itself=True, exempts_embeddings=False, compiles_loss=True, upcasts_logits=True),
    "torchtitan": Framework(
        implementation="torchtitan", checkpoints="selective", exempts_embeddings=False, initializes_on_gpu=True
    ),
    "nemo-automodel": Framework(
        keeps_outputs=True,
        skips_sync=True,
        adapts_itself=True,
        divides_adapters=True,
        exempts_embeddings=False,
        step="foreach",
        dispatcher=("deepep", "NeMo Automodel's default"),  # components/models/common/utils.py, `BackendConfig`
        fuses_gates=True,
        shares_experts=True,
    ),
    "nemo-rl": Framework(
        upcasts_logits=True,
        adapts_itself=True,
        divides_adapters=True,
        exempts_embeddings=False,
        step="foreach",
    ),
    "pith-train": Framework(
        implementation="torchtitan",
        exempts_embeddings=False,
        step="foreach",
        stacks=True,
        schedule="dualpipev",
        partition=sparing_ends,
    ),
    "prime-rl": replace(_LOOP, upcasts_logits=True, folds_words=True, fetches_states=True),
    "verl": replace(TRAINER, step="foreach"),  # workers/config/optimizer.py, `build_optimizer`: torch.optim's choice
    "unsloth": replace(TRAINER, implementation="unsloth"),  # FastLanguageModel patches the layers and the loss
    "llama-recipes": Framework(exempts_embeddings=False, step="foreach", wraps_layers=True),
    "arctictraining": Framework(exempts_embeddings=False, hosts_checkpoints=True),
    "axolotl": Framework(
        tile=32768,  # monkeypatch/tiled_mlp/patch.py
        compiles_model=True,
        crosses_experts=True,
    ),
    "trl": replace(TRAINER, checkpoints="full"),
    "memcore": Framework(exempts_embeddings=False, release="nothing"),  # validation/steps.py, which is what is counted
}
"""By the value of `engine.framework` in lower case; all others that are named drive Hugging Face's Trainer."""


def framework_of(read: Defaults) -> Framework:
    """Return the row of the framework that a config names."""
    name = read.given(EngineSettings.framework)
    return UNNAMED if name is None else FRAMEWORKS.get(str(name).lower(), TRAINER)


def runs_transformer_engine(name: object) -> bool:
    """Return whether a framework's own networks run TransformerEngine's kernels."""
    return str(name).lower() == "nemo-automodel"


def keeps_outputs(read: Defaults) -> bool:
    """Return whether the loop holds the model's outputs through the backward pass."""
    return framework_of(read).keeps_outputs or is_early_titan(read, KEEPS_LOGITS)


def upcasts_logits(read: Defaults, kind: str) -> bool:
    """Return whether the model itself upcasts the logits for a loss of this kind."""
    if kind == "cross-entropy":
        return framework_of(read).upcasts_logits
    early = is_early_titan(read, UPCASTS_LOGITS)
    return kind == "cross-entropy-fp32" and (early or framework_of(read).upcasts_logits)


def usual_precision(read: Defaults) -> tuple[str, str] | None:
    """The precision that a framework gives a model on one GPU or with DDP where nothing else is asked for, and why.

    Sources: transformers/modeling_utils.py (4.57: `torch.get_default_dtype()`; 5: `dtype="auto"`), trl/trainer/utils.py
    (`create_model_from_path` loads in fp32) and trl/trainer/base_config.py (`bf16` unless `fp16`). What transformers 4
    leaves of a quantized model has 16 bits (quantizers/quantizer_bnb_4bit.py, quantizer_gptq.py: `update_dtype`).
    """
    name = loop_of(read)
    if name == "trl":
        return "bf16-autocast", "TRL loads in fp32 and trains under autocast"
    whole = read.given(Training.quantization) is None
    if name != "transformers" or not whole:
        return None
    if read.given(Training.precision) is None:
        hangs_on(read, STARTS_NEW)
    if before(read, STARTS_NEW):
        return "fp32", "transformers 4 loads in fp32; transformers 5 uses the checkpoint's dtype"
    return None


_CASTS_ENDS: Mapping[str, Release | None] = {"axolotl": None, "trl": (0, 25)}
"""Frameworks that cast embedding and output head to fp32 and back, and the release since which they do not.

Sources: axolotl, loaders/model.py (`_configure_embedding_dtypes`); trl 0.24, models/utils.py (`prepare_peft_model`:
PEFT's `prepare_model_for_kbit_training`, then `peft_module_casting_to_bf16`; its own of 0.25 casts norms alone).
"""


def casts_ends(read: Defaults) -> bool:
    """Return whether a framework casts embedding and output head to fp32 and back when it has loaded a model."""
    name = str(read.given(EngineSettings.framework)).lower()
    until = _CASTS_ENDS.get(name)
    return name in _CASTS_ENDS and (until is None or before(read, until, name))


_CASTS_ADAPTERS = (0, 26)
"""The release of TRL since which adapters of every quantized model are bf16, before those of 4 bits under bf16."""


def casts_adapters(read: Defaults) -> bool:
    """Return whether a framework casts the adapters of a quantized model to bf16.

    Sources: trl/trainer/{sft,grpo,dpo,kto,reward}_trainer.py (`if _is_quantized_model`); until 0.25 trl/models/utils.py
    (`peft_module_casting_to_bf16`).
    """
    storage = read.given(Training.quantization)
    if str(read.given(EngineSettings.framework)).lower() != "trl" or storage is None:
        return False
    early = storage == "int8" or str(read.given(Training.precision)).startswith(("fp16", "fp32"))
    return not (early and before(read, _CASTS_ADAPTERS, "trl"))


def usual_reduction(read: Defaults) -> tuple[str, str] | None:
    """Return the dtype in which a framework has FSDP reduce gradients whatever it computes in, and why.

    NeMo Automodel since 0.5 (6ec67a855, May 14, 2026: components/distributed/config.py, `FSDP2Config`), and since 0.2
    where ranks share routed experts (components/moe/parallelizer.py, `apply_fsdp`).
    """
    if str(read.given(EngineSettings.framework)).lower() != "nemo-automodel":
        return None
    since = (0, 2) if (read.given(Parallelism.expert_parallel_size) or 1) > 1 else (0, 5)
    reduced = "bf16" if before(read, since, "nemo-automodel") else "fp32"
    return reduced, "NeMo Automodel reduces gradients in fp32 since 0.5, of shared experts since 0.2"


_FUSES_HEAD: Mapping[str, Release] = {"sft": (1, 7), "dpo": (1, 14), "grpo": (1, 14), "kto": (1, 15)}
"""By method, the release of TRL whose loss takes log-probabilities without logits (trl/trainer/*_trainer.py)."""
_FUSES_WITH_LIGER: Release = (1, 15)
"""The release of TRL since which they do so where Liger's kernels run, whose own loss is switched off then."""


def fuses_head(read: Defaults) -> bool:
    """Return whether a framework's trainer replaces the model's head."""
    since = _FUSES_HEAD.get(read.given(Training.method.name) or "sft")
    if since is not None and read.given(Training.implementation) == "liger":
        since = _FUSES_WITH_LIGER
    if str(read.given(EngineSettings.framework)).lower() != "trl" or since is None:
        return False
    hangs_on(read, since, "trl")
    return not before(read, since, "trl")


def head_chunk(read: Defaults) -> tuple[int | None, int]:
    """Return the tokens, if not all, and the words that a fused head of prime-rl has at a time."""
    return chunks_of(read.given(EngineSettings.framework_version))


def checkpoints_layers(read: Defaults) -> tuple[str, str | None]:
    """Return the policy of activation checkpoints that a framework has by default, and why."""
    found = framework_of(read).checkpoints
    return found, None if found == "none" else Message("{}'s default", read.given(EngineSettings.framework))


KERNELS = ("fused-linear", "cut-cross-entropy", "fused-head")
"""Losses with kernels of their own, which are given hidden states and the head."""


def compiles_loss(read: Defaults, kind: str, family: str) -> tuple[bool, str | None]:
    """Return whether a loss of this kind is compiled, for a family of models, and why."""
    name, version = str(read.given(EngineSettings.framework)).lower(), read.given(EngineSettings.framework_version)
    alone = name == "torchtitan" and family.startswith("deepseek") and version is not None
    if alone and not is_early_titan(read, COMPILES_ALL_OR_NOTHING):
        return True, "torchtitan's configurations of DeepSeek-V3 compile it"
    if not read.given(Training.compile):
        return False, None
    if name != "torchtitan":
        row = framework_of(read)
        return (row.compiles_loss or row.compiles_model) and kind not in KERNELS, None
    if kind == "chunked":
        return True, "torchtitan compiles it too"
    if version is None:
        return False, "torchtitan has compiled it since April 2, 2025; set engine.framework_version to choose one"
    return not is_early_titan(read, COMPILES_NO_LOSS), "this torchtitan version's behavior"


def is_early_titan(read: Defaults, commits: frozenset[str] = WRAPS_BLOCKS_ALONE) -> bool:
    """Return whether a config names a version of torchtitan before a change, by default of its FSDP units."""
    return is_among(read.given(EngineSettings.framework), read.given(EngineSettings.framework_version), commits)
