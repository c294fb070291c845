"""The config: what is accepted, and how what is not is named."""

import json

import pytest

from memcore import Config, ConfigError, UnsupportedError, estimate
from memcore.config.hardware import Hardware
from memcore.config.json_schema import json_schema
from memcore.config.kinds import Integer, Number
from memcore.config.settings import SETTINGS
from memcore.config.texts import FLAGS, from_texts, to_texts
from memcore.config.training import Training
from memcore.config.url import decode_fragment, encode_fragment
from memcore.hardware import ACCELERATORS, find_accelerator
from memcore.networks.catalog import catalog

JOB = {"model": "llama-3.1-8b", "hardware": {"num_gpus": 8, "accelerator": "h100-sxm-80gb"}}


def with_section(**sections):
    """The job with further sections."""
    return {**JOB, **sections}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], 'expected an object such as {"model": "gpt2"}, found a list'),
        ("train.yaml", "found 'train.yaml', the name of a file; read it with memcore.load"),
        ({}, "model: is required"),
        ({"model": None}, "model: is required"),
        ({"model": 5}, "model: expected a catalog id, a hub id or the content of a config.json, found 5"),
        ({"model": "a\ud800"}, "model: found a lone surrogate (half a character), which no file can contain"),
        (with_section(trainin={}), "trainin: unknown key (did you mean 'training'?)"),
        ({"model": "gpt2", "gpu": "4090"}, "gpu: unknown key (did you mean 'hardware.accelerator'?)"),
        (with_section(training={"sequence_lenght": 1}), "training.sequence_lenght: unknown key (did you mean 'sequence_length'?)"),
        (with_section(training={"sequence_length": "8k"}), "training.sequence_length: expected a whole number, found '8k'"),
        (with_section(training={"sequence_length": 0}), "training.sequence_length: expected a whole number of at least 1, found 0"),
        (with_section(training={"sequence_length": True}), "training.sequence_length: expected a whole number, found True"),
        (with_section(training={"sequence_length": 1.5}), "training.sequence_length: expected a whole number, found 1.5"),
        (with_section(training={"precision": "bf61"}), "training.precision: found 'bf61'; allowed: fp32, tf32, bf16, fp16, bf16-mixed, "
         "fp16-mixed, fp8-mixed, bf16-autocast (did you mean 'bf16'?)"),
        (with_section(training={"batch_size": 1, "micro_batch_size": 1}), "training.micro_batch_size: given twice: also as 'micro_batch_size'"),
        (with_section(training={"optimizer": 3}), "training.optimizer: expected a string or an object with 'name', found a number"),
        (with_section(training={"optimizer": {"name": "adamx"}}), f"training.optimizer.name: found 'adamx'; allowed: {', '.join(Training.optimizer.name.kind.options)} "
         "(did you mean 'adamax'?)"),
        (with_section(training={"dropout": 0.1}), "training.dropout: expected an object, found a number"),
        (with_section(training={"dropout": {"hidden": 2}}), "training.dropout.hidden: expected a number from 0 to 1, found 2"),
        (with_section(training={"loss": "chunked:0"}), "training.loss: found 'chunked:0'; allowed: cross-entropy-fp32, cross-entropy, "
         "fused-linear, cut-cross-entropy, fused-head, vocab-parallel, chunked:N (did you mean 'chunked:N'?)"),
        (with_section(engine={"contiguous_memory_optimization": 1}), "engine.contiguous_memory_optimization: expected true or false, found 1"),
        (with_section(engine={"reshard_after_forward": "yes"}), "engine.reshard_after_forward: expected true, false or a number of at "
         "least 2, found 'yes'"),
        (with_section(hardware={"accelerator": "a100"}), f"hardware.accelerator: found 'a100', which is not one of {len(ACCELERATORS)} known accelerators; "
         "it may be a100-sxm-40gb, a100-pcie-40gb, a100-sxm-80gb, a100-pcie-80gb (did you mean 'a100-sxm-40gb'?)"),
        (with_section(hardware="h100"), "hardware: expected an object, found a string"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_understood(config, message):
    """The message names the key's path, what was found, what is allowed and the nearest valid name."""
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(config)
    assert str(caught.value) == message


def test_all_problems_come_at_once():
    """A file with several mistakes is read to its end."""
    with pytest.raises(ConfigError) as caught:
        Config.from_dict({"training": {"sequence_length": -1, "optimiser": "sgd"}, "hardware": 3})
    assert [problem.path for problem in caught.value.problems] == [
        "training.sequence_length", "training.optimiser", "hardware", "model",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (with_section(model={"model_type": {}, "hidden_size": 64}), "model.model_type: expected a string, found {}"),
        (with_section(model="llama-3.1-9b"), f"model: found 'llama-3.1-9b', which is not one of the {len(catalog())} models in the catalog; give its config.json, "
         "or name a model of the same shapes (did you mean 'llama-3.1-8b'?)"),
        (with_section(engine={"type": "none"}), "engine.type: 'none' runs on one GPU, found hardware.num_gpus 8; allowed: ddp, fsdp"),
        (with_section(parallelism={"data_parallel_size": 4}), "parallelism.data_parallel_size: found 4, but hardware.num_gpus is 8; they "
         "must agree"),
        (with_section(parallelism={"data_parallel_shard_size": 3}), "parallelism.data_parallel_shard_size: found 3, which does not divide "
         "the 8 data-parallel ranks"),
        (with_section(engine={"type": "ddp", "wrap": "layer"}), "engine.wrap: applies to engine.type fsdp, found engine.type 'ddp'"),
        (with_section(engine={"type": "fsdp", "reshard_after_forward": 3}), "engine.reshard_after_forward: found 3; a number must divide "
         "the 8 ranks of a shard group"),
        (with_section(training={"precision": "fp32", "attention": "flash"}), "training.attention: 'flash' has no fp32 kernel; allowed: "
         "sdpa, efficient, math"),
        (with_section(training={"optimizer": {"name": "adamw", "momentum": 0.9}}), "training.optimizer.momentum: applies to rmsprop and sgd, "
         "found 'adamw'"),
        (with_section(engine={"type": "ddp"}, training={"compute_dtype": "fp32", "precision": "bf16"}), "training.compute_dtype: found 'fp32' with parameters in 'bf16'; only FSDP and autocast can "
"compute in another dtype"),
        (with_section(model="gpt2", training={"sequence_length": 2048}), "training.sequence_length: found 2048; openai-community/gpt2 has "
         "1024 learned positions"),
        (with_section(training={"use_cache": True, "activation_checkpointing": "full"}), "training.use_cache: found true; transformers "
         "turns the cache off under checkpointing"),
    ],
    ids=str,
)  # fmt: skip
def test_what_contradicts_itself(config, message):
    """A combination that cannot run is refused, not clamped."""
    with pytest.raises(ConfigError) as caught:
        estimate(config)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (with_section(training={"compile": True, "attention": "math"}),
         "training.compile: compiled blocks are not supported yet for attention 'math'; allowed: false"),
        (with_section(model="qwen3-0.6b", training={"implementation": "lit-gpt"}),
         "training.implementation: LitGPT's layers need no norm on queries and keys, which qwen3 lacks; use 'transformers'"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_modelled(config, message):
    """What is understood but not modelled is said, never approximated."""
    with pytest.raises(UnsupportedError) as caught:
        estimate(config)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "neutral", [{"training": None}, {"training": {"compile": None}}, {"parallelism": {"tensor_parallel_size": 1}}]
)
def test_null_and_ones_change_nothing(neutral):
    """`null` means the same as leaving a key out, and a size of one is no parallelism."""
    assert estimate({**JOB, **neutral}).peak == estimate(JOB).peak


