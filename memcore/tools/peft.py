"""The adapter_config.json that PEFT saves with an adapter: the adapter and its base model, and nothing of the run."""

from collections.abc import Mapping
from typing import Any

from memcore.config.adapted_layers import ranks_of
from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import MemcoreError, UnsupportedError
from memcore.formats.normalized import ADAPTED, Normalized
from memcore.formats.readers import flat
from memcore.formats.tool import Key, Meaning, Tool
from memcore.messages import Message, joined
from memcore.networks.adapter_kinds import ADAPTER_KINDS, LINEAR_LAYERS, LITGPT_LAYERS
from memcore.networks.adapters import ALL, linear_names
from memcore.networks.catalog import find_model
from memcore.networks.usual_targets import targets_of_peft
from memcore.tools.targets import placed, ranks

_TYPES: Mapping[str, str] = {
    name: name.upper().replace("-", "_")
    for name, kind in ADAPTER_KINDS.items()
    if kind.attached_to != LITGPT_LAYERS and name not in ("rslora", "dora")
}
"""PEFT's names of kinds (utils/peft_types.py); rsLoRA and DoRA are LoRA with a key of their own."""
KINDS_BY_CLASS: Mapping[str, str] = {
    "LoraConfig": "lora", "AdaLoraConfig": "adalora", "BOFTConfig": "boft", "C3AConfig": "c3a",
    "DeloraConfig": "delora", "FourierFTConfig": "fourierft", "GraloraConfig": "gralora", "HiraConfig": "hira",
    "IA3Config": "ia3", "LNTuningConfig": "ln-tuning", "LoHaConfig": "loha", "LoKrConfig": "lokr", "MissConfig": "miss",
    "OFTConfig": "oft",
    "PromptEncoderConfig": "p-tuning", "PrefixTuningConfig": "prefix-tuning", "PromptTuningConfig": "prompt-tuning",
    "PveraConfig": "pvera", "RandLoraConfig": "randlora", "RoadConfig": "road", "TinyLoraConfig": "tinylora",
    "TrainableTokensConfig": "trainable-tokens", "VeraConfig": "vera",
}  # fmt: skip
"""PEFT's classes in Python and our kinds (tuners/*/config.py)."""
NOT_SUPPORTED = frozenset({
    "AdamssConfig", "AdaptionPromptConfig", "BeftConfig", "BoneConfig", "CartridgeConfig", "CPTConfig", "DeftConfig",
    "FrodConfig", "GloraConfig", "HRAConfig", "LilyConfig", "MultitaskPromptTuningConfig", "OSFConfig", "PeanutConfig",
    "PolyConfig", "PsoftConfig", "ShadowConfig", "ShiraConfig", "SupertuningConfig", "UniLoraConfig", "VBLoRAConfig",
    "WaveFTConfig", "XLoraConfig",
})  # fmt: skip
"""Classes of its methods that have no kind here."""
_SETTINGS: Mapping[str, Mapping[str, int | None]] = {
    spelled: ADAPTER_KINDS[name].settings for name, spelled in _TYPES.items()
}
"""Settings of each kind and PEFT's defaults."""


_LAYERS = 8
"""Layers of the smallest model that is listed so; fewer are only the first ones of a model."""
_PATTERNS = ("layers", "h", "blocks", "block", "layer")
"""What the list of a decoder's layers is called (`layers_pattern`)."""
_RANKS = "rank_pattern"


def _placed(normalized: dict[str, Any], kind: str) -> None:
    """Read where adapters are, and with which ranks.

    LLaMA-Factory lists the matrices of all layers for models with towers (model/model_utils/visual.py,
    `patch_target_modules`).
    """
    if "target_modules" in normalized:
        normalized["target_modules"], layers = placed(normalized["target_modules"])
        if layers is not None and (layers != [*range(len(layers))] or len(layers) < _LAYERS):
            normalized["layers_to_transform"] = layers
    if normalized.get("layers_to_transform") == []:
        del normalized["layers_to_transform"]
    found = normalized.get("layers_pattern") or []
    for pattern in found if isinstance(found, list) else [found]:
        if str(pattern).rpartition(".")[2] not in _PATTERNS:
            raise UnsupportedError.of_value(
                "layers_pattern", pattern, Message("supported: {}", joined(", ", _PATTERNS))
            )
    by_pattern = {name: normalized.pop(name) for name in list(normalized) if name.startswith(f"{_RANKS}.")}
    if by_pattern and kind != "ADALORA":  # whose patterns are what training left of the ranks (tuners/adalora/model.py)
        normalized[_RANKS] = ranks({name.removeprefix(f"{_RANKS}."): rank for name, rank in by_pattern.items()})


