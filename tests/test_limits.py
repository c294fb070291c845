"""Work is bounded before it is done: what is beyond a limit is refused by its key, what is large but real is quick."""

import json
from cProfile import Profile
from random import Random

import pytest

from memcore import ConfigError, MemcoreError, UnsupportedError, estimate
from memcore.config.settings import SETTINGS, Config
from memcore.config.texts import FLAGS, from_texts
from memcore.config.url import decode_fragment
from memcore.faces.page.exchanging import Form, understood
from memcore.faces.render.data import explanation, summary
from memcore.faces.render.serving_data import serving_explanation_data, serving_summary_data
from memcore.formats.content import content
from memcore.limits import (
    BY_UNIT,
    DEEPEST,
    FILE_BYTES,
    INTEGER,
    LAYERS,
    LINK_LENGTH,
    LIST_LENGTH,
    NESTING,
    OF_MODEL,
    VALUES,
    whole,
)
from memcore.networks.catalog import catalog, find_model
from memcore.servers.sglang.graphs import prompt_sizes
from memcore.serving.stages import merged_stages, stages, vllm_partition
from memcore.trace.schedules import BOTH_WAYS, LOOPED, V_SHAPED, enough, fullest
from memcore.units import approximate

LLAMA = {
    "model_type": "llama", "hidden_size": 1024, "num_hidden_layers": 32, "num_attention_heads": 16,
    "num_key_value_heads": 8, "intermediate_size": 2816, "vocab_size": 32000, "max_position_embeddings": 8192,
}  # fmt: skip
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 512, "num_experts_per_tok": 8}
MEGATRON = {"type": "megatron"}
GPT = {
    "model_type": "megatron", "architecture": "gpt", "num_layers": 32, "hidden_size": 1024, "num_attention_heads": 16,
    "vocab_size": 32000, "max_position_embeddings": 4096, "num_experts": 8,
}  # fmt: skip


def at(path, value, **more):
    """A config in which a setting has a value."""
    config = {"model": LLAMA, **more}
    *sections, name = path.split(".")
    section = config
    for each in sections:
        section = section.setdefault(each, {})
    section[name] = value
    return config


DIGITS = "expected a number of at most 300 digits, found"
BEYOND = [
    ("training.gradient_accumulation_steps", 10**8, "expected a whole number of at most 32768, found 1e+08"),
    ("training.sequence_length", 2**31, "expected a whole number of at most 1073741824, found 2.14748e+09"),
    ("training.micro_batch_size", 2**25, "expected a whole number of at most 16777216, found 3.35544e+07"),
    ("training.image_size", 10**9, "expected a whole number of at most 65536, found 1e+09"),
    ("training.images_per_sequence", 10**9, "expected a whole number of at most 1048576, found 1e+09"),
    ("training.activation_checkpointing.every", 10**5, "expected a whole number of at most 4096, found 100000"),
    ("training.optimizer.rank", 2**60, "expected a whole number of at most 9007199254740992, found 1.15292e+18"),
    ("training.sequence_length", 10**400, f"{DIGITS} 1e+400"),
    ("training.sequence_length", -(10**5000), f"{DIGITS} -1e+5000"),
    ("engine.gpu_memory_utilization", 10**400, f"{DIGITS} 1e+400"),
    ("engine.reshard_after_forward", 10**7, "expected a number of at most 1048576, found 1e+07"),
    ("hardware.num_gpus", 10**7, "expected a whole number of at most 1048576, found 1e+07"),
    ("hardware.gpus_per_node", 10**7, "expected a whole number of at most 1048576, found 1e+07"),
    ("parallelism.data_parallel_size", 10**7, "expected a whole number of at most 1048576, found 1e+07"),
    ("parallelism.pipeline_parallel_size", 5000, "expected a whole number of at most 4096, found 5000"),
    ("parallelism.virtual_pipeline_parallel_size", 5000, "expected a whole number of at most 4096, found 5000"),
    ("parallelism.pipeline_layout", [1] * 5000, "expected a list of at most 4096 items, found 5000"),
    ("parallelism.pipeline_layout", "t" * 3000, "expected at most 2000 characters, found 3000"),
    ("parallelism.pipeline_layout", ",".join(["9" * 400] * 2), f"{DIGITS} 400"),
    ("training.adapter.target_modules", ["q_proj"] * 5000, "expected a list of at most 4096 items, found 5000"),
    ("engine.framework", "x" * 300, "expected a string of at most 200 characters, found 'xxxx"),
    ("inference.batch_size", 10**9, "expected a whole number of at most 16777216, found 1e+09"),
    ("engine.chunked_prefill_size", 10**15, "expected a whole number of at most 1073741824, found 1e+15"),
    ("engine.cuda_graph_max_bs", 10**9, "expected a whole number of at most 16777216, found 1e+09"),
    (
        "engine.microbatch_group_size_per_virtual_pipeline_stage",
        10**6,
        "expected a whole number of at most 32768, found 1e+06",
    ),
]


