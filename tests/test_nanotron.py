"""nanotron: what a rank keeps, which stage has what, and what a step needs, by hand."""

import pytest

from memcore.config.settings import Config
from memcore.errors import ConfigError, MemcoreError
from memcore.estimation import estimate_training
from memcore.memory import pipeline_replay
from memcore.memory.rank import ranks_of
from memcore.tools import imported
from memcore.trainers.nanotron.network import placed

SIZES = {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 32}
MODEL = {"model_type": "llama", **SIZES, "intermediate_size": 8192, "vocab_size": 131072, "tie_word_embeddings": True}
LAYER = 4 * 2048**2 + 3 * 2048 * 8192
LLAMA = {**MODEL, "hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336}
"""Its model of 8 billion, but for the head."""
P = 16 * (LAYER + 2 * 2048) + 2048 + 131072 * 2048
"""Parameters of the Ultra-Scale Playbook's model of 1.3 billion."""


def job(**changes):
    """A job of the playbook's sweep, with changes of settings by path."""
    config = Config.from_dict(
        {
            "model": MODEL,
            "training": {
                "sequence_length": 4096,
                "gradient_accumulation_steps": 8,
                "gradient_dtype": "fp32",
                "attention": "flash",
                "loss": "vocab-parallel",
            },
            "engine": {"type": "nanotron"},
        }
    )
    for path, value in changes.items():
        config = config.replaced(path.replace("__", "."), value)
    return estimate_training(config)


def held(found, rule):
    """Bytes of a rule at the peak."""
    return sum(entry.bytes for entry in found.ledger.entries if entry.rule == rule)


def test_what_one_gpu_keeps():
    """2 bytes for a parameter, 4 for its gradient, 4 for its fp32 copy and 8 for Adam."""
    found = job()
    keeps = found.rank.persistent
    assert keeps.parameters == 2 * P
    assert held(found, "fp32_gradients") == held(found, "master_parameter") == 4 * P
    assert held(found, "exp_avg") == held(found, "exp_avg_sq") == 4 * P


@pytest.mark.parametrize(("stage", "buckets", "share"), [(0, 2 * P, 1), (1, 0, 8)])
def test_zero_shares_the_optimizer(stage, buckets, share):
    """ZeRO-1 divides copy and states, needs no DDP, and gathers flat copies of the parameters at the step's end."""
    found = job(parallelism__data_parallel_size=8, engine__zero_stage=stage)
    assert held(found, "ddp_buckets") == buckets
    assert held(found, "fp32_gradients") == 4 * P
    for rule in ("master_parameter", "exp_avg", "exp_avg_sq"):
        assert held(found, rule) == 4 * P // share
    step = found.rank.ledger(found.moments[-1])
    gathered = sum(entry.bytes for entry in step.entries if entry.rule == "gathered_parameters")
    assert gathered == (2 * P // 8 + 2 * 2 * P if stage else 0)


def test_the_gather_has_a_copy_of_each_ranks_part():
    """`all_gather_coalesced`: the part of this rank, one for each rank, and NCCL's one of all."""
    found = job(parallelism__data_parallel_size=8, engine__zero_stage=1)
    step = found.rank.ledger(found.moments[-1])
    copies = [(each.copies, each.each) for each in step.entries if each.rule == "gathered_parameters"]
    assert copies == [(1 + 8, 2 * P // 8), (1, 2 * P)]


def test_one_rank_keeps_rows_as_they_lie():
    """nanotron's recipes overlap collectives: functions of its own save attention's result without a copy in order."""
    ends = {}
    for overlaps in (True, False):
        found = job(engine__tp_linear_async_communication=overlaps, training__micro_batch_size=2)
        ends[overlaps] = found.rank.end_of_forward
    assert ends[False] - ends[True] == 16 * 2 * 2 * 4096 * 2048
    usual = job(training__micro_batch_size=2)
    assert usual.rank.end_of_forward == ends[True]
    assert job(training__micro_batch_size=2, engine__tp_mode="ALL_REDUCE").rank.end_of_forward == ends[False]


def test_activations_of_a_layer():
    """Two norms' inputs and results and attention's result are 2h bytes a token; rows have fp32 numbers.

    Queries are 6h with the copy they are a part of, keys and values 4h, the feed-forward layer 4f + 2f + 2f.
    """
    blocks = {}
    for repeats in (8, 9):
        model = {**MODEL, "num_hidden_layers": repeats}
        config = {"model": model, "training": {"sequence_length": 4096}, "engine": {"type": "nanotron"}}
        estimate = estimate_training(config)
        keeps = estimate.rank.persistent
        blocks[repeats] = estimate.rank.end_of_forward - keeps.before_step
    h, f = 2048, 8192
    rows = 2 * 4 + 32 * 4
    small = 2 * 512 + 512
    assert blocks[9] - blocks[8] == 4096 * (5 * 2 * h + 6 * h + 4 * h + 8 * f + rows) + small


SMOLLM3 = {**SIZES, "num_attention_heads": 16, "num_key_value_heads": 4, "intermediate_size": 11008,
           "vocab_size": 128256, "tie_word_embeddings": True}  # fmt: skip


@pytest.mark.parametrize(
    ("network", "name"),
    [
        ({"model_type": "smollm3", "no_rope_layer_interval": 4}, None),
        ({"model_type": "qwen2"}, None),
        ({"model_type": "llama"}, "qwen2"),
    ],
)
def test_activations_of_a_layer_of_qwen2(network, name):
    """PyTorch's norm keeps fp32 rows and 2h with its result 2h, Triton's its input and result, 2h each.

    Queries, keys and values stay where the product has written them; attention's result is 2h.
    """
    held = {}
    for repeats in (8, 9):
        model = {**SMOLLM3, **network, "num_hidden_layers": repeats}
        training = {"sequence_length": 4096, "micro_batch_size": 3}
        config = {"model": model, "training": training, "engine": {"type": "nanotron", "model_class": name}}
        found = estimate_training(config)
        held[repeats] = found.rank.end_of_forward - found.rank.persistent.before_step
    h, f, keys = 2048, 11008, 4 * 128
    numbers = 2 * 4 + 16 * 4
    each = (4 * h + 2 * h + 2 * h) + 2 * 2 * h + 2 * (h + 2 * keys) + 2 * h + 8 * f + numbers
    assert held[9] - held[8] == 3 * 4096 * each + 512


def test_biases_of_queries_keys_and_values():
    """nanotron's Qwen2 has them where `attention_bias` says so; layers without positions have no rotary tables."""
    sizes, engine = {**SMOLLM3, "num_hidden_layers": 8}, {"type": "nanotron", "model_class": "qwen2"}
    found = {}
    for kind in ({"model_type": "llama"}, {"model_type": "qwen2"}, {"model_type": "smollm3"}):
        config = {"model": {**sizes, **kind}, "training": {"sequence_length": 4096}, "engine": engine}
        found[kind["model_type"]] = estimate_training(config)
    parameters = {name: each.rank.persistent.parameters for name, each in found.items()}
    assert parameters["qwen2"] - parameters["llama"] == 8 * 2 * (2048 + 2 * 4 * 128)
    assert parameters["smollm3"] == parameters["llama"]
    tables = [held(found[name], "rotary_table") for name in ("llama", "smollm3")]
    assert tables == [8 * 2 * 2 * 4096 * 64, 6 * 2 * 2 * 4096 * 64]


def test_tensor_parallel_ranks_share_all_but_norms():
    """Matrices, embedding and head are shared; gather buffers for a sequence stay."""
    changes = {"parallelism__tensor_parallel_size": 4, "engine__tp_mode": "REDUCE_SCATTER"}
    found = job(**changes)
    norms = 33 * 2048
    assert found.rank.persistent.parameters == 2 * ((P - norms) // 4 + norms)
    assert held(found, "gather_buffer") == 2 * 2 * 4096 * 2048
    assert held(job(**changes, engine__tp_linear_async_communication=False), "gather_buffer") == 2 * 4096 * 2048
    assert held(job(parallelism__tensor_parallel_size=4), "gather_buffer") == 0


PLACES = [
    # Stages: those of the layers, and of norm, head, cast and loss. A block that crosses a share still belongs to it.
    (1, [16], [0, 0, 0, 0]),
    (2, [10, 6], [1, 1, 1, 1]),
    (4, [5, 5, 5, 1], [3, 3, 3, 3]),
    (8, [3, 2, 3, 2, 3, 2, 1, 0], [6, 6, 7, 7]),
]


@pytest.mark.parametrize(("stages", "layers", "ends"), PLACES)
def test_stages_of_equal_cost(stages, layers, ends):
    """Costs are those of matrices: 67.1M for a layer, 268.4M for the head, nothing for the embedding.

    The head costs as much as four layers without their norms: with these five of sixteen are beyond a quarter.
    """
    sizes = {"a": 32, "d": 64, "h": 2048, "f": 8192, "V": 131072}
    found = placed(sizes, 16, stages)
    assert [found[1:17].count(stage) for stage in range(stages)] == layers
    assert found[17:] == ends


def test_every_stage_is_estimated():
    """The head and the loss may be on stages of their own; the first one has most micro-batches in flight."""
    found = job(parallelism__pipeline_parallel_size=8, training__gradient_accumulation_steps=64)
    assert len(found.ranks) == 8
    assert found.rank is found.ranks[0]
    assert found.ranks[7].persistent.parameters == 0
    assert found.ranks[6].persistent.parameters == 2 * (131072 * 2048 + 2048 + LAYER + 2 * 2048)
    logits = 4096 * 131072 * 4
    assert found.ranks[7].peak.peak >= 2 * logits


def test_the_cast_may_be_a_stage_of_its_own():
    """Of 32 stages of 8B the head has one with a layer, the cast to fp32 the next, the loss the last."""
    found = job(
        model={**LLAMA, "tie_word_embeddings": False},
        parallelism__pipeline_parallel_size=32,
        training__gradient_accumulation_steps=32,
    )
    cast, loss = ([block for block in rank.program.blocks if "V" in block.shape] for rank in found.ranks[30:])
    assert not any(rank.persistent.parameters for rank in found.ranks[30:])
    assert {(block.rule, block.dtype) for block in cast} == {
        ("received_activation", "bf16"),
        ("to", "fp32"),
        ("received_gradient", "fp32"),
        ("to", "bf16"),
    }
    assert {(block.rule, block.dtype) for block in loss} == {("received_activation", "fp32"), ("sub", "fp32")}


def test_collectives_keep_blocks_while_the_host_is_ahead(monkeypatch):
    """Two whole sequences of each layer's passes wait for NCCL: of as many layers as the driver queues.

    A layer queues 46 launches and events in its forward and about 72 in its backward pass: a thousand are more than
    eight layers there and back, which have 4 such blocks each.
    """
    changes = {"parallelism__tensor_parallel_size": 4, "engine__tp_mode": "REDUCE_SCATTER"}
    reserved = {}
    for ahead in (0, 1000):
        monkeypatch.setattr(pipeline_replay, "AHEAD", ahead)
        reserved[ahead] = job(**changes, training__micro_batch_size=8).rank.reserved
    waiting = (reserved[1000] - reserved[0]) / (2 * 8 * 4096 * 2048)
    assert 8 * 4 <= waiting <= 2 * 8 * 4


def test_how_far_the_host_is_ahead_is_said_to_be_assumed():
    """Where it decides: with tensor parallelism, whose collectives keep blocks."""
    said = "a driver queue of 1,000 launches and 5 µs of host time per launch"
    assert said in job(parallelism__tensor_parallel_size=4).reserved.range_because
    assert said not in job().reserved.range_because


def test_further_turns_find_what_earlier_ones_have_left(monkeypatch):
    """Of many alike turns three are replayed; eight need no more, or hardly where hosts do not wait in a pipeline."""
    reserved = {}
    for turns_replayed in (3, 8):
        monkeypatch.setattr(pipeline_replay, "STEADY", turns_replayed)
        reserved[turns_replayed] = [
            rank.reserved
            for stages in (1, 4)
            for rank in job(
                parallelism__tensor_parallel_size=4,
                parallelism__pipeline_parallel_size=stages,
                engine__tp_mode="REDUCE_SCATTER",
                training__gradient_accumulation_steps=16,
                hardware__accelerator="h100-sxm-80gb",
            ).ranks
        ]
    assert len(reserved[3]) == 1 + 4
    assert reserved[3][0] == reserved[8][0]
    assert reserved[3] == pytest.approx(reserved[8], rel=0.02)


@pytest.mark.parametrize(("sequences", "waiting"), [(1, 0), (8, 17 * 2)])
def test_a_fast_gpu_is_not_behind_its_host(monkeypatch, sequences, waiting):
    """Sixteen ranks' products of a layer take the GPU 0.13 ms at its peak and a sequence, the host 0.23 ms to launch.

    A stage with more layers than others finds what it receives. So NCCL's blocks are free at once with one sequence;
    with eight, some of the whole ones that 18 layers' passes free wait.
    """
    reserved = {}
    for ahead in (0, 1000):
        monkeypatch.setattr(pipeline_replay, "AHEAD", ahead)
        found = job(
            model={**LLAMA, "tie_word_embeddings": False},
            parallelism__tensor_parallel_size=16,
            parallelism__pipeline_parallel_size=2,
            engine__tp_mode="REDUCE_SCATTER",
            training__micro_batch_size=sequences,
            hardware__accelerator="h100-sxm-80gb",
        )
        reserved[ahead] = found.ranks[0].reserved
    assert (reserved[1000] - reserved[0]) / (sequences * 2 * 4096 * 4096) >= waiting
    assert sequences > 1 or reserved[1000] == reserved[0]


WAITS = [
    # 18 layers of 243M, against 14 and the head's 537M: the first stage sets the pace.
    (LLAMA, 2, [False, True]),
    # 5, 4, 4, 5, 4, 4, 4, 2 and the head: none has more than all others.
    (LLAMA, 8, [True] * 8),
    # Ten layers each: the head counts for four, without norms.
    (MODEL, 2, [False, True]),
]


@pytest.mark.parametrize(("model", "stages", "expected"), WAITS)
def test_stages_wait_unless_they_set_the_pace(model, stages, expected):
    """In turns of one forward and one backward pass, the slowest stage finds what others sent."""
    found = job(model=model, parallelism__pipeline_parallel_size=stages)
    assert [rank.job.recipe.pipeline.waits for rank in found.ranks] == expected


PUBLISHED = [
    # The playbook's sweep, GiB: data-parallel ranks, ZeRO stage, sequences of a micro-batch, micro-batches.
    (8, 0, 1, 32, 36.7),
    (8, 0, 2, 16, 50.2),
    (8, 1, 1, 32, 24.2),
    (16, 1, 2, 8, 35.0),
    (64, 1, 2, 2, 34.8),
    (256, 1, 1, 1, 21.7),
]


@pytest.mark.parametrize(("ranks", "stage", "sequences", "count", "published"), PUBLISHED)
def test_one_stage_reserves_what_is_published(ranks, stage, sequences, count, published):
    """Without collectives in its passes the order of allocations is known: as published, to a tenth of a GiB.

    Where cuBLAS has its 32 MiB for each thread decides about blocks of the logits' size.
    """
    found = job(
        parallelism__data_parallel_size=ranks,
        engine__zero_stage=stage,
        training__micro_batch_size=sequences,
        training__gradient_accumulation_steps=count,
        hardware__accelerator="h100-sxm-80gb",
    )
    assert found.reserved.expected / 2**30 == pytest.approx(published, abs=0.065)


LLAMA_3B = {**MODEL, "hidden_size": 3072, "num_hidden_layers": 28}
PIPELINES = [
    # The playbook's sweep: ranks for tensors, stages, data, ZeRO stage, sequences, micro-batches; GiB; if a turn took 0.5 s.
    ((8, 16, 2, 1, 1, 128), 4.4, False),
    ((2, 8, 4, 0, 1, 64), 17.4, True),
    ((1, 8, 8, 1, 2, 16), 40.1, False),
    ((1, 8, 16, 1, 2, 8), 38.9, True),
]


@pytest.mark.parametrize(("layout", "published", "waits"), PIPELINES)
def test_hosts_that_wait_keep_less(monkeypatch, layout, published, waits):
    """What is sent, received and gathered is free at once where hosts wait; the other version keeps a queue of it."""
    tensor, stages, data, zero, sequences, count = layout
    monkeypatch.setattr(pipeline_replay, "HOSTS", ((1.0, waits),))
    found = job(
        model=LLAMA_3B,
        parallelism__tensor_parallel_size=tensor,
        parallelism__pipeline_parallel_size=stages,
        parallelism__data_parallel_size=data,
        training__micro_batch_size=sequences,
        training__gradient_accumulation_steps=count,
        engine__zero_stage=zero,
        **({"engine__tp_mode": "REDUCE_SCATTER"} if tensor > 1 else {}),
        hardware__accelerator="h100-sxm-80gb",
    )
    assert found.ranks[0].reserved / 2**30 == pytest.approx(published, rel=0.01)


def test_the_mean_of_both_versions_is_expected():
    """By their shares of the sweep; what the one that needs more reserves lies in the range."""
    found = job(
        parallelism__tensor_parallel_size=4,
        parallelism__pipeline_parallel_size=4,
        engine__tp_mode="REDUCE_SCATTER",
        hardware__accelerator="h100-sxm-80gb",
    )
    with pytest.MonkeyPatch.context() as patched:
        ways = []
        for waits in (True, False):
            patched.setattr(pipeline_replay, "HOSTS", ((1.0, waits),))
            ways.append(ranks_of(found.job)[0].reserved)
    first = found.ranks[0]
    assert ways[0] < ways[1] == first.most_reserved
    assert "the mean of two measured versions of nanotron" in found.reserved.range_because
    assert first.reserved == round(0.38 * ways[0] + 0.62 * ways[1])


def test_a_received_gradient_is_not_added_to():
    """It is a view of the bytes that came; a norm's gradient is one in another shape: the first sum is a new tensor."""
    found = job(parallelism__pipeline_parallel_size=2)
    sums = [block.shape for block in found.ranks[0].program.blocks if block.rule == "gradient_sum"]
    assert set(sums) == {("s", "b", "h")}


def test_gradients_of_rows_are_summed_in_fp32():
    """The embedding's backward pass needs a number in fp32 for each of all tokens, whatever tensor parallelism does."""
    found = job(parallelism__tensor_parallel_size=4)
    [block] = {each for each in found.rank.program.blocks if each.rule == "embedding_sums"}
    assert (block.shape, block.dtype) == (("s", "b", "h"), "fp32")
    few = job(parallelism__tensor_parallel_size=4, training__sequence_length=3072)
    assert not [each for each in few.rank.program.blocks if each.rule == "embedding_sums"]


def test_the_allocator_gives_back_what_the_step_has_no_room_for():
    """Flat copies of ZeRO's gather come when activations are cached; on a full GPU those go first, and the job runs."""
    llama = {**MODEL, "hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336}
    changes = {"model": {**llama, "tie_word_embeddings": False}, "engine__zero_stage": 1}
    changes |= {"parallelism__pipeline_parallel_size": 2, "parallelism__data_parallel_size": 8}
    free, full = (job(**changes, **more) for more in ({}, {"hardware__accelerator": "h100-sxm-80gb"}))
    assert full.fits
    assert full.reserved.expected < full.capacity < free.reserved.expected + 3 * 2**30


def test_recomputed_layers_keep_their_input():
    """Full recomputation leaves a layer's input of each micro-batch."""
    full, none = job(training__activation_checkpointing__policy="full"), job()
    assert full.peak.peak < none.peak.peak - 12 * 4096 * 2048 * 30


def test_what_was_sent_is_in_use_until_it_has_been_sent():
    """NCCL reads a stage's result, and writes what the next one receives, on a stream of its own; nothing else."""
    found = job(parallelism__pipeline_parallel_size=2)
    programs = [rank.program for rank in found.ranks]
    sent = [[program.blocks[block].rule for block in sorted(program.communicated)] for program in programs]
    assert [sorted(set(each)) for each in sent] == [["add", "received_gradient"], ["received_activation"]]


def test_communicators_are_those_of_its_groups():
    """16 channels of 12 MiB for each ring and tree between nodes, 24 in one; to the other stage two channels.

    Gradients are summed in the switch too, where four ranks of a node have 16 channels of 2 MiB each. Barriers and what spans the world have one each, two tensor-parallel ranks share theirs, data-parallel ranks have
    both, norms of gradients a tree, and the tied embedding's gradients a ring.
    """
    changes = {"parallelism__tensor_parallel_size": 2, "parallelism__pipeline_parallel_size": 2}
    changes |= {"parallelism__data_parallel_size": 8, "hardware__accelerator": "h100-sxm-80gb"}
    found = job(**changes)
    pairs = 16 * (1 + 1 + 2) + 24 * (1 + 1 + 1) + 2
    assert found.job.nccl.expected == 2**20 * (12 * pairs + 2 * 16 * (8 + 4))
    untied = job(**changes, model={**MODEL, "tie_word_embeddings": False})
    assert found.job.nccl.expected - untied.job.nccl.expected == 12 * 2**20 * 24


YAML = """
general:
  project: debug
  run: name
  seed: 42
  step: null
  consumed_train_samples: null
  benchmark_csv_path: bench.csv
  ignore_sanity_checks: true
checkpoints:
  checkpoint_interval: 10
  checkpoints_path: checkpoints
  resume_checkpoint_path: null
  save_initial_state: false
  save_final_state: true
  load_optimizer: true
  load_lr_scheduler: true
data_stages:
- name: Stable
  start_training_step: 1
  sequence_length: 4096
  data:
    dataset: null
    seed: 42
lighteval: null
logging:
  iteration_step_info_interval: 1
  log_level: info
  log_level_replica: info
metrics_logging:
  log_level: 0
  log_detail_interval: 10
profiler: null
s3_upload: null
tokenizer:
  tokenizer_max_length: null
  tokenizer_name_or_path: name
  tokenizer_revision: null
model:
  ddp_bucket_cap_mb: 25
  dtype: bfloat16
  init_method:
    std: 0.02
    scaling_method: NUM_LAYERS
  make_vocab_size_divisible_by: 128
  model_config:
    bos_token_id: 0
    eos_token_id: 0
    pad_token_id: null
    hidden_act: silu
    hidden_size: 2048
    initializer_range: 0.02
    intermediate_size: 8192
    is_llama_config: true
    max_position_embeddings: 4096
    num_attention_heads: 32
    num_hidden_layers: 16
    num_key_value_heads: 32
    attention_bias: false
    pretraining_tp: 1
    rms_norm_eps: 1.0e-05
    rope_interleaved: false
    rope_scaling: null
    rope_theta: 10000.0
    tie_word_embeddings: true
    use_cache: true
    vocab_size: 50257
    _attn_implementation: flash_attention_2
    z_loss_enabled: false
    z_loss_coefficient: 0.0001
optimizer:
  accumulate_grad_in_fp32: true
  clip_grad: 1.0
  learning_rate_scheduler:
    learning_rate: 0.0003
    lr_warmup_steps: 2
    lr_decay_steps: 13
    min_decay_lr: 1.0e-05
  optimizer_factory:
    adam_beta1: 0.9
    adam_beta2: 0.95
    adam_eps: 1.0e-08
    name: adamW
    torch_adam_is_fused: true
  weight_decay: 0.01
  weight_decay_exclude_named_params: []
  zero_stage: 1
parallelism:
  dp: 4
  pp: 1
  tp: 2
  pp_engine: 1f1b
  tp_mode: REDUCE_SCATTER
  tp_linear_async_communication: true
  recompute_layer: false
  tp_recompute_allgather: true
  expert_parallel_size: 1
  context_parallel_size: 1
tokens:
  batch_accumulation_per_replica: 8
  micro_batch_size: 1
  sequence_length: 4096
  train_steps: 100
  val_check_interval: 100
  limit_val_batches: 0
  limit_test_batches: 0
"""
"""Every key of its configs (config/config.py, parallelism_config.py, models_config.py: LlamaConfig)."""


def test_every_key_is_known():
    """What memory depends on is read, the rest known to be of no account; 50257 words are a multiple of 2 × 128 then."""
    found = imported(YAML)
    assert found.unknown == ()
    assert found.config["model"]["vocab_size"] == 50432
    assert "50,432" in found.notes[0]
    sizes = estimate_training(Config.from_dict(found.config)).job.sizes
    assert (sizes["V"], sizes["tp"], sizes["z"], sizes["s"]) == (50432, 2, 4, 4096)


DEPENDS = [
    # Keys that memory depends on, another value, and a word of what a refusal says; None: it is honoured.
    ("dtype: bfloat16", "dtype: float32", "bfloat16"),
    ("is_llama_config", "is_qwen2_config", None),
    ("is_llama_config: true", "is_qwen2_config: true\n    _fused_rms_norm: false", "_fused_rms_norm.*: true"),
    ("is_llama_config: true", "is_qwen2_config: true\n    _use_qkv_packed: false", "_use_qkv_packed.*: true"),
    ("_attn_implementation: flash_attention_2", "is_qwen2_config: true\n    _attn_implementation: ring", "flex_att"),
    ("is_llama_config", "is_starcoder2_config", "StarCoder2"),
    ("use_cache: true", "moe_config: {num_experts: 8}", "experts"),
    ("z_loss_enabled: false", "z_loss_enabled: true", "loss"),
    ("context_parallel_size: 1", "context_parallel_size: 2", "context_parallel_size"),
    ("expert_parallel_size: 1", "expert_parallel_size: 2", "expert_parallel_size"),
    ("name: adamW", "name: lamb", "adamW, sgd"),
    ("make_vocab_size_divisible_by: 128", "make_vocab_size_divisible_by: 1024", None),
    ("num_key_value_heads: 32", "num_key_value_heads: 8", None),
    ("zero_stage: 1", "zero_stage: 0", None),
    ("accumulate_grad_in_fp32: true", "accumulate_grad_in_fp32: false", None),
    ("tp_mode: REDUCE_SCATTER\n  tp_linear_async_communication: true", "tp_mode: ALL_REDUCE", None),
    ("recompute_layer: false", "recompute_layer: true", None),
    ("tp_recompute_allgather: true", "tp_recompute_allgather: false", None),
    ("micro_batch_size: 1", "micro_batch_size: 2", None),
]


@pytest.mark.parametrize(("key", "changed", "refusal"), DEPENDS)
def test_keys_that_memory_depends_on(key, changed, refusal):
    """They change the answer, or are refused by name."""
    assert YAML.count(key) == 1
    text = YAML.replace(key, changed)
    if refusal is None:
        peaks = {estimate_training(imported(each).config).peak.peak for each in (YAML, text)}
        assert len(peaks) == 2
        return
    with pytest.raises(MemcoreError, match=refusal):
        estimate_training(imported(text).config)


MISTAKES = [
    ({"training__loss": "cross-entropy"}, "vocab-parallel"),
    ({"engine__zero_stage": 2}, "nanotron supports 0 and 1"),
    ({"parallelism__tensor_parallel_size": 3}, "which does not divide "),
    ({"parallelism__pipeline_parallel_size": 16, "training__gradient_accumulation_steps": 4}, "at least 15"),
    ({"training__precision": "fp32"}, "with nanotron: bf16-mixed, bf16"),
    ({"training__gradient_dtype": "bf16"}, "accumulate_grad_in_fp32 decides"),
    ({"training__master_dtype": "none"}, "accumulate_grad_in_fp32 decides"),
    ({"training__parameter_dtype": "fp32"}, "only 'bf16'"),
    ({"training__optimizer__name": "lion"}, "adamw, sgd"),
    ({"parallelism__pipeline_schedule": "interleaved-1f1b"}, "1f1b, gpipe"),
    ({"parallelism__tensor_parallel_size": 2, "parallelism__loss_parallel": False}, "part of the logits"),
]


@pytest.mark.parametrize(("changes", "message"), MISTAKES)
def test_mistakes_are_named(changes, message):
    """What nanotron cannot do is refused."""
    with pytest.raises(ConfigError, match=message):
        job(**changes)