def _normalized(found: Mapping[str, Any]) -> Normalized:
    """PEFT's keys by their method: layers named by lists or patterns, ranks, and how many tokens learn."""
    normalized = dict(found)
    kind = str(found.get("peft_type", "LORA")).upper()
    if normalized.get("modules_to_save") == []:
        del normalized["modules_to_save"]
    _placed(normalized, kind)
    if kind == "OFT" and normalized.get("oft_block_size") == 0:
        del normalized["oft_block_size"]  # its rank is the number of blocks
    rank = _SETTINGS.get(kind, {}).get("rank")
    if rank is None and not (kind == "OFT" and normalized.get("r")):
        normalized.pop("r", None)
    elif rank not in (None, ADAPTER_KINDS["lora"].settings["rank"]):
        normalized.setdefault("r", rank)
    if kind == "TRAINABLE_TOKENS" and isinstance(normalized.get("token_indices"), list):
        normalized["*tokens"] = len(normalized.pop("token_indices"))
    named = normalized.get("target_modules") or normalized.get("target_parameters")
    if named or (kind != "LORA" and not normalized.get("base_model_name_or_path")) or kind not in _LINEAR:
        return normalized, ()
    return _by_default(normalized, _LINEAR[kind])


_LINEAR: Mapping[str, str] = {
    spelled: name for name, spelled in _TYPES.items() if ADAPTER_KINDS[name].attached_to == LINEAR_LAYERS
}
"""Kinds next to linear layers, by PEFT's names."""


def _by_default(normalized: dict[str, Any], kind: str) -> Normalized:
    """Return the matrices that PEFT adapts where a file names none: by the family of its base (utils/constants.py)."""
    try:
        family = find_model(str(normalized.get("base_model_name_or_path"))).network.family
    except MemcoreError:
        note = "target_modules: not given; PEFT's defaults depend on the model; name them with --adapter-targets"
        return normalized, (note,)
    usual = list(targets_of_peft(family, kind))
    if not usual:
        return normalized, ()
    note = Message("target_modules: not given; PEFT's defaults for {}: {}", family, joined(", ", usual))
    return {**normalized, "target_modules": usual}, (note,)


_OF_SCRIPTS: Mapping[str, str] = {
    "lora_r": "r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout", "lora_target_modules": "target_modules",
    "lora_bias": "bias", "modules_to_save": "modules_to_save",
}  # fmt: skip
"""Keys of a file of its own in which scripts have an adapter (LianjiaTech/BELLE, train/configs/lora_config_*.json)."""


