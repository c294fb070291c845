"""DeepSpeed's ZeRO: what a rank keeps, its buckets, and what is on the host, by hand."""

import pytest

from memcore import registry
from memcore.config.settings import Config
from memcore.errors import ConfigError, UnsupportedError
from memcore.estimation import estimate_training
from memcore.questions.advising.advise import advise

MODEL = {
    "num_layers": 8,
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "vocab_size": 32000,
}
SMALL = 17 * 1024
"""Elements of norms: all parameters below the persistence threshold."""
P = 8 * (4 * 1024**2 + 3 * 1024 * 4096) + 2 * 32000 * 1024 + SMALL
N = 8


def job(stage=0, **changes):
    """A job on eight GPUs, with changes of settings by path."""
    config = Config.from_dict(
        {
            "model": MODEL,
            "training": {"sequence_length": 512},
            "engine": {"type": "deepspeed", "zero_stage": stage, "reduce_bucket_size": 10_000_000},
            "hardware": {"num_gpus": N},
        }
    )
    for path, value in changes.items():
        config = config.replaced(path.replace("__", "."), value)
    return estimate_training(config)


def about(size):
    """A size, or a little more: each block is rounded up to 512 bytes."""
    return pytest.approx(size, abs=80 * 512)


def held(found, rule, moment=None):
    """Bytes of a rule at a moment; at the peak, if none is given."""
    entries = (found.ledger if moment is None else found.rank.ledger(moment)).entries
    return sum(entry.bytes for entry in entries if entry.rule == rule)