@pytest.mark.parametrize(
    ("path", "value", "message"), BEYOND, ids=[f"{path}-{number}" for number, (path, *_) in enumerate(BEYOND)]
)
def test_a_setting_beyond_its_limit_names_both(path, value, message):
    """In a file."""
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(at(path, value))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert problem.message.startswith(message)


@pytest.mark.parametrize(
    ("flag", "text", "message"),
    [
        ("seq", "9" * 5000, f"{DIGITS} 5000"),
        ("seq", "1e400", "expected a whole number, found '1e400'"),
        ("seq", "x".join(["1e300"] * 2), "expected a whole number of at most 1073741824, found 1e+600"),
        ("reshard", "9" * 5000, f"{DIGITS} 5000"),
        ("kv-cache-memory", "9" * 5000 + "GiB", f"{DIGITS} 5000"),
        ("grad-accum", "100000000", "expected a whole number of at most 32768, found 1e+08"),
        ("pp-layout", "t" * 2001, "expected at most 2000 characters, found 2001"),
    ],
)
def test_a_text_beyond_its_limit_names_both(flag, text, message):
    """On the command line, in a form and in a link."""
    for read in (
        lambda: from_texts({FLAGS[flag]: text, "model": "gpt2"}),
        lambda: decode_fragment(f"v1&model=gpt2&{flag}={text}"),
    ):
        with pytest.raises(ConfigError) as caught:
            read()
        (problem,) = caught.value.problems
        assert problem.path == FLAGS[flag]
        assert problem.message.startswith(message)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("num_hidden_layers", 5000, "expected an integer of at most 2048, found 5000"),
        ("num_hidden_layers", 2**70, "expected an integer of at most 2048, found 1.18059e+21"),
        ("num_local_experts", 10**6, "expected an integer of at most 16384, found 1e+06"),
        ("vocab_size", 10**8, "expected an integer of at most 67108864, found 1e+08"),
        ("hidden_size", 10**400, f"{DIGITS} 1e+400"),
        ("rope_theta", 10**400, f"{DIGITS} 1e+400"),
        ("notes", "x" * 2**21, "longer than 1,048,576 characters"),
    ],
)
def test_a_model_beyond_a_limit_names_the_key(key, value, message):
    """In a config.json."""
    with pytest.raises(ConfigError) as caught:
        estimate({"model": {**MIXTRAL, key: value}})
    assert (f"model.{key}", message) in [(each.path, each.message) for each in caught.value.problems]


@pytest.mark.parametrize("listed", [[1] * 10**5 + ["1"], [*range(49)], [[1]], [*range(1, 49)]])
def test_layers_with_tables_of_n_grams(listed):
    """Each table's rows are a prime: numbers of no layer, and more tables than any file has, are refused at once."""
    text = {**catalog()["Qwen/Qwen3.8-Flash-Next"]["config"]["text_config"], "heads_per_ngram": 64}
    with pytest.raises(ConfigError, match="model.ple_layer_ids: found .*not supported in this family"):
        find_model({"model_type": "qwen4_exp", "text_config": {**text, "ple_layer_ids": listed}})


def aperiodic(count):
    """Kinds of layers in an order that no pattern repeats."""
    return Random(1).choices(["full_attention", "sliding_attention"], k=count)


