"""What other tools say of measured training runs, by their own code.

    python benchmarks/peers.py FOLDER

`FOLDER` has the repositories of `PEERS`, each at the commit that stands there, in folders of the same name; their
requirements must be installed. Every measured run of tests/truth that a tool can express is put to it in its own words;
what it cannot express is left out, as its authors did. The answers go to tests/truth/peers.json, from which the
accuracy page makes its table.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, Optional

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from memcore.errors import MemcoreError
from memcore.estimation import estimate
from memcore.memory.estimate import Estimate
from memcore.networks.catalog import find_model
from memcore.networks.parts import Attention, Experts, is_gated
from memcore.questions.formulas import compare

TRUTH = ROOT / "tests" / "truth"
FILES = ("hardware", "megatron", "runs", "fms", "h100", "fresh")
PEERS: Mapping[str, str] = {
    "llm-analysis": "d841e40aec8c84b9e76ba9cfbce67418adb172bd",
    "gpu-mem-calculator": "2f345d1dcc3c173e09efe47a1e00ca149a2cd785",
    "SimuMax": "4dcaae513ba7679d56c116a17cd4a691ec41e252",
    "accelerate": "16cb6eb80dd9aa8b4df1a63ef57863e455d53b83",
    "DeepSpeed": "edaa7221267243c7be7fb49c5d5f5c4fb97b4641",
}
"""Repositories by name, with the commit."""


class Run(NamedTuple):
    """A measured run, as closed formulas see it."""

    case: Mapping[str, Any]
    found: Estimate
    layers: int
    hidden: int
    heads: int
    key_heads: int
    width: int
    inner: int
    words: int
    parameters: int
    sequence: int
    micro_batch: int
    micro_batches: int
    gpus: int
    tensor: int
    stages: int
    context: int
    gated: bool
    checkpoints: str
    """`none`, `selective` or `full`."""

    @property
    def engine(self) -> str:
        """Its name."""
        return self.found.job.engine.name

    @property
    def zero(self) -> int | None:
        """How much is sharded, as ZeRO counts; None: something else."""
        config = self.case["config"]
        given = config["engine"].get("zero_stage")
        known = {"none": 0, "ddp": 0, "fsdp": 3, "megatron": int(bool(config["engine"].get("distributed_optimizer")))}
        return given if given is not None else known.get(self.engine)


def runs() -> Iterator[Run]:
    """Measured runs of dense decoders whose weights all learn: what closed formulas are for, and what tensors took."""
    for name in FILES:
        for case in json.loads((TRUTH / f"{name}.json").read_text(encoding="utf-8")):
            measured = case["measured"]
            if measured["quantity"] == "max_allocated" and measured.get("moment", "peak") == "peak":
                run = _run(case)
                if run is not None:
                    yield run


def _run(case: Mapping[str, Any]) -> Run | None:
    training = case["config"].get("training", {})
    if training.get("adapter") or training.get("quantization") or training.get("method") or training.get("offload"):
        return None
    try:
        found = estimate(case["config"])
        if not isinstance(found, Estimate):
            return None
        job = found.job
    except MemcoreError:
        return None
    network, sizes = job.model.network, job.model.sizes
    mixers = [layer.mixer for layer in network.kinds]
    if network.towers or not all(isinstance(each, Attention) for each in mixers):
        return None
    if any(isinstance(ffn, Experts) for layer in network.kinds for ffn in layer.ffns):
        return None
    if isinstance(job.config.model, Mapping) and job.config.model.get("architecture", "gpt") != "gpt":
        return None
    policy = training.get("activation_checkpointing", "none")
    policy = policy.get("policy", "none") if isinstance(policy, dict) else policy
    return Run(
        case, found, job.model.num_layers, sizes["h"], sizes["a"], sizes.get("k", sizes["a"]), sizes["d"],
        sizes.get("f", 4 * sizes["h"]), sizes["V"], job.model.parameters, job.sizes["s"] * job.sizes["cp"], job.sizes["b"],
        job.micro_batches, job.num_gpus, job.sizes["tp"], job.stages, job.sizes["cp"],
        _gated(job.config.model), policy,
    )  # fmt: skip


def _gated(model: str | Mapping[str, object]) -> bool:
    """Whether feed-forward layers have three matrices; Megatron's own names say so themselves."""
    if isinstance(model, Mapping) and model.get("model_type") == "megatron":
        return bool(model.get("swiglu"))
    return all(is_gated(layer.feed_forward) for layer in find_model(model).network.kinds)


