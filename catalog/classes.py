"""Write `memcore/data/classes.json`: what an absent key of a `config.json` means, for every family.

    pip install torch transformers==5.23.0 && python catalog/classes.py

Each row is a configuration class of transformers: `defaults`, its fields that decide a network's parts and sizes,
`names`, its own names of keys that other classes call differently (`attribute_map`), and `floors` where a step runs
with heads that do not divide the hidden size.
"""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

FAMILIES = """
apertus arcee bamba bloom cohere cohere2 dbrx deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 dots1 ernie4_5
ernie4_5_moe exaone4 falcon falcon_h1 falcon_mamba gemma gemma2 gemma3 gemma3_text gemma3n_text gemma4_text glm glm4
glm4_moe glm4_moe_lite glm_moe_dsa gpt2 gpt_bigcode gpt_neo gpt_neox gpt_oss gptj granite granitemoe
granitemoehybrid hunyuan_v1_dense hunyuan_v1_moe hy_v3 internvl iquestcoder jamba kimi_linear lfm2 lfm2_moe llama llama4
llava
mamba mamba2 mimo_v2_flash minimax minimax_m2 mistral mistral3 mistral4 mixtral mllama mpt nemotron nemotron_h olmo
olmo2 olmo3 olmo_hybrid olmoe opt paligemma phi phi3 phimoe qwen2 qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_5_moe_text
qwen3_5_text qwen3_moe qwen3_next qwen3_vl qwen3_vl_moe recurrent_gemma seed_oss smollm3 solar_open stablelm
starcoder2 zamba2 clip_vision_model internvl_vision llama4_text llama4_vision_model mllama_text_model
mllama_vision_model pixtral qwen2_5_vl_text qwen2_5_vl_vision qwen2_vl_text qwen2_vl_vision qwen3_vl_moe_text
qwen3_vl_moe_vision qwen3_vl_text qwen3_vl_vision siglip_vision_model ministral ministral3 granitemoeshared gemma3n
gemma4 qwen3_5 qwen3_5_moe qwen3_5_vision qwen3_5_moe_vision llava_next vaultgemma
""".split()  # noqa: SIM905 - a hundred words
"""Model types to write, those of sub-configurations last."""

NO_MATTER = re.compile(
    r".*(_token_id|_token_index|_eps|_epsilon|_std|_range|_coef|_multiplier|_alpha_factor|_beta_factor|_multipliers)"
    r"|output_\w+|time_step_(min|max|floor|limit|scale|init_scheme|rank_scale)|rope_theta|rope_scaling|use_cache|dtype"
    r"|transformers_version|architectures|return_dict|chunk_size_feed_forward|is_encoder_decoder|\w*2\w*id|id2label"
    r"|problem_type|_name_or_path|model_type|summary_\w+|pretraining_tp|layerdrop|init_device|classifier_dropout"
)
"""Keys that decide neither a part nor a size."""


def plain(field: dataclasses.Field[Any]) -> Any:
    """A field's default; None where it has none of its own."""
    if field.default is not dataclasses.MISSING:
        return field.default
    return field.default_factory() if field.default_factory is not dataclasses.MISSING else None


def row(model_type: str) -> dict[str, Any]:
    """One configuration class."""
    cls = CONFIG_MAPPING[model_type]
    fields = {field.name: plain(field) for field in dataclasses.fields(cls)}
    fields.setdefault("tie_word_embeddings", False)  # PreTrainedModel.get_expanded_tied_weights_keys
    kept = {name: value for name, value in sorted(fields.items()) if not NO_MATTER.fullmatch(name)}
    plainly = {name: value for name, value in kept.items() if isinstance(value, (bool, int, float, str, list, tuple))}
    found = {"names": dict(sorted(cls.attribute_map.items())), "defaults": plainly}
    return {**found, "floors": True} if floors(cls, fields) else found


UNEVEN = {"hidden_size": 164, "num_attention_heads": 5, "num_key_value_heads": 5}
SMALL = {"intermediate_size": 96, "moe_intermediate_size": 16, "num_hidden_layers": 2, "vocab_size": 64}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def floors(cls: type[Any], fields: dict[str, Any]) -> bool:
    """Whether heads may not divide the hidden size: a step runs, and their width is rounded down."""
    if not UNEVEN.keys() <= fields.keys() | cls.attribute_map.keys():
        return False
    try:
        config = cls(**UNEVEN, **{key: value for key, value in (SMALL | TOKENS).items() if key in fields})
        AutoModelForCausalLM.from_config(config).eval()(torch.tensor([[3, 4, 5]]))
    except Exception:  # noqa: BLE001 - transformers raises everything
        return False
    return True


def main() -> None:
    """Write the file, one class a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(row(name), separators=(',', ':'))}" for name in FAMILIES]
    target = Path(__file__).parents[1] / "memcore/data/classes.json"
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