QWEN25 = {
    "model_type": "qwen2_5_vl", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 32000,
    "vision_config": {"depth": 2, "hidden_size": 64, "num_heads": 4, "intermediate_size": 128, "out_hidden_size": 256,
                      "patch_size": 14, "window_size": 112, "spatial_merge_size": 2, "fullatt_block_indexes": [1]},
}  # fmt: skip
QWEN3 = {
    "model_type": "qwen3_vl",
    "text_config": {"model_type": "qwen3_vl_text", "hidden_size": 256, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 32000},
    "vision_config": {"depth": 4, "hidden_size": 64, "num_heads": 4, "intermediate_size": 128, "out_hidden_size": 256,
                      "patch_size": 16, "deepstack_visual_indexes": [1, 2]},
}  # fmt: skip
TOWERS = [
    (QWEN25, "patch_size", 10**6, "vision_config.window_size", "found 112; expected at least 2000000 pixels"),
    (
        QWEN25,
        "window_size",
        1,
        "vision_config.window_size",
        "found 1; expected at least 28 pixels, the size of one token",
    ),
    (QWEN3, "deepstack_visual_indexes", [1, 1], "vision_config.deepstack_visual_indexes", "expected layer numbers"),
    (QWEN3, "deepstack_visual_indexes", [-1], "vision_config.deepstack_visual_indexes", "expected layer numbers"),
    (QWEN3, "deepstack_visual_indexes", [True], "vision_config.deepstack_visual_indexes", "expected a list of layer"),
    (
        QWEN3,
        "deepstack_visual_indexes",
        [0, 1, 2],
        "text_config.num_hidden_layers",
        "found 2; the tower's features feed",
    ),
]


@pytest.mark.parametrize(("model", "key", "value", "path", "message"), TOWERS)
@pytest.mark.parametrize("engine", ["none", "megatron", "vllm"])
def test_towers_that_do_not_fit_their_images_or_decoder_are_refused(model, key, value, path, message, engine):
    """By the key, before a step is recorded; as they are they are answered."""
    assert estimate({"model": model, "training": {"image_size": 224}}).peak.peak > 0
    with pytest.raises(ConfigError) as caught:
        estimate(
            {"model": {**model, "vision_config": {**model["vision_config"], key: value}}, "engine": {"type": engine}}
        )
    said = {each.path: each.message for each in caught.value.problems}
    assert said[f"model.{path}"].startswith(message)


def test_chunks_of_the_loss_are_bounded():
    """Each is recorded on its own."""
    job = {"model": LLAMA, "engine": {"lm_head_chunk_size": 1}, "training": {"sequence_length": 10**7}}
    with pytest.raises(MemcoreError) as caught:
        estimate(job)
    message = "splits the loss into 10,000,000 chunks; at most 1,024 are supported"
    assert str(caught.value) == f"engine.lm_head_chunk_size: {message}"


def test_the_page_says_that_a_key_is_there_twice():
    """With the same value it is taken, and said, as on the command line."""
    text = '{"model": "gpt2", "training": {"micro_batch_size": 2, "micro_batch_size": 2}}'
    form, said = understood(text, Form({}, ""))
    assert said == "training.micro_batch_size appears twice with the same value."
    assert form.texts["training.micro_batch_size"] == "2"


def test_a_long_key_is_named_in_short():
    """A problem can be read whatever the key."""
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(at("engine." + "n" * 10_000, 1))
    assert all(len(str(each)) < 4000 for each in caught.value.problems)
    assert str(caught.value).startswith("engine." + "n" * 493 + " …: ")


def test_files_are_bounded(tmp_path):
    """Before they are read; of a log the first part is."""
    path = tmp_path / "long.json"
    with path.open("wb") as file:
        file.truncate(FILE_BYTES + 1)
    with pytest.raises(ConfigError, match="is longer than 16,777,216 bytes"):
        content(str(path))
    assert len(content(str(path), strict=False)) == FILE_BYTES


@pytest.mark.parametrize("path", ["engine.quantization", "engine.framework", "engine.framework_version"])
def test_an_empty_text_is_no_value(path):
    """A link could not say it."""
    with pytest.raises(ConfigError) as caught:
        Config.from_dict(at(path, " "))
    (problem,) = caught.value.problems
    assert (problem.path, problem.message) == (path, "found an empty string; leave the key out, or give null")


