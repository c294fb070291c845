"""Words of vLLM and SGLang: methods that draft tokens, kernels of quantization, dtypes of caches."""

import pytest

from memcore.errors import MemcoreError
from memcore.formats.readers import flat
from memcore.tools import imported

METHOD, TOKENS, DRAFT = (
    f"inference.{each}" for each in ("speculative_method", "num_speculative_tokens", "draft_model")
)
CACHE, FORMAT = "inference.kv_cache_dtype", "inference.quantization"
VLLM, SGLANG, LLAMA = "vllm serve a/b ", "sglang serve --model-path a/b ", "llama-server -m Qwen3-8B-Q4_K_M.gguf "
READ = {
    VLLM + "--speculative-config.method mtp --speculative-config.num_speculative_tokens 1": {METHOD: "mtp", TOKENS: 1},
    VLLM + """--speculative-config '{"method": "step3p5_mtp", "num_speculative_tokens": 2}'""": {METHOD: "mtp", TOKENS: 2},
    VLLM + """--speculative_config '{"model": "org/a-eagle3", "num_speculative_tokens": 3}'""": {
        METHOD: "eagle3", TOKENS: 3, DRAFT: None},
    VLLM + """--speculative-config '{"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 4}'""": {
        METHOD: "draft", TOKENS: 4, DRAFT: "Qwen/Qwen3-0.6B"},
    VLLM + """--speculative-config '{"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 4}'""": {
        METHOD: "ngram", TOKENS: 5},
    VLLM + "--kv-cache-dtype int8_per_token_head -q awq_marlin": {CACHE: "int8", FORMAT: "awq"},
    VLLM + "--kv-cache-dtype fp8_e5m2 --quantization modelopt_fp4": {CACHE: "fp8", FORMAT: "nvfp4"},
    VLLM + "--quantization compressed-tensors": {FORMAT: None},
    VLLM + "--spec-method ngram --spec-tokens 3 -pcp 1 --cpu-offload-gb 0": {METHOD: "ngram", TOKENS: 3},
    VLLM + "--max-model-len 25.6k --max-num-batched-tokens 8K": {
        "inference.max_model_len": 25600, "engine.max_num_batched_tokens": 8192},
    VLLM + "-ep -tp 2": {"engine.enable_expert_parallel": True},
    VLLM + "--task embed": {"engine.runner": "pooling"},
    VLLM + "--task score --convert none": {"engine.runner": "pooling"},
    VLLM + "--runner generate --task embed": {"engine.runner": "generate"},
    VLLM + "--convert classify": {"engine.runner": "pooling"},
    VLLM + "--task auto --runner auto --convert auto": {"engine.runner": None},
    SGLANG + "--speculative-algorithm=EAGLE3 --speculative-draft-model-path x/y --speculative-num-steps 3 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4": {METHOD: "eagle3", TOKENS: 3, DRAFT: None},
    SGLANG + "--speculative-algorithm EAGLE --speculative-num-steps 1 --speculative-num-draft-tokens 2": {
        METHOD: "mtp", TOKENS: 1},
    SGLANG + "--speculative-algorithm EAGLE --speculative-eagle-topk 8 --speculative-num-draft-tokens 64": {TOKENS: 63},
    SGLANG + "--speculative-algorithm STANDALONE --speculative-draft-model-path Qwen/Qwen3-0.6B": {
        METHOD: "draft", DRAFT: "Qwen/Qwen3-0.6B"},
    SGLANG + "--tp 8 --attn-dp-size 4 --enable-dp-lm-head": {
        "parallelism.data_parallel_size": 4, "engine.enable_dp_attention": True, "engine.enable_dp_lm_head": True},
    "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK=256 " + SGLANG + "--disaggregation-mode decode": {
        "engine.deepep_dispatch_tokens": 256, "engine.disaggregation_mode": "decode"},
    SGLANG + "--kv-cache-dtype fp8_e5m2 --quantization w8a8_int8": {CACHE: "fp8", FORMAT: "int8"},
    VLLM + """--speculative-config '{"method": "dflash", "model": "x/y"}'""": {METHOD: "dflash", DRAFT: None},
    VLLM + "--spec-model z-lab/Qwen3-8B-DFlash-b16 --spec-tokens 15": {METHOD: "dflash", TOKENS: 15, DRAFT: None},
    SGLANG + "--speculative-algorithm DFLASH --speculative-draft-model-path x/y --speculative-num-draft-tokens 16": {
        METHOD: "dflash", TOKENS: 15, DRAFT: None},
    VLLM + "--cpu-offload-gb 8 --kv-offloading-size 16 --kv-offloading-backend native --swap-space 4": {
        "engine.cpu_offload_gb": 8, "engine.kv_offloading_size": 16, "engine.kv_connector": None},
    "export VLLM_USE_FLASHINFER_SAMPLER=0\n" + VLLM: {"engine.flashinfer_sampler": False},
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0 " + VLLM: {"engine.estimate_cudagraphs": False},
    "VLLM_USE_V1=0 " + VLLM: {"engine.use_v1": False},
    "VLLM_USE_V2_MODEL_RUNNER=1 " + VLLM: {"engine.use_v2_model_runner": True},
    VLLM + "--skip-mm-profiling": {"engine.skip_mm_profiling": True},
    VLLM + """--compilation-config '{"cudagraph_mode": "FULL_DECODE_ONLY", "custom_ops": ["all"]}'""": {
        "engine.cudagraph_mode": "full_decode_only"},
    VLLM + "-cc.cudagraph_mode=PIECEWISE": {"engine.cudagraph_mode": "piecewise"},
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 " + VLLM: {"engine.allow_longer": True},
    "export SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=true\n" + SGLANG: {"engine.allow_longer": True},
    VLLM + """--hf-overrides '{"rope_parameters": {"rope_type": "yarn", "factor": 4.0, """
    """"original_max_position_embeddings": 32768}}'""": {"engine.scaled_positions": 131072},
    VLLM + """--rope-scaling '{"rope_type":"yarn","factor":2.0,"original_max_position_embeddings":32768}'""": {
        "engine.scaled_positions": 65536},
    VLLM + """--hf-overrides '{"text_config": {"max_position_embeddings": 524288}}'""": {
        "engine.scaled_positions": 524288},
    VLLM + "--hf-overrides.rope_scaling.rope_type dynamic --hf-overrides.rope_scaling.factor 2.0": {
        "engine.allow_longer": True, "engine.scaled_positions": None},
    SGLANG + """--json-model-override-args '{"rope_scaling":{"rope_type":"yarn","factor":4.0,"""
    """"original_max_position_embeddings":32768}}'""": {"engine.scaled_positions": None, "engine.allow_longer": None},
    SGLANG + """--json-model-override-args '{"max_position_embeddings": 131072}'""": {
        "engine.scaled_positions": 131072},
    "VLLM_DISABLE_COMPILE_CACHE=1 " + VLLM: {"engine.compile_cache": False},
    VLLM + "--kv-offloading-size 16 --kv-offloading-backend lmcache": {"engine.kv_connector": "lmcache"},
    VLLM + """--kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'""": {
        "engine.kv_connector": "nixl"},
    VLLM + "-ep -dp 8 --all2all-backend deepep_low_latency": {"engine.all2all_backend": "deepep_low_latency"},
    SGLANG + "--tp 8 --moe-a2a-backend deepep --deepep-mode normal": {
        "engine.moe_a2a_backend": "deepep", "engine.deepep_mode": "normal", "engine.enable_expert_parallel": True},
    SGLANG + "--tp 8 --moe-a2a-backend flashinfer": {
        "engine.moe_a2a_backend": "flashinfer", "engine.enable_expert_parallel": True},
    SGLANG + "--tp 8 --enable-deepep-moe": {"engine.moe_a2a_backend": "deepep"},
    LLAMA + "-md Qwen3-0.6B-Q4_K_M.gguf -ngld 20 --draft-max 8 -ctkd q8_0 -ctvd q4_0": {
        DRAFT: "Qwen/Qwen3-0.6B", "engine.draft_quantization": "q4_k_m", "engine.n_gpu_layers_draft": 20, TOKENS: 8,
        "engine.cache_type_k_draft": "q8_0", "engine.cache_type_v_draft": "q4_0"},
    LLAMA + "-hfd Qwen/Qwen3-0.6B-GGUF:Q8_0 -ngld all --spec-type draft-simple,ngram-mod --spec-draft-n-max 5": {
        DRAFT: "Qwen/Qwen3-0.6B-GGUF", "engine.draft_quantization": "q8_0", "engine.n_gpu_layers_draft": None,
        METHOD: "draft", TOKENS: 5},
    LLAMA + "--spec-type ngram-mod": {METHOD: "ngram", DRAFT: None},
    LLAMA + "--spec-type draft-mtp --spec-draft-n-max 2": {METHOD: "mtp", DRAFT: None},
    LLAMA + "--spec-type none": {METHOD: None},
}  # fmt: skip