def test_short_forms():
    """An optimizer and a checkpointing policy may be given as just their names, and come back so."""
    plain = {"model": "gpt2", "training": {"optimizer": "sgd", "activation_checkpointing": "full", "batch_size": 2}}
    config = Config.from_dict(plain)
    assert config[Training.micro_batch_size] == 2
    assert config.to_dict()["training"] == {
        "optimizer": "sgd",
        "activation_checkpointing": "full",
        "micro_batch_size": 2,
    }


@pytest.mark.parametrize(
    "written, known",
    [
        ("4090", "rtx-4090"),
        ("GeForce RTX 5090 32GB", "rtx-5090"),
        ("Tesla T4", "t4"),
        ("l40", "l40"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA H200", "h200-sxm-141gb"),
    ],
)
def test_accelerators_as_people_and_drivers_write_them(written, known):
    """A name that can mean one GPU only is taken, from a file as from a text."""
    kind = SETTINGS[Hardware.accelerator].kind
    assert kind.check(written) == kind.parse(written) == find_accelerator(written).id == known


@pytest.mark.parametrize(
    ("written", "usual", "other"),
    [
        ("H100", "h100-sxm-80gb", "h100-nvl-94gb"),
        ("h100 80gb", "h100-sxm-80gb", "h100-pcie-80gb"),
        ("A100-80GB", "a100-sxm-80gb", "a100-pcie-80gb"),
        ("a100 40 GB", "a100-sxm-40gb", "a100-pcie-40gb"),
    ],
)
@pytest.mark.parametrize("engine", [{}, {"type": "megatron"}, {"type": "vllm"}], ids=str)
def test_a_short_name_is_the_usual_board(written, usual, other, engine):
    """The one SXM board of a chip and size is taken, and said as an assumption with the others."""
    length = {} if engine.get("type") == "vllm" else {"training": {"sequence_length": 512}}
    job = {"model": "llama-3.2-1b", "engine": engine, "hardware": {"accelerator": written, "num_gpus": 1}, **length}
    found = estimate(job)
    taken = next(each for each in found.assumptions if each.path == Hardware.accelerator)
    assert taken.notable
    assert taken.value == usual == found.job.accelerator.id
    assert other in str(taken.reason)


def test_the_report_names_what_was_assumed():
    """Every setting that the config leaves open is listed with what was taken."""
    taken = {each.path: each.value for each in estimate(JOB).assumptions}
    assert taken["engine.type"] == "fsdp"
    assert taken["training.precision"] == "bf16-mixed"
    assert taken["training.micro_batch_size"] == 1
    assert not set(taken) & {"hardware.num_gpus", "model"}
    assert "engine.gradient_as_bucket_view" not in taken


def test_every_setting_is_described():
    """Each setting has a label, help, and a flag of its own."""
    assert len(FLAGS) == len(SETTINGS)
    for setting in SETTINGS.values():
        assert setting.label
        assert setting.help.endswith(".")
        assert setting.flag == setting.flag.lower()


_VALUES = (
    None, True, 0, 1, 3, 7, -1, 0.5, 5e8, 2**60, "", "8k", "80GiB", "full", "chunked:8", "chunked:08", "chunked:9999",
    "bf16", [], [1, 2], ["q_proj"], ["a b"], {}, "Et*3|(tt|)*29m|L", "1,2", "0.19.0", "x" * 300, "adamw",
)  # fmt: skip


def at(path, value):
    """A config in which one setting has a value."""
    if path == "model":
        return {"model": value}
    for key in reversed(path.split(".")):
        value = {key: value}
    return {"model": "gpt2", **value}


def _is_read(config):
    try:
        Config.from_dict(config)
    except ConfigError:
        return False
    return True


@pytest.mark.machine
def test_the_json_schema_agrees():
    """The JSON Schema accepts what is accepted and refuses what is refused."""
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(json_schema())
    validator = Draft202012Validator(json_schema())
    good = with_section(training={"optimizer": {"name": "sgd", "momentum": 0.9}, "loss": "chunked:8", "dropout": None})
    assert validator.is_valid(good)
    assert json.loads(json.dumps(Config.from_dict(good).to_dict()))["training"]["loss"] == "chunked:8"
    assert not [
        (path, value)
        for path in SETTINGS
        for value in _VALUES
        if _is_read(at(path, value)) != validator.is_valid(at(path, value))
    ]
    for bad in (
        {},
        with_section(trainin={}),
        with_section(training={"sequence_length": "8k"}),
        with_section(engine={"wrap": "x"}),
    ):
        assert not validator.is_valid(bad)


GOLDEN_LINKS = {
    "v1&model=llama-3.1-8b&seq=8192&checkpointing=full&engine=fsdp&accelerator=h100-sxm-80gb&gpus=8": {
        "model": "llama-3.1-8b",
        "training": {"sequence_length": 8192, "activation_checkpointing": "full"},
        "engine": {"type": "fsdp"},
        "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 8},
    },
    "v1&model=mistralai/Mistral-7B-v0.1&optimizer=sgd&momentum=0.9&loss=chunked:8&reshard=4&gpu-memory=40": {
        "model": "mistralai/Mistral-7B-v0.1",
        "training": {"optimizer": {"name": "sgd", "momentum": 0.9}, "loss": "chunked:8"},
        "engine": {"reshard_after_forward": 4},
        "hardware": {"gpu_memory_gb": 40},
    },
}
"""Links that people have saved keep their meaning for ever."""


@pytest.mark.parametrize("link", GOLDEN_LINKS)
def test_old_links(link):
    """A link decodes to what it always meant, and encodes to itself; lengths may be written as people write them."""
    config = decode_fragment(f"https://example.org/memcore/#{link}")
    assert config.to_dict() == GOLDEN_LINKS[link]
    assert encode_fragment(config) == link
    assert decode_fragment("v1&model=gpt2&seq=8k") == decode_fragment("#v1&model=gpt2&seq=8192")


def test_a_pasted_model_travels_in_the_link():
    """A config.json is deflated into the link, and Llama-3.1-8B's stays short."""
    model = {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "_name": "<b>mine</b>"}
    link = encode_fragment(Config({"model": model}))
    assert len(link) < 200
    assert "<" not in link
    assert decode_fragment(link).model == model


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("", "link: found version ''; expected 'v1'; copy the whole link"),
        (
            "v9&model=gpt2",
            "link: found version 'v9'; this memcore is older and reads 'v1': reload the page or update it",
        ),
        ("v1&model=gpt2&sequ=1", "link: sequ: unknown key; a newer memcore may know it (did you mean 'seq'?)"),
        ("v1&model=gpt2&seq=1&seq=2", "link: seq: given twice"),
        (
            "v1&model=gpt2&seq=ten",
            "training.sequence_length: expected a whole number such as 8192, 8k or 7B, found 'ten'",
        ),
        (
            "v1&model=deflate:!!!",
            "model: the model in the link is damaged; the link may be cut off: copy it again\nmodel: is required",
        ),
        ("v1&seq=8192", "model: is required"),
        ("v1&" + "x" * 70000, "link: longer than 65536 characters"),
    ],
)
def test_broken_links(link, message):
    """A link that cannot be read says what is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        decode_fragment(link)
    assert str(caught.value).removesuffix("\nmodel: is required") == message.removesuffix("\nmodel: is required")


def test_a_deflated_bomb_is_refused():
    """A small link cannot grow to gigabytes in memory."""
    bomb = Config({"model": {"model_type": "llama", "padding": " " * 20_000_000}})
    assert len(encode_fragment(bomb)) < 65536
    with pytest.raises(ConfigError, match="damaged"):
        decode_fragment(encode_fragment(bomb))


def test_settings_as_text():
    """Forms, flags and links share one way to write values."""
    texts = {
        "model": "gpt2",
        "training.sequence_length": "1k",
        "engine.type": " DDP ",
        "hardware.num_gpus": "2",
        "training.loss": "",
    }
    config = from_texts(texts)
    assert config.get("training.sequence_length") == 1024
    assert config.get("engine.type") == "ddp"
    assert to_texts(config) == {
        "model": "gpt2",
        "training.sequence_length": "1024",
        "engine.type": "ddp",
        "hardware.num_gpus": "2",
    }
    assert from_texts({"training.sequence_length": "2k"}, {"model": "gpt2", "training": {"optimizer": "sgd"}}).to_dict() == {
        "model": "gpt2", "training": {"sequence_length": 2048, "optimizer": "sgd"},
    }  # fmt: skip


def test_numbers_of_any_setting_as_people_write_them():
    """Counts with k, B, e and products for every whole number, sizes for bytes, per cent for parts of one."""
    for path, setting in SETTINGS.items():
        if isinstance(setting.kind, Integer):
            for text, value in (("8k", 8192), ("2x4", 8), ("1e3", 1000), ("7B", 7 * 10**9)):
                if setting.kind.minimum <= value <= setting.kind.maximum:
                    assert setting.kind.parse(text) == value, path
            if setting.kind.unit == "bytes":
                assert setting.kind.parse("20GiB") == 20 * 2**30
        elif isinstance(setting.kind, Number) and setting.kind.maximum == 1:
            assert setting.kind.parse("90%") == setting.kind.parse("0.9") == 0.9
        elif isinstance(setting.kind, Number):
            with pytest.raises(ValueError, match="expected a"):
                setting.kind.parse("90%")


@pytest.mark.parametrize(("text", "gib"), [("80GiB", 80), ("80 gb", 80e9 / 2**30), ("81920MiB", 80), ("80", 80)])
def test_memory_may_have_a_unit(text, gib):
    """Of a GPU, in files and on the command line; a bare number is GiB."""
    assert Config.from_dict({"model": "gpt2", "hardware": {"gpu_memory_gb": text}})[Hardware.gpu_memory_gb] == gib
    with pytest.raises(ConfigError, match="expected a number, or a size such as 80GiB, found '80 apples'"):
        Config.from_dict({"model": "gpt2", "hardware": {"gpu_memory_gb": "80 apples"}})


def test_an_engine_is_named_by_a_word():
    """As an adapter is; what is written has its settings side by side, as files have them."""
    config = Config.from_dict({"model": "gpt2", "engine": "megatron"})
    assert config == Config.from_dict({"model": "gpt2", "engine": {"type": "megatron"}})
    assert config.to_dict()["engine"] == {"type": "megatron"}


def test_an_adapter_that_is_served():
    """The error names the setting that counts adapters."""
    with pytest.raises(ConfigError, match="--max-loras"):
        estimate({"model": "qwen3-8b", "engine": "vllm", "training": {"adapter": "lora"}})