DIFFERENT_LAYERS = {
    "layer_types": ({"model_type": "qwen3", "use_sliding_window": True, "num_hidden_layers": 1500, "layer_types": aperiodic(1500)}, 0),
    "intermediate_size": (
        {"model_type": "gemma3n_text", "num_hidden_layers": 1000, "intermediate_size": [*range(256, 1256)]}, 1000
    ),
}  # fmt: skip


@pytest.mark.parametrize(("keys", "different"), DIFFERENT_LAYERS.values(), ids=DIFFERENT_LAYERS)
def test_layers_that_no_pattern_repeats_are_bounded(keys, different):
    """Each is recorded on its own; in a pattern that repeats there may be as many as there are."""
    with pytest.raises(ConfigError) as caught:
        estimate({"model": {**LLAMA, "sliding_window": 512, **keys}})
    (problem,) = caught.value.problems
    assert problem.path == "model.num_hidden_layers"
    assert problem.message.startswith(f"found {different or ''}")
    assert problem.message.endswith(" layers without a repeating pattern; at most 384 layers are supported")
    repeated = {**keys, "layer_types": ["full_attention", "sliding_attention"] * 1000, "num_hidden_layers": 2000}
    repeated.pop("intermediate_size", None)
    found = estimate({"model": {**LLAMA, "sliding_window": 512, **repeated, "model_type": "qwen3"}})
    assert found.job.model.num_layers == 2000


def nested(depth):
    """Objects inside each other."""
    found = 1
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("model", "path", "message"),
    [
        ({**LLAMA, "x": nested(NESTING)}, "model.x" + ".a" * (NESTING - 2), f"nested more than {NESTING} levels deep"),
        ({**LLAMA, "x": nested(100_000)}, "model.x" + ".a" * (NESTING - 2), f"nested more than {NESTING} levels deep"),
        ({**LLAMA, "x": [0] * VALUES}, "", "more than 262,144 values"),
        ({**LLAMA, "x": [[1, [10**400]]]}, "model.x.0.1.0", f"{DIGITS} 1e+400"),
    ],
    ids=["just too deep", "deep", "long", "digits in lists"],
)
def test_what_nobody_reads_is_bounded_too(model, path, message):
    """Keys that mean nothing cost nothing."""
    with pytest.raises(ConfigError) as caught:
        Config.from_dict({"model": model})
    assert [(each.path, each.message) for each in caught.value.problems] == [(path, message)]


LAYOUT = "expected at most 32768 layers and stage boundaries, found"


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("Et*999999999|L", f"{LAYOUT} 1e+09"),
        ("E(((t*999)*999)*999)*999|L", f"{LAYOUT}"),
        ("E(t|)*99999L", f"{LAYOUT} 200010"),
        ("Et*" + "9" * 1900 + "|L", f"{LAYOUT} 1e+300"),
        ("E" + "(" * 100 + "t" + ")" * 100 + "|L", "its brackets do not match"),
        ("E((t|L", "its brackets do not match"),
    ],
)
def test_layouts_are_measured_before_they_are_multiplied_out(layout, message):
    """By the key, with the limit."""
    with pytest.raises(ConfigError) as caught:
        estimate(at("parallelism.pipeline_layout", layout, engine=MEGATRON))
    (problem,) = caught.value.problems
    assert problem.path == "parallelism.pipeline_layout"
    assert message in problem.message


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("moe_layer_freq", "[1]*999999999", "expected a number or a list of 32 zeros and ones, found '[1]*999999999'"),
        ("moe_layer_freq", "9" * 5000, "expected a number or a list of 32 zeros and ones, found '999"),
        ("moe_layer_freq", "+".join(["[1]*4000"] * 9), "expected a number or a list of 32 zeros and ones, found '[1]*"),
        ("num_layers", 10**6, "expected an integer of at most 2048, found 1e+06"),
    ],
)
def test_megatron_s_arguments_are_bounded(key, value, message):
    """Lists that are written as sums."""
    with pytest.raises(ConfigError) as caught:
        estimate({"model": {**GPT, key: value}, "engine": MEGATRON})
    said = {each.path: each.message for each in caught.value.problems}
    assert said[f"model.{key}"].startswith(message)


