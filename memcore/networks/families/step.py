"""Step 3.5 and 3.7 as StepFun publishes them, under the names of transformers (5.23, configuration_step3p7.py)."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.networks.families.counting import Config, whole

_SEEN = {
    "heads": "num_attention_heads",
    "layers": "num_hidden_layers",
    "ls_init_value": "layer_scale_init_value",
    "width": "hidden_size",
}
_FIXED: Config = {
    "need_fp32_gate": True,
    "norm_expert_weight": True,
    "understand_projector_stride": 2,
    "use_head_wise_attn_gate": True,
    "use_moe_router_bias": True,
}
"""What the code does in any case."""
_DEEPEST = 4096


def perceives(vision: Config) -> Config:
    """Rename the keys of the perception encoder (`Step3p7VisionConfig.__post_init__`)."""
    return {**{_SEEN.get(key, key): value for key, value in vision.items()}, "model_type": "step3p5_vision"}


def step(config: Config) -> Config:
    """Rename the tower's keys, and split the string of sparse layers (`Step3p7TextConfig.__post_init__`)."""
    kept = {key: value for key, value in config.items() if key not in _FIXED or value != _FIXED[key]}
    text, vision, listed = (config.get(key) for key in ("text_config", "vision_config", "moe_layers_enum"))
    if isinstance(text, Mapping):
        return {
            **kept,
            "text_config": step(text),
            **({"vision_config": perceives(vision)} if isinstance(vision, Mapping) else {}),
        }
    if not isinstance(listed, str):
        return kept
    sparse, depth = {each.strip() for each in listed.split(",")}, min(whole(config.get("num_hidden_layers")), _DEEPEST)
    kinds = ["sparse" if str(layer) in sparse else "dense" for layer in range(depth)]
    return {**kept, "moe_layers_enum": None, "mlp_layer_types": kinds}
