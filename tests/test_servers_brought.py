"""Files that start servers, as people have them: what each says, and what is left for somebody else to say."""

import pytest

from memcore import estimate
from memcore.config.settings import Config
from memcore.errors import MemcoreError
from memcore.tools import imported
from memcore.tools.exporting import exported
from memcore.units import GiB

CHART = """servingEngineSpec:
  modelSpec:
  - name: a
    modelURL: Qwen/Qwen2.5-14B-Instruct
    vllmConfig: {dtype: half, v0: "1", tensorParallelSize: 4, maxModelLen: 8192, extraArgs: ["--enforce-eager"]}
"""
KUBEAI = """apiVersion: kubeai.org/v1
kind: Model
spec:
  url: hf://org/m
  engine: VLLM
  args: [--max-num-batched-token=4096, --max-model-len=8192, --enable-chunked-prefill=false]
"""
COMPOSE = """services:
  a:
    image: vllm/vllm-openai:latest
    environment: ["SPEC_N=${SPEC_N:-}"]
    entrypoint:
      - bash
      - -c
      - |
        n="$${SPEC_N:-3}"
        case "$${SPEC:-}" in off|0) n=0 ;; esac
        A=()
        if [ "$$n" -gt 0 ]; then A=(--speculative-config "{\\"method\\":\\"mtp\\",\\"num_speculative_tokens\\":$$n}"); fi
        exec vllm serve "$$@" "$${A[@]}"
      - --
    command: [--model, org/m, --tensor-parallel-size, "${TP:-2}"]
"""
TRT = """cat > c.yml << EOF
kv_cache_config:
    dtype: fp8
    free_gpu_memory_fraction: ${FRACTION:-0.8}
speculative_config: {decoding_type: MTP, num_nextn_predict_layers: 3}
EOF
trtllm-serve org/m --tp_size=8 --config ./c.yml
"""
TGI = "docker run --gpus all -e MODEL_ID=org/m -e NUM_SHARD=2 -e QUANTIZE=bitsandbytes-nf4 ghcr.io/huggingface/{}\n"
SWAP = "macros: {run: /bin/llama-server -ngl 99}\nmodels:\n  a: {cmd: '${run} -m Qwen3-8B-Q8_0.gguf -c 4096'}\n"
READ = {
    "swift deploy --model org/m": {"engine.type": "transformers", "inference.batch_size": 1},
    CHART: {"model": "Qwen/Qwen2.5-14B-Instruct", "parallelism.tensor_parallel_size": 4, "engine.enforce_eager": True},
    KUBEAI: {"model": "org/m", "engine.max_num_batched_tokens": 4096, "inference.max_model_len": 8192},
    COMPOSE: {"model": "org/m", "inference.speculative_method": "mtp", "inference.num_speculative_tokens": 3},
    TRT: {"inference.kv_cache_dtype": "fp8", "inference.num_speculative_tokens": 3,
          "engine.free_gpu_memory_fraction": 0.8},
    TGI.format("text-generation-inference:3.3"): {"engine.type": "tgi", "inference.quantization": "nf4",
                                                  "parallelism.tensor_parallel_size": 2},
    SWAP: {"model": "Qwen/Qwen3-8B", "inference.quantization": "q8_0", "inference.max_model_len": 4096},
    'docker run -it vllm/vllm-openai bash -c "vllm serve org/m --tensor-parallel-size 4"': {
        "model": "org/m", "parallelism.tensor_parallel_size": 4},
    "lmdeploy serve api_server org/m --tp 2 --cache-max-entry-count 0.5 --quant-policy 8": {
        "engine.cache_max_entry_count": 0.5, "inference.kv_cache_dtype": "int8"},
    'FROM qwen3:8b\nPARAMETER num_ctx 4096\nSYSTEM """You\nFROM x"""\n': {
        "model": "Qwen/Qwen3-8B", "inference.max_model_len": 4096, "engine.fork": "ollama"},
    "export OLLAMA_NUM_PARALLEL=4 OLLAMA_KV_CACHE_TYPE=q8_0\nollama run llama3.1\n": {
        "model": "meta-llama/Llama-3.1-8B-Instruct", "inference.batch_size": 4, "engine.cache_type_k": "q8_0"},
    "swift deploy --model org/m --infer_backend sglang --sglang_tp_size 2": {"parallelism.tensor_parallel_size": 2},
    "resources: {accelerators: L4:2}\nrun: |\n  vllm serve org/m --tensor-parallel-size $SKYPILOT_NUM_GPUS_PER_NODE\n": {
        "parallelism.tensor_parallel_size": 2},
    'resources: {accelerators: H100:8}\nnum_nodes: 2\nrun: |\n  if [ "$SKYPILOT_NODE_RANK" == "0" ]; then\n'
    "    torchrun --nnodes $SKYPILOT_NUM_NODES --nproc_per_node $SKYPILOT_NUM_GPUS_PER_NODE train.py"
    " --model_name_or_path org/m --per_device_train_batch_size 4 --max_length 512\n  fi\n": {
        "hardware.num_gpus": 16, "training.micro_batch_size": 4},
    "set M=C:\\x\\Meta-Llama-3.1-8B-Instruct-Q6_K.gguf\nllama-server.exe -m %M% -ngl 20\n": {
        "inference.quantization": "q6_k", "engine.n_gpu_layers": 20},
    "vllm serve org/m --enable-lora --max-model-len 32768 --no-enable-chunked-prefill": {
        "inference.max_loras": 1, "engine.max_num_batched_tokens": 32768},
    "sglang serve org/m --lora-paths a=x b=y --max-lora-rank 64 --lora-target-modules q_proj v_proj --cuda-graph-bs 1 2 8"
    " --disable-piecewise-cuda-graph --attention-backend fa3 --enable-symm-mem": {
        "inference.max_loras": 8, "inference.max_lora_rank": 64, "engine.lora_target_modules": ["q_proj", "v_proj"],
        "engine.cuda_graph_max_bs": 8, "engine.cuda_graph_sizes": 3, "engine.prefill_cuda_graph": False,
        "engine.attention_backend": "fa3", "engine.enable_symm_mem": True},
    "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE=2 sglang serve org/m --enable-symm-mem --decode-attention-backend flashinfer"
    """ --attention-backend fa3 --cuda-graph-config '{"decode": {"bs": [1, 64]}, "prefill": {"backend": "disabled"}}'""": {
        "engine.symm_mem_prealloc": 2, "engine.attention_backend": "flashinfer",
        "engine.prefill_attention_backend": "fa3", "engine.cuda_graph_max_bs": 64, "engine.cuda_graph_sizes": 2,
        "engine.prefill_cuda_graph": False},
    "sglang serve org/m --max-lora-rank 64 --cuda-graph-backend-prefill tc_piecewise --cuda-graph-max-bs-prefill 2048": {
        "inference.max_loras": None, "engine.prefill_cuda_graph": True, "engine.prefill_graph_tokens": 2048},
    "llama-server --hf-repo a/b-GGUF --hf-file b-q8_0.gguf -c 512": {"inference.quantization": "q8_0"},
    r"llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -ot 'blk\.(1[0-9]|2\d)\.ffn_.*_exps.=CPU'": {"engine.n_cpu_moe": 20},
    "llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -ts 3,1 -sm layer": {
        "engine.tensor_split": "3,1", "hardware.num_gpus": 2,
    },
    "llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -cmoe": {"engine.n_cpu_moe": 1000, "engine.mmproj": None},
    "llama-server -m gemma-3-4b-it-Q4_K_M.gguf --mmproj ./mmproj-BF16.gguf": {"engine.mmproj": "bf16"},
    "llama-server -hf unsloth/gemma-3-12b-it-GGUF:Q8_0": {"engine.mmproj": "f16"},
    "llama-server -hf unsloth/gemma-3-12b-it-GGUF:Q8_0 --no-mmproj": {"engine.mmproj": None},
    "llama-server -m gemma-3-4b-it-Q4_K_M.gguf --mmproj a.gguf --no-mmproj-offload": {"engine.mmproj": None},
    "kind: VLLMRuntime\nspec:\n  model: {modelURL: org/m, maxModelLen: 4096, maxNumSeqs: 32}\n"
    "  vllmConfig: {tensorParallelSize: 2, gpuMemoryUtilization: '0.8', port: 8000}\n": {
        "inference.max_model_len": 4096, "inference.max_num_seqs": 32, "parallelism.tensor_parallel_size": 2,
        "engine.gpu_memory_utilization": 0.8, "engine.enable_prefix_caching": False},
    "spec:\n  tensorParallelSize: 2\n  extraArgs: [--max-num-seqs, '64']\n  model: {modelURL: org/m, enableLoRA: true}\n": {
        "inference.max_num_seqs": 64, "inference.max_loras": 1, "parallelism.tensor_parallel_size": 2},
    "vllm serve /m/qwen3.6-35b-a3b-nvfp4 --quantization modelopt": {"inference.quantization": None},
    "vllm serve /m --quantization modelopt": {"inference.quantization": "fp8"},
    "vllm serve org/m --limit-mm-per-prompt image=2": {"inference.images_per_sequence": 2},
    """vllm serve org/m --limit-mm-per-prompt '{"image": 0, "video": 0}'""": {"inference.images_per_sequence": 0},
    "vllm serve org/m --limit-mm-per-prompt.video 0": {"inference.images_per_sequence": None,
                                                       "engine.videos_per_sequence": 0},
    """vllm serve org/m --limit-mm-per-prompt '{"image": 2, "video": 0}'""": {"inference.images_per_sequence": 2,
                                                                          "engine.videos_per_sequence": 0},
    "vllm serve org/m --language-model-only": {"inference.images_per_sequence": 0},
    """vllm serve org/m --mm-processor-kwargs '{"min_pixels": 784, "max_pixels": 1003520}'""": {
        "engine.max_pixels": 1003520},
    "```sh\nvllm serve org/m\n```\n```sh\ndocker run vllm/vllm-openai-cpu:latest --model org/n\n```\n": {"model": "org/m"},
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_what_is_brought_is_read(text):
    config = Config.from_dict({"model": "gpt2", **imported(text).config})
    assert {path: config.get(path) if path != "model" else config.model for path in READ[text]} == READ[text]


SAID = {
    'N=$((ISL*2))\nvllm serve org/m --max-num-batched-tokens "$N"': "$ISL",
    "llama-server -m my-model.gguf -c 512": "does not say which format it is",
    "trtllm-serve org/m --extra_llm_api_options x.yml": "x.yml is a separate file",
    "spec:\n  url: hf://org/m\n  engine: VLLM\n  resourceProfile: google-tpu-v5e-2x2:4\n": "supported: GPUs",
}


@pytest.mark.parametrize("text", SAID)
def test_what_is_left_open_is_said(text):
    try:
        read = imported(text)
        said = f"{read.config} {read.notes}"
    except MemcoreError as error:
        said = str(error)
    assert SAID[text] in said


JOBS = {
    "tgi": {"engine": {"cuda_memory_fraction": 0.9, "max_batch_prefill_tokens": 4096, "cuda_graph_max_batch": 8}},
    "lmdeploy": {"engine": {"cache_max_entry_count": 0.5, "backend": "pytorch"}, "inference": {"max_num_seqs": 64}},
    "ollama": {"engine": {"n_batch": 256, "fork": "ollama"}, "inference": {"quantization": "q8_0"}},
    "tensorrt-llm-options": {"engine": {"max_num_tokens": 4096}, "inference": {"kv_cache_dtype": "fp8"}},
}


@pytest.mark.parametrize("tool", JOBS)
def test_back_again(tool):
    engine = {"ollama": "llama.cpp", "tensorrt-llm-options": "tensorrt-llm"}.get(tool, tool)
    job = {"model": "llama-3.1-8b", **JOBS[tool], "engine": {"type": engine, **JOBS[tool]["engine"]}}
    written = exported(Config.from_dict(job), tool)
    assert written.left_out == ()
    assert imported(written.text).tool.name == tool


def serving(engine, **flags):
    job = {"model": "llama-3.1-8b", "engine": {"type": engine, **flags}, "hardware": {"accelerator": "a100-sxm-80gb"}}
    return estimate(job)


def test_the_cache_of_tgi_by_hand():
    """Nine tenths of the fraction, less all that the warmup holds; graphs are captured in the last tenth."""
    found = serving("tgi", cuda_memory_fraction=0.8, max_batch_prefill_tokens=4096)
    held = sum(e.bytes for e in found.ledger.entries if e.category not in ("KV cache", "CUDA graphs"))
    assert found.rank.available == int(0.9 * 0.8 * found.job.capacity - held)
    assert found.pool.tokens == found.rank.available // (32 * 2 * 8 * 128 * 2)


@pytest.mark.parametrize(("version", "room"), [("3.0.1", 0.95), ("3.2.3", 0.93), ("3.3.0", 0.9)])
def test_what_tgi_leaves_by_release(version, room):
    found = serving("tgi", version=version, max_batch_prefill_tokens=4096)
    held = sum(e.bytes for e in found.ledger.entries if e.category not in ("KV cache", "CUDA graphs"))
    assert found.rank.available == int(room * found.job.capacity - held)


def test_the_cache_of_tgi_before_3():
    """A part of what the warmup left, and its own blocks: two prompts' of 4,096 tokens, in blocks of 16."""
    found = serving("tgi", version="2.2.0")
    held = sum(e.bytes for e in found.ledger.entries if e.category not in ("KV cache", "CUDA graphs"))
    token = 32 * 2 * 8 * 128 * 2
    warm = 2 * 4096 * token
    assert found.rank.available == pytest.approx(0.95 * (found.job.capacity - held - warm) + warm, abs=2)
    assert found.pool.capacity == found.rank.available // (16 * token)
    assert found.ledger.sum("activations") == 4145 * (2 * 128_256 + 4096) * 2


def test_the_cache_of_lmdeploy_by_hand():
    """A share of what is free behind the weights, in blocks of 64 tokens."""
    found = serving("lmdeploy", cache_max_entry_count=0.5)
    loaded = found.ledger.sum("weights", "outside the allocator")
    assert found.rank.available == int(0.5 * (found.job.capacity - loaded))
    assert found.pool.capacity == found.rank.available // (64 * 32 * 2 * 8 * 128 * 2)
    assert serving("lmdeploy", cache_max_entry_count=0.5, backend="pytorch").pool.capacity < found.pool.capacity


def test_lmdeploy_has_turbomind_for_nvidia_alone():
    job = {"model": "llama-3.1-8b", "engine": {"type": "lmdeploy"}}
    found = {each: estimate({**job, "hardware": {"accelerator": each}}) for each in ("mi300x", "h200-sxm-141gb")}
    said = {name: {each.path: str(each) for each in own.job.assumptions} for name, own in found.items()}
    assert "pytorch" in said["mi300x"]["engine.backend"]
    assert "turbomind" in said["h200-sxm-141gb"]["engine.backend"]


@pytest.mark.parametrize(("accelerator", "tokens"), [("l4", 4096), ("rtx-3090", 32_768), ("a100-sxm-80gb", 131_072)])
def test_ollama_chooses_a_context(accelerator, tokens):
    job = {"model": "llama-3.1-8b", "engine": {"type": "llama.cpp", "fork": "ollama"},
           "hardware": {"accelerator": accelerator}}  # fmt: skip
    found = estimate(job)
    assert found.job.basics.max_model_len == tokens
    assert found.ledger.total > GiB


GRAPHS = {
    "cuda_graph_config: {enable_padding: true, max_batch_size: 2048}": 49,
    "cuda_graph_config: {max_batch_size: 512}": 36,
    "cuda_graph_config: {batch_sizes: [1, 2, 4, 4096]}": 3,
    "use_cuda_graph: false": 0,
    "enable_attention_dp: false": None,
}
"""By what a file of TensorRT-LLM says, the batches that are captured, none of which is above the server's 2048."""


@pytest.mark.parametrize("text", GRAPHS)
def test_captured_graphs_of_tensorrt_llm(text):
    """llmapi/llm_args.py, `_generate_cuda_graph_batch_sizes`; more than 34 leave less to the cache."""
    read = imported(f"model: meta-llama/Llama-3.1-8B\nmax_batch_size: 2048\nprint_iter_log: true\n{text}\n").config
    assert read["engine"].get("cuda_graphs") == GRAPHS[text]
    usual = {**read, "engine": {"type": "tensorrt-llm"}, "hardware": {"accelerator": "h100-sxm-80gb", "num_gpus": 1}}
    given = {**usual, "engine": read["engine"]}
    more = (GRAPHS[text] or 0) > 34
    assert (estimate(given).budget.pool.capacity < estimate(usual).budget.pool.capacity) is more