def test_hybrid_patterns_are_bounded():
    """A letter is a layer."""
    model = {**GPT, "architecture": "hybrid", "hybrid_layer_pattern": "M" * 100_000}
    with pytest.raises(ConfigError, match=f"expected at most {2 * LAYERS} characters, found 100000"):
        estimate({"model": model, "engine": MEGATRON})


def test_links_are_bounded():
    """Before anything in them is read."""
    with pytest.raises(ConfigError, match=f"link: longer than {LINK_LENGTH} characters"):
        decode_fragment("v1&model=" + "x" * LINK_LENGTH)


def test_every_whole_number_has_a_limit():
    """That of its unit, or one that says less; what has no unit ends where numbers are no longer exact."""
    kinds = {path: each.kind for path, each in SETTINGS.items() if hasattr(each.kind, "unit")}
    assert len(kinds) > 70
    for path, kind in kinds.items():
        assert kind.maximum <= BY_UNIT.get(kind.unit, INTEGER), path
    assert set(BY_UNIT) <= {kind.unit for kind in kinds.values()}
    assert OF_MODEL["layers"] == DEEPEST < LAYERS == LIST_LENGTH


def test_numbers_of_any_size_can_be_written():
    """And are read up to the digits that a float has."""
    assert [approximate(each) for each in (7, 2.5, 10**299, 3 * 10**400, -(10**5000))] == [
        "7", "2.5", "1e+299", "3e+400", "-1e+5000"
    ]  # fmt: skip
    assert whole("9" * 300) == 10**300 - 1
    with pytest.raises(ValueError, match=f"{DIGITS} 301"):
        whole("9" * 301)


def counts(name, ranks):
    """Micro-batches that a schedule takes, few and many."""
    for count in range(1, 12 * ranks + 5):
        rounds = max(1, count // ranks)
        if name in ("interleaved-1f1b", "zb-h1") and count % rounds:
            continue
        if name in ("dualpipev", BOTH_WAYS) and (count < 2 * ranks or (count % 2 and name == BOTH_WAYS)):
            continue
        yield count


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("name", LOOPED)
def test_four_rounds_have_the_fullest_moment_of_any_number(name, ranks):
    """The same micro-batches in flight as when all of them are listed."""
    if name == BOTH_WAYS and ranks % 2:
        ranks += 1
    compared = 0
    for chunks in (2,) if name in V_SHAPED or name == BOTH_WAYS else (1, 2, 3):
        for count in counts(name, ranks):
            listed = enough(ranks, count)
            compared += listed < count
            for rank in range(ranks):
                for weights in ([1] * chunks, list(range(1, chunks + 1)), list(range(chunks, 0, -1))):
                    every = fullest(LOOPED[name](rank, ranks, chunks, count), weights)
                    assert fullest(LOOPED[name](rank, ranks, chunks, listed), weights) == every
    assert compared > ranks


@pytest.mark.parametrize("largest", [1, 4, 33, 512, 2048, 4096, 4608, 8192, 100_000])
def test_prefill_graphs_are_counted(largest):
    """As many as SGLang's list has."""
    counted = [
        *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64), *range(1280, 4097, 256),
        *range(4608, largest + 1, 512),
    ]  # fmt: skip
    assert prompt_sizes(largest) == len([each for each in counted if each <= largest])


@pytest.mark.parametrize("count", [1, 2, 5, 31, 32, 34, 35, 36, 100])
def test_stages_without_layers_are_counted(count):
    """Together they are what vLLM's partition lists one by one."""
    model = estimate({"model": LLAMA, "engine": {"type": "vllm"}}).job.model
    found = stages(model, count)
    listed = [len(stage.layers) for stage in found for _ in range(stage.times)]
    assert tuple(listed) == vllm_partition(32, count)
    assert (
        [stage.number for stage in found[2:]]
        == [number for number, _ in enumerate(listed) if number > found[1].number + found[1].times - 1]
        if count > 1
        else found[0].number == 0
    )
    assert sum(len(group) for group in merged_stages(model, count)) == len(found) <= 35


