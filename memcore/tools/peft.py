"""The adapter_config.json that PEFT saves with an adapter: the adapter and its base model, and nothing of the run."""

from memcore.config.training import Training
from memcore.formats.tool import Key, Meaning, Tool

PEFT = Tool(
    name="peft",
    title="PEFT",
    syntax="json",
    engines=("none", "ddp", "fsdp", "deepspeed"),
    tells=("peft_type", "base_model_name_or_path"),
    model="base_model_name_or_path",
    keys=(
        Key(path=Training.adapter.type, name="peft_type", values={"lora": "LORA"}),
        Key(path=Training.adapter.rank, name="r"),
        Key(path=Training.adapter.dropout, name="lora_dropout"),
        Key(path=Training.adapter.target_modules, name="target_modules"),
        Key(path=Training.adapter.target_parameters, name="target_parameters"),
        Key(path=Training.adapter.modules_to_save, name="modules_to_save"),
        Key(path=Training.adapter.use_rslora, name="use_rslora"),
    ),
    meanings=(Meaning(sets={Training.adapter.type: "dora"}, keys={"use_dora": True}),),
    vocabulary=("peft",),
    read_only=True,
    source="peft 0.21, src/peft/tuners/lora/config.py (LoraConfig), src/peft/config.py (PeftConfigMixin)",
)