STAGES = [
    # Bytes for each parameter: parameters, fp32 copy, and both of Adam's states; of a rank.
    (0, 2 * P, 4 * P),
    (1, 2 * P, 4 * P // N),
    (2, 2 * P, 4 * P // N),
    (3, 2 * P // N, 4 * P // N),
]


@pytest.mark.parametrize(("stage", "parameters", "copy"), STAGES)
def test_what_a_rank_keeps(stage, parameters, copy):
    """Stage 1 shares the optimizer, stage 3 the parameters too, but for small ones that stay gathered."""
    found = job(stage)
    assert found.rank.persistent.parameters == about(parameters)
    assert held(found, "fp32_partition") == about(copy)
    assert held(found, "exp_avg") == held(found, "exp_avg_sq")
    assert held(found, "exp_avg") == about(copy)
    assert held(found, "kept_parameters") == (2 * SMALL if stage == 3 else 0)


def test_gradients_at_the_step():
    """Without ZeRO there are all in 16 bits, then twice in fp32; else this rank's part, flat and in fp32."""
    plain = job(0)
    assert held(plain, "fp32_gradient", plain.moments[-1]) == about(2 * 4 * P)
    for stage in (1, 2, 3):
        found = job(stage)
        assert held(found, "partitioned_gradients", found.moments[-1]) == about(2 * P // N)
        assert held(found, "fp32_gradient", found.moments[-1]) == about(4 * P // N)
        assert held(found, "flat_gradient", found.moments[-1]) == about(2 * P // N)
    parts = job(3, engine__sub_group_size=1_000_000)
    assert held(parts, "fp32_gradient", parts.moments[-1]) == about(4 * 1_000_000)


def test_a_copy_in_bf16():
    """DeepSpeed 0.18.3: the copy and both of Adam's states are in bf16, and gradients are made flat only."""
    found = job(3, engine__bf16_master_weights_and_grads=True)
    assert held(found, "bf16_partition") == about(2 * P // N)
    assert held(found, "exp_avg") == held(found, "exp_avg_sq") == about(2 * P // N)
    assert held(found, "fp32_partition") == held(found, "fp32_gradient", found.moments[-1]) == 0
    assert held(found, "flat_gradient", found.moments[-1]) == about(2 * P // N)


def test_stage_2_keeps_no_other_gradients():
    """Stage 1 has all gradients until the last backward pass has ended; stage 2 those in its buckets."""
    kinds = {stage: {block.rule for block in job(stage).rank.program.blocks} for stage in (1, 2)}
    assert "reduce_bucket" in kinds[1] & kinds[2]
    one, two = job(1), job(2)
    assert one.rank.end_of_backward == two.rank.end_of_backward
    assert max(moment.peak for moment in one.moments) > max(moment.peak for moment in two.moments)


def test_buckets():
    """One bucket of as many elements as told, two if reduction overlaps; in memory while gradients come."""

    def bucket(**changes):
        found = job(2, **changes)
        return max(held(found, "reduce_bucket", moment) for moment in found.moments)

    assert bucket() == about(2 * 10_000_000)
    assert bucket(engine__overlap_comm=True) == about(2 * 2 * 10_000_000)
    assert bucket(engine__reduce_bucket_size=50_000_000) == about(2 * 50_000_000)


def test_gathered_parameters():
    """What is used again within the reuse distance stays; else the largest module and what is fetched ahead."""

    def gathered(phase, **changes):
        found = job(3, **changes)
        return max(held(found, "gathered_parameter", moment) for moment in found.moments if moment.phase == phase)

    whole = 2 * (P - SMALL)
    assert gathered("loss") == about(whole)
    near = {"engine__stage3_max_reuse_distance": 100_000_000, "engine__stage3_prefetch_bucket_size": 1_000_000}
    assert gathered("loss", **near) == about(2 * 50_000_000)
    assert gathered("forward", **near) == about(2 * 50_000_000)
    none = {"engine__stage3_max_reuse_distance": 0, "engine__stage3_prefetch_bucket_size": 1_000_000}
    assert gathered("loss", **none) == about(2 * (32000 * 1024 + 2 * 1_000_000))


def test_offload():
    """What is offloaded is on the host: 16 bytes a parameter for the optimizer, 2 for parameters and gradients each."""
    found = job(2, engine__offload_optimizer="cpu")
    rules = {entry.rule: entry.bytes for entry in found.rank.host}
    for rule in ("fp32_partition", "fp32_gradient", "exp_avg", "exp_avg_sq"):
        assert rules[rule] == about(4 * P // N)
    assert rules["flat_parameters"] == about(2 * P // N)
    assert held(found, "exp_avg") == held(found, "fp32_partition") == held(found, "partitioned_gradients") == 0
    assert held(found, "offload_buffer") == about(2 * 32000 * 1024)
    both = job(3, engine__offload_optimizer="cpu", engine__offload_param="cpu")
    assert both.rank.persistent.parameters == 0
    assert sum(entry.bytes for entry in both.rank.host) == about((16 + 2 + 2) * P // N)
    alone = job(3, engine__offload_param="cpu")
    assert held(alone, "exp_avg") == about(4 * P // N)
    assert not job(3).rank.host


def test_groups():
    """MiCS shards among some ranks; hpZ keeps a secondary part among those of a node."""
    assert held(job(3, engine__mics_shard_size=4), "fp32_partition") == about(4 * P // 4)
    assert held(job(3, engine__zero_hpz_partition_size=4), "secondary_partition") == about(2 * P // 4)


def test_fp32_gradients():
    """`BF16_Optimizer` adds all gradients to a flat buffer, of which the optimizer reads this rank's part."""
    found = job(1, training__gradient_dtype="fp32")
    assert held(found, "accumulated_gradients") == about(4 * P)
    assert found.moments[-1].peak == found.moments[-1].end
    assert not {"reduce_bucket", "partitioned_gradients"} & {block.rule for block in found.rank.program.blocks}


def test_fp32_gradients_of_other_stages():
    """Stage 3's part of them is in fp32, and made flat once; stage 2 adds up what comes, in bf16."""
    fp32 = {"training__gradient_dtype": "fp32"}
    found, usual = job(3, **fp32), job(3)
    assert held(found, "partitioned_gradients") == about(4 * P // N)
    assert held(usual, "partitioned_gradients") == about(2 * P // N)
    ends = [each.moments[-1].peak - each.moments[-1].end for each in (found, usual)]
    assert ends[1] - ends[0] == about(2 * P // N)
    assert job(2, **fp32).allocated.expected == job(2).allocated.expected


def test_quantized_exchanges():
    """qwZ: int8 beside what is fetched ahead, or fp16 and bf16 of the largest parameter; qgZ: int4 between nodes."""
    largest, quantized = 32000 * 1024, {"engine__zero_quantized_weights": True}

    def size(rule, **changes):
        program, sizes = (found := job(3, **changes)).rank.program, found.job.sizes
        blocks = zip(program.blocks, program.block_sizes(sizes), strict=True)
        return [*{size for block, size in blocks if block.rule == rule}]

    assert size("quantized_parameter") == []
    assert size("quantized_parameter", **quantized) == [about(50_000_000)]
    few = {"engine__stage3_prefetch_bucket_size": 1_000_000}
    assert size("quantized_parameter", **quantized, **few) == [about(5 * largest - 2 * (largest + 2 * 1_000_000))]
    reduced = {"engine__zero_quantized_gradients": True}
    assert size("quantized_gradient", **reduced) == []
    two_nodes = {**reduced, "hardware__num_gpus": 16}
    assert size("quantized_gradient", **two_nodes) == [about(largest * (1 + 3 / 8))]
    assert size("reduced_copy", **two_nodes) == []


def test_ulysses():
    """Ranks that share a sequence have its tokens divided, and ZeRO shards over all of them."""
    whole, shared = job(3), job(3, parallelism__ulysses_parallel_size=4)
    assert (whole.job.sizes["s"], shared.job.sizes["s"], shared.job.sizes["sq"]) == (512, 128, 512)
    assert held(shared, "fp32_partition") == held(whole, "fp32_partition") == about(4 * P // N)
    sizes = shared.rank.program.block_sizes(shared.job.sizes)
    blocks = zip(shared.rank.program.blocks, sizes, strict=True)
    exchanged = {size for block, size in blocks if block.rule == "ulysses_all_to_all"}
    assert exchanged == {2 * 512 * 1024 // 4}
    pair = job(3, parallelism__ulysses_parallel_size=4, parallelism__data_parallel_size=2, hardware__num_gpus=None)
    assert pair.job.num_gpus == N


def test_advice():
    """A job hears of the next stages and of offload, each priced; every engine that trains has a price."""
    tables = (("engine", "ENGINES"), ("costs", "TRAFFIC"))
    engines, priced = (
        {key for module in registry.engine_modules(name) for key in getattr(module, table)} for name, table in tables
    )
    assert engines == priced
    assert "fsdp" in engines
    titles = {each.title: each for each in advise(job(1).job.config).advice}
    assert {"Shard parameters too", "Offload the optimizer to the host"} <= set(titles)
    assert titles["Offload the optimizer to the host"].slowdown > 0


MISTAKES = [
    (0, {"engine__offload_optimizer": "cpu"}, "needs engine.zero_stage 1, 2 or 3"),
    (2, {"engine__offload_param": "cpu"}, "needs engine.zero_stage 3"),
    (2, {"engine__stage3_max_live_parameters": 1}, "applies to engine.zero_stage 3"),
    (3, {"engine__mics_shard_size": 3}, "does not divide"),
    (2, {"engine__zero_quantized_weights": True}, "applies to engine.zero_stage 3"),
    (2, {"engine__bf16_master_weights_and_grads": True}, "applies to engine.zero_stage 3"),
    (
        3,
        {"engine__bf16_master_weights_and_grads": True, "engine__offload_optimizer": "cpu"},
        "training.precision 'bf16-mixed' and the optimizer on the GPU",
    ),
    (0, {"training__gradient_dtype": "fp32"}, "supported only as fp32, with bf16, engine.zero_stage 1 to 3"),
    (2, {"training__precision": "bf16"}, "with DeepSpeed: fp32, tf32, bf16-mixed, fp16-mixed"),
    (2, {"parallelism__tensor_parallel_size": 2}, "found 'deepspeed'"),
    (2, {"parallelism__ulysses_parallel_size": 3}, "not divisible by 2 × 3 ranks|not divisible by 3 ranks"),
    (
        2,
        {"parallelism__ulysses_parallel_size": 4, "hardware__num_gpus": 6},
        "not a multiple of the 4 Ulysses-parallel ranks",
    ),
    (
        2,
        {"parallelism__ulysses_parallel_size": 8, "model": {**MODEL, "num_attention_heads": 4}},
        "4 query and 4 key heads",
    ),
    (2, {"parallelism__ulysses_parallel_size": 2, "training__attention": "math"}, "Ulysses supports flash, sdpa"),
    (
        2,
        {"parallelism__ulysses_parallel_size": 2, "training__implementation": "torchtitan"},
        "transformers' or Liger's",
    ),
]


MISTAKES += [(stage, {"training__zero_grad": "keep"}, "sets gradients to None itself") for stage in (0, 2, 3)]


@pytest.mark.parametrize(("stage", "changes", "message"), MISTAKES)
def test_mistakes_are_named(stage, changes, message):
    """What contradicts itself or is not modelled is refused by name."""
    with pytest.raises((ConfigError, UnsupportedError), match=message):
        job(stage, **changes)