@pytest.mark.parametrize("text", READ)
def test_words_of_servers(text):
    found = flat(imported(text).config)
    assert {path: found.get(path) for path in READ[text]} == READ[text]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (VLLM + "--swap-space 4", "--swap-space: 4 GiB of host memory per GPU"),
        (LLAMA + "--cache-ram 4096", "--cache-ram: 4096 MiB of host memory for the prompt cache"),
        (
            LLAMA + "-md Qwen3-0.6B.gguf",
            "-md: the name Qwen3-0.6B.gguf does not say which format it is; give it with --draft-quant",
        ),
        (VLLM + "--spec-method dflash --spec-model a/b", "a/b is counted as layers with the model's own widths"),
    ],
)
def test_what_is_on_the_host_or_taken_for_something_is_said(text, said):
    assert any(said in note for note in imported(text).notes)


def test_what_is_not_read_of_a_draft_is_said():
    found = imported(VLLM + """--speculative-config '{"model": "org/a-eagle", "disable_padded_drafter_batch": true}'""")
    assert any("org/a-eagle is counted as one layer" in note for note in found.notes)
    assert found.unknown == ("--speculative-config.disable_padded_drafter_batch",)


REFUSED = {
    VLLM + """--speculative-config '{"method": "suffix"}'""": "found 'suffix'; supported: mtp, eagle",
    VLLM + "--speculative-config '{\"method\"'": "--speculative-config: is not JSON",
    SGLANG + "--speculative-algorithm LOOKAHEAD": "--speculative-algorithm: found 'LOOKAHEAD'",
    VLLM + "--kv-cache-dtype int2": "--kv-cache-dtype: found 'int2'",
    VLLM + "--kv-transfer-config.kv_connector MooncakeConnector": "found 'MooncakeConnector'; supported: Offloading",
    "llama-server -hf a/b --spec-type draft-eagle3": "found 'draft-eagle3'; supported: draft-simple, draft-mtp",
    VLLM + "-pcp 2": "-pcp: found 2, which is not supported yet",
    SGLANG + "--attn-cp-size 2": "--attn-cp-size: found 2, which is not supported yet",
    "llama-server -hf a/b -ot attn=CPU": "-ot: found 'attn=CPU', which is not supported yet",
    "llama-server -hf a/b -nkvo": "-nkvo: found True, which is not supported yet",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_words_are_refused_by_name(text):
    with pytest.raises(MemcoreError) as raised:
        imported(text)
    assert REFUSED[text] in str(raised.value)