def test_gpus_without_layers_are_counted():
    """In the names and numbers of the ranks."""
    found = estimate({"model": LLAMA, "engine": {"type": "transformers"}, "hardware": {"num_gpus": 100}})
    assert sum(rank.count for rank in found.ranks) == 100
    assert [(rank.name, rank.count) for rank in found.ranks][:3] == [
        ("GPU 0, prompt", 1), ("GPUs 1-66, prompt", 66), ("GPU 67, prompt", 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "path", "message"),
    [
        (
            at("hardware.num_gpus", 17, engine={"type": "llama.cpp"}),
            "hardware.num_gpus",
            "llama.cpp supports at most 16",
        ),
        ({"model": {**LLAMA, "num_hidden_layers": 513}, "engine": {"type": "llama.cpp"}}, "model", "at most 512"),
    ],
)
def test_llama_cpp_has_limits_of_its_own(config, path, message):
    """By the key."""
    with pytest.raises(MemcoreError) as caught:
        estimate(config)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


DEEP = {**LLAMA, "num_hidden_layers": 2000}
LONG = {**LLAMA, "max_position_embeddings": 10**7}


def training(engine, gpus, model=LLAMA, parallelism=None, **settings):
    """A job of training."""
    return {
        "model": model, "engine": {"type": engine}, "hardware": {"num_gpus": gpus, "accelerator": "h100-sxm-80gb"},
        "training": settings, "parallelism": parallelism or {},
    }  # fmt: skip


def serving(engine, gpus, model=LLAMA, parallelism=None, **settings):
    """A server."""
    return {
        "model": model, "engine": {"type": engine}, "hardware": {"num_gpus": gpus, "accelerator": "h100-sxm-80gb"},
        "inference": settings, "parallelism": parallelism or {},
    }  # fmt: skip


MANY = {"gradient_accumulation_steps": 1024}
PIPELINE = {"pipeline_parallel_size": 16}
LARGE = {
    "ddp on 16384": training("ddp", 16384),
    "fsdp on 16384": training("fsdp", 16384),
    "fsdp on a million": training("fsdp", 1_000_000),
    "deepspeed on 16384": training("deepspeed", 16384),
    "megatron on 16384": training("megatron", 16384, parallelism={"tensor_parallel_size": 8}),
    "nanotron on 16384": training("nanotron", 16384),
    "fsdp, 2000 layers": training("fsdp", 64, DEEP),
    "megatron, 2000 layers": training("megatron", 8, DEEP),
    "fsdp, 10 M tokens": training("fsdp", 8, sequence_length=10**7),
    "megatron-fsdp, 10 M tokens": training("megatron-fsdp", 8, sequence_length=10**7),
    "fsdp, 512 experts": training("fsdp", 64, MIXTRAL),
    "megatron, 512 experts": training("megatron", 64, MIXTRAL),
    **{
        f"{schedule}, 32768 micro-batches": training(
            "fsdp",
            128,
            parallelism={**PIPELINE, "pipeline_schedule": schedule, **more},
            gradient_accumulation_steps=32768,
        )
        for schedule, more in (
            ("1f1b", {}),
            ("gpipe", {}),
            ("interleaved-1f1b", {"virtual_pipeline_parallel_size": 2}),
            ("zb-h1", {}),
            ("zbv", {"virtual_pipeline_parallel_size": 2}),
            ("dualpipev", {"virtual_pipeline_parallel_size": 2}),
            ("dualpipe", {}),
        )
    },
    "megatron's chunks": training(
        "megatron", 16, parallelism={**PIPELINE, "virtual_pipeline_parallel_size": 2}, **MANY
    ),
    "nanotron's pipeline": training("nanotron", 16, parallelism=PIPELINE, **MANY),
    "nanotron, 500 stages": training(
        "nanotron", 500, DEEP, {"pipeline_parallel_size": 500}, sequence_length=512, gradient_accumulation_steps=1000
    ),
    "vllm, 2000 layers": serving("vllm", 1, DEEP),
    "vllm, 512 experts": serving("vllm", 8, MIXTRAL),
    "vllm, 10 M tokens": serving("vllm", 8, LONG, max_model_len=10**7),
    "vllm, 2000 stages": serving("vllm", 2000, DEEP, {"pipeline_parallel_size": 2000}),
    "sglang, 2000 stages": serving("sglang", 2000, DEEP, {"pipeline_parallel_size": 2000}),
    "tensorrt-llm, 2000 stages": serving("tensorrt-llm", 2000, DEEP, {"pipeline_parallel_size": 2000}),
    "transformers on a million": serving("transformers", 1_000_000),
    "transformers, 10 M tokens": serving("transformers", 8, LONG, prompt_length=10**7 - 1, output_length=1),
    "llama.cpp, 512 layers": serving("llama.cpp", 16, {**LLAMA, "num_hidden_layers": 512}),
    "llama.cpp, 512 experts": serving("llama.cpp", 8, MIXTRAL),
}
MOST_CALLS = 2_500_000
"""Calls of functions of Python, of which a slow machine makes some million in a second."""