def llm_analysis(folder: Path) -> Callable[[Run], float | None]:
    """`LLMAnalysis.training`: states, activations, and what the loss or gathered layers need."""
    sys.path.insert(0, str(folder / "llm-analysis"))
    tool_of, of = import_module("llm_analysis.analysis"), import_module("llm_analysis.config")
    logging.disable(logging.CRITICAL)
    recomputed = {
        "none": tool_of.ActivationRecomputation.NONE,
        "selective": tool_of.ActivationRecomputation.ATTN_COMPUTE,
        "full": tool_of.ActivationRecomputation.FULL,
    }

    def answer(run: Run) -> float | None:
        data = run.gpus // (run.tensor * run.stages * run.context)
        if run.context > 1 or run.zero is None:
            return None
        model = of.ModelConfig(
            name="run", num_layers=run.layers, n_head=run.heads, hidden_dim=run.hidden, vocab_size=run.words,
            max_seq_len=run.sequence, num_key_value_heads=run.key_heads, ffn_embed_dim=run.inner, model_type="llama",
            mlp_gated_linear_units=run.gated,
        )  # fmt: skip
        tool = tool_of.LLMAnalysis(
            model,
            of.get_gpu_config_by_name("a100-sxm-80gb"),
            of.get_dtype_config_by_name("w16a16e16"),
            of.ParallelismConfig(tp_size=run.tensor, pp_size=run.stages, dp_size=data, sp_size=run.tensor),
            achieved_tflops=100,
        )
        said = tool.training(
            batch_size_per_gpu=run.micro_batch, gradient_accumulation_steps=run.micro_batches, seq_len=run.sequence,
            activation_recomputation=recomputed[run.checkpoints], ds_zero=tool_of.DSZeRO(run.zero), output_dir=None,
        )  # fmt: skip
        used = (
            said["weight_memory_per_gpu"] + said["optimizer_state_memory_per_gpu"] + said["activation_memory_per_gpu"]
        )
        held = [
            said[key]
            for key in ("gradient_memory_per_gpu", "loss_bwd_memory", "estimated_prefetch_memory_per_gpu")
            if key in said
        ]
        return float(used + max(held, default=0))

    return answer


def gpu_mem_calculator(folder: Path) -> Callable[[Run], float | None]:
    """`GPUMemoryCalculator.calculate`: its total for a GPU."""
    sys.path.insert(0, str(folder / "gpu-mem-calculator" / "src"))
    m = import_module("gpu_mem_calculator.core.models")
    calculator = import_module("gpu_mem_calculator.core.calculator")

    kinds = {
        "none": (m.EngineType.PYTORCH_DDP, None),
        "ddp": (m.EngineType.PYTORCH_DDP, None),
        "fsdp": (m.EngineType.FSDP, None),
        "megatron": (m.EngineType.MEGATRON_LM, None),
        "deepspeed": (m.EngineType.DEEPSPEED, "zero"),
    }

    def answer(run: Run) -> float | None:
        if run.engine not in kinds or run.context > 1:
            return None
        kind, staged = kinds[run.engine]
        data = run.gpus // (run.tensor * run.stages)
        training = run.case["config"]["training"]
        plain = str(training.get("precision", "bf16")).partition("-")[0]
        result = calculator.GPUMemoryCalculator(
            m.ModelConfig(
                num_parameters=run.parameters, num_layers=run.layers, hidden_size=run.hidden,
                num_attention_heads=run.heads, vocab_size=run.words, max_seq_len=run.sequence,
            ),
            m.TrainingConfig(
                batch_size=run.micro_batch, gradient_accumulation_steps=run.micro_batches,
                dtype=plain if plain in ("fp32", "fp16") else "bf16",
                activation_checkpointing={"none": 0, "selective": 2, "full": 4}[run.checkpoints],
            ),
            m.ParallelismConfig(
                tensor_parallel_size=run.tensor, pipeline_parallel_size=run.stages, data_parallel_size=data,
                sequence_parallel=run.tensor > 1,
            ),
            m.EngineConfig(type=kind, **({"zero_stage": run.zero} if staged else {})),
            m.GPUConfig(num_gpus=run.gpus, gpu_memory_gb=80),
        ).calculate()  # fmt: skip
        return float(result.total_memory_per_gpu_gb) * 2**30

    return answer