def of_lora_file(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file of nothing but an adapter, as PEFT spells it; nothing for another file.

    >>> of_lora_file({"lora_r": 16, "lora_target_modules": ["q_proj"]})
    {'peft_type': 'LORA', 'r': 16, 'target_modules': ['q_proj']}
    """
    if "lora_r" not in found or found.keys() - _OF_SCRIPTS.keys():
        return {}
    return {"peft_type": "LORA", **{_OF_SCRIPTS[name]: value for name, value in found.items()}}


_WHOLE = ("target_modules", "modules_to_save")
_PLACED = (*_WHOLE, "layers_to_transform")
_PROMPTED = ("num_virtual_tokens", "modules_to_save")
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "LORA": ("r", "rank_pattern", "lora_dropout", "target_parameters", "use_rslora", "use_dora", *_PLACED),
    "ADALORA": ("init_r", "lora_dropout", *_PLACED), "BOFT": ("boft_block_size", *_PLACED),
    "LOKR": ("r", "rank_pattern", "decompose_factor", *_PLACED), "OFT": ("r", "oft_block_size", *_PLACED),
    "TINYLORA": ("r", "u", *_PLACED), "FOURIERFT": ("n_frequency", *_PLACED),
    "TRAINABLE_TOKENS": ("target_modules",), "C3A": ("block_size", *_PLACED), "DELORA": ("r", "rank_pattern", *_PLACED),
    **dict.fromkeys(("HIRA", "LOHA"), ("r", "rank_pattern", *_PLACED)),
    **dict.fromkeys(("VERA", "PVERA", "GRALORA", "RANDLORA", "MISS"), ("r", *_PLACED)),
    **dict.fromkeys(("ROAD", "IA3", "LN_TUNING"), _WHOLE),
    **dict.fromkeys(("PROMPT_TUNING", "PREFIX_TUNING", "P_TUNING"), _PROMPTED),
}  # fmt: skip
"""Fields of each method's class that are read here (tuners/*/config.py)."""
_ALWAYS = ("base_model_name_or_path", "peft_type", "task_type", "inference_mode")
_BLOCK: Mapping[str, str] = {"OFT": "oft_block_size", "BOFT": "boft_block_size", "C3A": "block_size"}


def _fields(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return those words that are fields of the method's class."""
    kind = str(words.get("peft_type", "LORA"))
    block = _BLOCK.get(kind, "")
    words = {block if name in _BLOCK.values() else name: value for name, value in words.items()}
    return {name: value for name, value in words.items() if name in (*_ALWAYS, *_FIELDS.get(kind, _PLACED))}


def _written(config: Config) -> dict[str, Any]:
    """The scale of LoRA, twice its rank; OFT's blocks by number; the tokens that learn, the first of the vocabulary."""
    rank, tokens = config[Training.adapter.rank], config[Training.adapter.num_trainable_tokens]
    kind = config[Training.adapter.type]
    keys: dict[str, Any] = {"lora_alpha": 2 * rank} if kind in ("lora", "dora") and rank else {}
    if kind == "oft" and rank:
        keys = {"oft_block_size": 0}  # PEFT takes one of them (tuners/oft/config.py)
    if config[Training.adapter.target_modules] == ALL and config.get(Training.adapter.layers_to_transform):
        keys["target_modules"] = linear_names(find_model(config.model).network)[:-1]  # its class wants a list with them
    return {**keys, **({"token_indices": [*range(tokens)]} if kind == "trainable-tokens" and tokens else {})}


PEFT = Tool(
    name="peft",
    title="PEFT",
    syntax="json",
    engines=("none", "ddp", "fsdp", "deepspeed"),
    tells=("peft_type", "base_model_name_or_path", "inference_mode"),
    model="base_model_name_or_path",
    keys=(
        Key(path=Training.adapter.type, name="peft_type", values=_TYPES),
        Key(path=Training.adapter.rank, name="r"),
        Key(path=Training.adapter.dropout, name="lora_dropout"),
        Key(path=Training.adapter.target_modules, name="target_modules"),
        Key(path=Training.adapter.target_parameters, name="target_parameters"),
        Key(path=Training.adapter.modules_to_save, name="modules_to_save"),
        Key(path=Training.adapter.rank_pattern, name=_RANKS, spelled=ranks_of),
        Key(path=Training.adapter.layers_to_transform, name="layers_to_transform"),
        Key(path=Training.adapter.use_rslora, name="use_rslora"),
        Key(path=Training.adapter.init_r, name="init_r"),
        Key(path=Training.adapter.u, name="u"),
        Key(path=Training.adapter.n_frequency, name="n_frequency"),
        Key(path=Training.adapter.decompose_factor, name="decompose_factor"),
        Key(path=Training.adapter.block_size, name="oft_block_size", also=("boft_block_size", "block_size")),
        Key(path=Training.adapter.num_virtual_tokens, name="num_virtual_tokens"),
        Key(path=Training.adapter.num_trainable_tokens, name="*tokens"),
    ),
    meanings=(Meaning(sets={Training.adapter.type: "dora"}, keys={"use_dora": True}),),
    normalized=_normalized,
    settles=("token_indices", "r", "layers_pattern", "rank_pattern.*"),
    vocabulary=("peft",),
    requires=(Training.adapter.type,),
    always={"task_type": "CAUSAL_LM", "inference_mode": False},
    alongside={"use_dora": ("peft_type", _TYPES["lora"])},
    placed=_fields,
    written=_written,
    adapters=("dora",),
    unsaid=dict.fromkeys(
        (Training.adapter.rank, Training.adapter.target_modules, Training.adapter.num_trainable_tokens)
    ),
    source="peft 0.21, src/peft/tuners/lora/config.py (LoraConfig), src/peft/config.py (PeftConfigMixin)",
)


def in_places(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a config of LoRA in Python has adapters, and the ranks there, by keys of `IN_SCRIPTS`.

    >>> in_places({"target_modules": ["q_proj"], "rank_pattern": {"q_proj": 4}, "layers_to_transform": [1]})
    {'target_modules': ['q_proj'], '*adapted.layers_to_transform': [1], '*adapted.rank_pattern': 'q_proj=4'}
    """
    words = flat(given)
    _placed(words, _TYPES["lora"])
    paths = {name: key.path for key in PEFT.keys for name in key.names}
    return {IN_SCRIPTS[paths[name]] if name in PLACES else name: words[name] for name in words if name in _SAID}


PLACES = (_RANKS, "layers_to_transform", "layers_pattern")
"""Arguments of LoRA's class on where adapters differ."""
_SAID = ("target_modules", *PLACES[:2])


def of_config(
    name: str, given: Mapping[str, Any], base: object
) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]:
    """Return the keys of `IN_SCRIPTS` that a call of a config means, its arguments that are not read, and notes.

    Args:
        name: The class, one of `KINDS_BY_CLASS`.
        given: Its arguments.
        base: The name of the model that it is next to; anything else where nobody knows it.
    """
    kind = KINDS_BY_CLASS[name]
    known = {"base_model_name_or_path": base} if isinstance(base, str) else {}
    words, notes = _normalized({**given, **known, "peft_type": _TYPES[kind]})
    paths = {each: key.path for key in PEFT.keys if key.path != Training.adapter.type for each in key.names}
    keys = {IN_SCRIPTS[path]: words[each] for each, path in paths.items() if words.get(each) is not None}
    rest = {each: value for each, value in given.items() if each not in (*paths, *_ALWAYS, *PEFT.settles)}
    return {ADAPTED: kind, **keys}, rest, notes


IN_SCRIPTS: Mapping[str, str] = {
    key.path: ADAPTED if key.path == Training.adapter.type else f"{ADAPTED}.{key.name}" for key in PEFT.keys
}
"""Settings of an adapter, by their paths, and their keys in what scripts say to a loop."""
