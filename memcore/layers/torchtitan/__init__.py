"""torchtitan's models: Llama, Qwen3 and DeepSeek-V3, with its own attention and routed experts."""