def simumax(folder: Path) -> Callable[[Run], float | None]:
    """`PerfLLM.analysis_mem`: the peak of the first stage, which is the highest; Megatron's runs alone."""
    home = folder / "SimuMax"
    sys.path.insert(0, str(home))
    of, perf = import_module("simumax.core.config"), import_module("simumax.core.perf_llm")

    system = home / "configs" / "system" / "a100_pcie.json"

    def answer(run: Run) -> float | None:
        config = run.case["config"]
        policy = config["training"].get("activation_checkpointing")
        if run.engine != "megatron" or isinstance(policy, dict) or run.checkpoints == "full" or run.context > 1:
            return None
        if (config["parallelism"].get("virtual_pipeline_parallel_size") or 1) > 1 or config["parallelism"].get(
            "pipeline_layout"
        ):
            return None
        model = of.ModelConfig(
            model_type="dense", model_name="run", hidden_size=run.hidden, head_num=run.heads, kv_head_num=run.key_heads,
            head_size=run.width, intermediate_size=run.inner, layer_num=run.layers, vocab_size=run.words, use_swiglu=run.gated,
        )  # fmt: skip
        strategy = of.StrategyConfig(
            seq_len=run.sequence, micro_batch_size=run.micro_batch, micro_batch_num=run.micro_batches, dtype="bf16",
            world_size=run.gpus, tp_size=run.tensor, pp_size=run.stages, ep_size=1, etp_size=1,
            enable_sequence_parallel=bool(config["parallelism"].get("sequence_parallel")), interleaving_size=1,
            zero_state=int(run.zero or 0), cross_entropy_loss_fusion=bool(config["engine"].get("cross_entropy_loss_fusion")), enable_dropout=bool((config["training"].get("dropout") or {}).get("hidden")), use_fused_norm=True,
            use_math_sdp=config["training"].get("attention") == "math",
            use_flash_sdp=config["training"].get("attention") != "math", use_fp32_accum_grad=True,
            enable_recompute=False, mem_factor=1.0,
        )  # fmt: skip
        tool = perf.PerfLLM()
        tool.configure(
            strategy_config=strategy,
            model_config=model,
            system_config=of.SystemConfig.init_from_config_file(str(system)),
        )
        tool.run_estimate()
        found = tool.analysis_mem()
        return max(_peaks(found.data if hasattr(found, "data") else found), default=None)

    return answer


def _peaks(value: object) -> Iterator[float]:
    """Every peak in SimuMax's answer, whose sizes are written with a unit."""
    units = {"GB": 2**30, "MB": 2**20, "KB": 2**10, "B": 1}
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in ("peak_mem", "peak_path_mem") and isinstance(each, str):
                number, unit = each.split()
                yield float(number) * units[unit]
            elif key == "peak_mem" and isinstance(each, (int, float)):
                yield float(each)
            else:
                yield from _peaks(each)