def calls(work):
    """How many functions are called while something is done, counted in C: counting in Python takes far longer than the work."""
    counter = Profile(subcalls=False, builtins=False)
    counter.runcall(work)
    return sum(each.callcount for each in counter.getstats())


def answered(config):
    """An answer with its readings and its ledger."""
    found = estimate(config)
    assert all(each.expected > 0 for each in found.readings)
    if config.get("training") is not None:
        json.dumps([summary(found), explanation(found, found.peak)])
    else:
        json.dumps(serving_explanation_data(found))


@pytest.mark.machine  # counting calls is slow inside Pyodide, and the counts are the same
@pytest.mark.parametrize("config", LARGE.values(), ids=LARGE)
def test_what_is_large_but_real_is_counted(config):
    """Work does not grow with GPUs and micro-batches, and little with layers."""
    assert calls(lambda: answered(config)) < MOST_CALLS


WIDE = {
    "model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94, "num_attention_heads": 64,
    "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 1536,
    "num_experts": 512, "num_experts_per_tok": 8, "vocab_size": 151936, "max_position_embeddings": 40960,
}  # fmt: skip
IK = {"type": "llama.cpp", "fork": "ik_llama.cpp"}
ASKED = {
    "512 experts on eight": serving("llama.cpp", 8, WIDE),
    "a shared expert": serving("llama.cpp", 1, "rednote-hilab/dots.llm1.inst"),
    "recurrent": serving("llama.cpp", 1, "moonshotai/Kimi-Linear-48B-A3B-Instruct"),
    "ik_llama.cpp": {**serving("llama.cpp", 8, WIDE, quantization="iq4_k"), "engine": IK},
}


@pytest.mark.machine  # as above
@pytest.mark.parametrize("config", ASKED.values(), ids=ASKED)
def test_questions_about_llama_cpp_place_a_graph_once(config):
    """Contexts of as many cells have the same, and what weights and caches alone exceed needs none."""
    assert calls(lambda: json.dumps(serving_summary_data(estimate(config)))) < 2 * MOST_CALLS


def test_what_does_not_fit_by_weights_and_caches_does_not_fit():
    """What a GPU holds at least is what it holds without the graph."""
    found = [estimate(config) for config in ASKED.values()]
    for each in found:
        held = [rank.ledger.total - rank.ledger.sum("activations") for rank in each.ranks]
        assert each.job.server.least(each.job) == max(held)


@pytest.mark.parametrize("schedule", ["interleaved-1f1b", "zb-h1", "dualpipe"])
def test_more_micro_batches_are_no_more_work(schedule):
    """Only their number changes."""
    virtual = {"virtual_pipeline_parallel_size": 2} if schedule == "interleaved-1f1b" else {}
    layout = {**PIPELINE, "pipeline_schedule": schedule, **virtual}
    few, many = (
        calls(lambda count=count: estimate(training("fsdp", 16, parallelism=layout, gradient_accumulation_steps=count)))
        for count in (128, 32768)
    )
    assert many < 1.2 * few


def test_a_model_that_is_too_deep_for_anything():
    """2,048 layers are read; the next is refused."""
    assert estimate({"model": {**LLAMA, "num_hidden_layers": DEEPEST}}).job.model.num_layers == DEEPEST
    with pytest.raises((ConfigError, UnsupportedError), match="model.num_hidden_layers"):
        estimate({"model": {**LLAMA, "num_hidden_layers": DEEPEST + 1}})
