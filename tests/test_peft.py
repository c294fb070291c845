"""The adapter_config.json that PEFT saves with an adapter, as people publish it."""

import pytest

from memcore import Config, estimate
from memcore.errors import ConfigError, UnsupportedError
from memcore.networks.adapters import trainable
from memcore.tools import imported
from memcore.tools.sources import read_source

TINY = """{
  "alora_invocation_tokens": null,
  "alpha_pattern": {},
  "arrow_config": null,
  "auto_mapping": null,
  "base_model_name_or_path": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
  "bias": "none",
  "corda_config": null,
  "ensure_weight_tying": false,
  "eva_config": null,
  "exclude_modules": null,
  "fan_in_fan_out": false,
  "inference_mode": true,
  "init_lora_weights": true,
  "layer_replication": null,
  "layers_pattern": null,
  "layers_to_transform": null,
  "loftq_config": {},
  "lora_alpha": 32,
  "lora_bias": false,
  "lora_dropout": 0.05,
  "lora_ga_config": null,
  "megatron_config": null,
  "megatron_core": "megatron.core",
  "modules_to_save": null,
  "peft_type": "LORA",
  "peft_version": "0.19.1",
  "qalora_group_size": 16,
  "r": 16,
  "rank_pattern": {},
  "revision": null,
  "target_modules": [
    "o_proj",
    "v_proj",
    "gate_proj",
    "down_proj",
    "k_proj",
    "q_proj",
    "up_proj"
  ],
  "target_parameters": null,
  "task_type": "CAUSAL_LM",
  "trainable_token_indices": null,
  "use_bdlora": null,
  "use_dora": false,
  "use_qalora": false,
  "use_rslora": false
}"""
"""As PEFT 0.19.1 saved it: ABISHEAK-std/TinyLlama-structured-output-finetuned-using-Lora."""
OLDER = """{
  "auto_mapping": null,
  "base_model_name_or_path": "genaitraining/llama-2-7b-domain-tuned",
  "bias": "none",
  "fan_in_fan_out": false,
  "inference_mode": true,
  "init_lora_weights": true,
  "layers_pattern": null,
  "layers_to_transform": null,
  "lora_alpha": 16,
  "lora_dropout": 0.1,
  "modules_to_save": null,
  "peft_type": "LORA",
  "r": 64,
  "revision": null,
  "target_modules": [
    "q_proj",
    "v_proj"
  ],
  "task_type": "CAUSAL_LM"
}"""
"""As PEFT 0.4 to 0.6 saved it: AliAbdien/Fine-Tuning-LLaMA-2-7B-."""
READ = {
    TINY: (
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        {"type": "lora", "rank": 16, "dropout": 0.05, "use_rslora": False,
         "target_modules": ["o_proj", "v_proj", "gate_proj", "down_proj", "k_proj", "q_proj", "up_proj"]},
    ),
    OLDER: (
        "genaitraining/llama-2-7b-domain-tuned",
        {"type": "lora", "rank": 64, "dropout": 0.1, "target_modules": ["q_proj", "v_proj"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_published_files(text):
    """The adapter and its base are all that they say; no other key may change memory as it stands there."""
    found = imported(text)
    model, adapter = READ[text]
    assert found.tool.name == "peft"
    assert found.config == {"model": model, "training": {"adapter": adapter}}
    assert found.unknown == ()


def test_what_is_computed():
    """The numbers that learn: rank times both widths of each layer."""
    config, _ = read_source(TINY, "adapter_config.json")
    job = {**config["training"], "sequence_length": 128, "precision": "bf16"}
    found = estimate(Config.from_dict({**config, "training": job})).ranks[0]
    h, kv, ff, rank, layers = 2048, 256, 5632, 16, 22
    learn = layers * rank * (2 * (h + h) + 2 * (h + kv) + 3 * (h + ff))
    assert trainable(found.job.share) == learn


SAID = {
    '"use_dora": false': ('"use_dora": true', "type", "dora"),
    '"rank_pattern": {}': (r'"rank_pattern": {"^model\\.layers\\.0\\.mlp.(up|down)_proj": 4}', "rank_pattern",
                           "model.layers.0.mlp.up_proj=4,model.layers.0.mlp.down_proj=4"),
    '"layers_to_transform": null': ('"layers_to_transform": [1, 0]', "layers_to_transform", [1, 0]),
    '"use_rslora": false': ('"use_rslora": true', "use_rslora", True),
    '"modules_to_save": null': ('"modules_to_save": ["embed_tokens", "lm_head"]', "modules_to_save",
                                ["embed_tokens", "lm_head"]),
    '"target_parameters": null': ('"target_parameters": ["mlp.experts.down_proj"]', "target_parameters",
                                  ["mlp.experts.down_proj"]),
}  # fmt: skip


@pytest.mark.parametrize("key", SAID)
def test_what_else_makes_the_adapter(key):
    other, setting, value = SAID[key]
    assert key in TINY
    assert imported(TINY.replace(key, other)).config["training"]["adapter"][setting] == value


REFUSED = {
    '"layers_pattern": null': ('"layers_pattern": "encoder"', "layers_pattern: found 'encoder'"),
    '"rank_pattern": {}': ('"rank_pattern": {".*q.*": 4}', "rank_pattern: found '.*q.*'"),
    '"trainable_token_indices": null': ('"trainable_token_indices": [3]', "trainable_token_indices: found"),
    '"exclude_modules": null': ('"exclude_modules": ["lm_head"]', "exclude_modules: found"),
    '"layer_replication": null': ('"layer_replication": [[0, 4], [2, 5]]', "layer_replication: found"),
    '"peft_type": "LORA"': ('"peft_type": "VBLORA"', "peft_type: found 'VBLORA'"),
}


@pytest.mark.parametrize("key", REFUSED)
def test_other_adapters_are_refused_by_name(key):
    other, message = REFUSED[key]
    assert key in TINY
    with pytest.raises((ConfigError, UnsupportedError), match=message.replace("[", r"\[")):
        imported(TINY.replace(key, other))


def test_a_key_of_someone_elses_is_named():
    """Unsloth adds one of its own."""
    assert imported(TINY.replace('"use_rslora"', '"unsloth_fixed": true,\n  "use_rslora"')).unknown == (
        "unsloth_fixed",
    )


TYPES = {
    """{"peft_type": "IA3", "target_modules": ["k_proj", "v_proj", "down_proj"], "feedforward_modules": ["down_proj"],
        "fan_in_fan_out": false, "init_ia3_weights": true, "modules_to_save": null}""": {
        "type": "ia3", "target_modules": ["k_proj", "v_proj", "down_proj"]},
    """{"peft_type": "ADALORA", "r": 8, "init_r": 24, "target_r": 8, "lora_dropout": 0.0, "target_modules": ["q_proj"],
        "beta1": 0.85, "beta2": 0.85, "deltaT": 1, "orth_reg_weight": 0.5}""": {
        "type": "adalora", "init_r": 24, "dropout": 0.0, "target_modules": ["q_proj"]},
    """{"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 8, "prompt_tuning_init": "TEXT", "num_layers": 24}""": {
        "type": "prompt-tuning", "num_virtual_tokens": 8},
    """{"peft_type": "VERA", "target_modules": ["q_proj"], "projection_prng_key": 0, "vera_dropout": 0.0}""": {
        "type": "vera", "rank": 256, "target_modules": ["q_proj"]},
    """{"peft_type": "LOKR", "r": 4, "alpha": 8, "decompose_factor": -1, "target_modules": ["q_proj"]}""": {
        "type": "lokr", "rank": 4, "target_modules": ["q_proj"]},
    """{"peft_type": "OFT", "r": 0, "oft_block_size": 32, "target_modules": ["q_proj"]}""": {
        "type": "oft", "block_size": 32, "target_modules": ["q_proj"]},
    """{"peft_type": "LORA", "r": 4, "target_modules": "model\\\\.layers\\\\.\\\\d+\\\\.self_attn\\\\.(q|v)_proj"}""": {
        "type": "lora", "rank": 4, "target_modules": ["q_proj", "v_proj"]},
    """{"peft_type": "TRAINABLE_TOKENS", "token_indices": [0, 1, 2], "target_modules": ["embed_tokens"]}""": {
        "type": "trainable-tokens", "num_trainable_tokens": 3, "target_modules": ["embed_tokens"]},
}  # fmt: skip


@pytest.mark.parametrize("text", TYPES)
def test_other_methods_of_peft(text):
    assert imported(text).config["training"]["adapter"] == TYPES[text]


@pytest.mark.parametrize(
    ("pattern", "layers", "names"),
    [
        (r".*\\.layers\\.(3|7|11|15)\\.self_attn\\.(q|k)_proj", [3, 7, 11, 15], ["q_proj", "k_proj"]),
        (r"model.layers.[1-3].mlp.up_proj", [1, 2, 3], ["up_proj"]),
        (r"model\\.layers\\.0\\.mlp\\.up_proj", [0], ["up_proj"]),
    ],
)
def test_adapters_on_some_layers_alone(pattern, layers, names):
    adapter = imported(f'{{"peft_type": "LORA", "r": 4, "target_modules": "{pattern}"}}').config["training"]["adapter"]
    assert (adapter["layers_to_transform"], adapter["target_modules"]) == (layers, names)


@pytest.mark.parametrize(("parts", "more"), [(["tower"], 7077888), (["tower", "projector"], 7290880)])
def test_adapters_of_towers(parts, more):
    """LLaVA's CLIP has 24 layers of six linear layers, the last of which sees no gradient, and its projector has two."""
    job = {"images_per_sequence": 1, "precision": "bf16", "adapter": {"type": "lora", "rank": 16}}
    found = [
        trainable(
            estimate(
                Config.from_dict({"model": "llava-hf/llava-1.5-7b-hf", "training": {**job, "trainable": names}})
            ).job.share
        )
        for names in (["language-model"], ["language-model", *parts])
    ]
    assert found[1] - found[0] == more