def function_of(path: Path, name: str) -> Callable[..., Any]:
    """One function of a file that is not imported as a whole."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    only: list[ast.stmt] = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    scope: dict[str, Any] = {}
    exec(compile(ast.Module(only, []), str(path), "exec"), {"Optional": Optional}, scope)  # noqa: S102
    return scope[name]  # type: ignore[no-any-return]


def accelerate(folder: Path) -> Callable[[Run], float | None]:
    """`accelerate estimate-memory`: training with Adam on one GPU, a batch of one."""
    usage = function_of(folder / "accelerate/src/accelerate/commands/estimate.py", "estimate_training_usage")

    def answer(run: Run) -> float | None:
        if run.gpus > 1:
            return None
        precision = str(run.case["config"]["training"].get("precision", "bf16"))
        said = usage(4 * run.parameters, "float32" if precision.startswith("fp32") else "bfloat16")
        return float(max(said.values()))

    return answer


def deepspeed(folder: Path) -> Callable[[Run], float | None]:
    """`estimate_zero*_model_states_mem_needs`: states of ZeRO-2 and ZeRO-3, without activations."""
    zero = folder / "DeepSpeed/deepspeed/runtime/zero"
    second = function_of(zero / "stage_1_and_2.py", "estimate_zero2_model_states_mem_needs")
    third = function_of(zero / "stage3.py", "estimate_zero3_model_states_mem_needs")

    def answer(run: Run) -> float | None:
        if run.engine not in ("deepspeed", "fsdp") or run.tensor > 1 or run.stages > 1 or run.zero not in (2, 3):
            return None
        nodes = ceil(run.gpus / 8)
        shared = {"num_gpus_per_node": run.gpus // nodes, "num_nodes": nodes, "cpu_offload": False}
        if run.zero == 2:
            return float(second(run.parameters, **shared)[1])
        largest = max(run.words * run.hidden, (run.parameters - 2 * run.words * run.hidden) // run.layers)
        return float(third(run.parameters, largest, **shared, cpu_offload_params=False)[1])

    return answer


def megatron(title: str) -> Callable[[Run], float | None]:
    """A formula of Megatron-LM or Megatron Bridge, as `memcore formulas` has it term by term."""

    def answer(run: Run) -> float | None:
        if run.engine != "megatron":
            return None
        found = {each.title: each for each in compare(run.case["config"]).answers}.get(title)
        return None if found is None or found.activation is None else float(found.total)

    return answer


TOOLS: Mapping[str, Callable[[Path], Callable[[Run], float | None]]] = {
    "llm-analysis": llm_analysis,
    "gpu-mem-calculator": gpu_mem_calculator,
    "SimuMax": simumax,
    "accelerate": accelerate,
    "DeepSpeed": deepspeed,
    "Megatron-LM": lambda _: megatron("Megatron-LM"),
    "Megatron Bridge": lambda _: megatron("Megatron Bridge"),
}


def main(folder: Path) -> None:
    """Ask every tool about every run."""
    asked = {name: tool(folder) for name, tool in TOOLS.items()}
    rows, failed = [], dict.fromkeys(asked, 0)
    for run in runs():
        said: dict[str, int] = {}
        for name, answer in asked.items():
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    found = answer(run)
            except Exception:  # noqa: BLE001 - whatever the tool raises
                failed[name] += 1
                continue
            if found is not None:
                said[name] = round(found)
        if said:
            rows.append({"id": run.case["id"], "said": said})
    text = ",\n".join(json.dumps(row) for row in rows)
    commits = json.dumps(PEERS)
    (TRUTH / "peers.json").write_text(f'{{"commits": {commits},\n"runs": [\n{text}\n]}}\n', encoding="utf-8")
    for name in asked:
        count = sum(name in row["said"] for row in rows)
        print(f"{name}: {count} runs answered, {failed[name]} ended in an error of the tool")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
