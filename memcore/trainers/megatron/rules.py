"""Rules of Megatron-Core and TransformerEngine: rows of `memcore.rules.table.RULES`."""

from __future__ import annotations

from collections.abc import Mapping

from memcore.rules.rule import Rule

_MEGATRON = "Megatron-LM, megatron/core"

RULES: Mapping[str, Rule] = {
    # What Megatron-Core keeps.
    "main_gradient": Rule(
        "persistent flat gradient buffer", f"{_MEGATRON}/distributed/param_and_grad_buffer.py", "gradients"
    ),
    "orthogonalization": Rule(
        "Newton-Schulz iteration in fp32",
        "Emerging-Optimizers, emerging_optimizers/orthogonalized_optimizers/muon_utils.py",
        "temporaries",
    ),
    "divided_input": Rule(
        "checkpointed layer input, split over tensor-parallel ranks",
        f"{_MEGATRON}/tensor_parallel/random.py: distribute_saved_activations",
        "activations",
    ),
    "bucket_padding": Rule(
        "padding of parameters and buckets in flat buffers", f"{_MEGATRON}/optimizer/param_layout.py", "buffers"
    ),
    "master_weight": Rule(
        "master weight", f"{_MEGATRON}/optimizer/distrib_optimizer.py, optimizer.py", "optimizer states"
    ),
    "moment_1": Rule("Adam's first moment", "TransformerEngine, pytorch/optimizers/fused_adam.py", "optimizer states"),
    "moment_2": Rule("Adam's second moment", "TransformerEngine, pytorch/optimizers/fused_adam.py", "optimizer states"),
    "fp8_weight": Rule(
        "FP8 copy of a weight and its transpose",
        "TransformerEngine, pytorch/module/base.py: quantize_weight",
        "parameters",
    ),
    "gradient_copy": Rule(
        "fp32 copy of this rank's gradients for the optimizer",
        f"{_MEGATRON}/optimizer/distrib_optimizer.py: _copy_model_grads_to_main_grads",
        "temporaries",
    ),
    "state_scratch": Rule(
        "optimizer states in fp32 while the step runs",
        "TransformerEngine, pytorch/optimizers/fused_adam.py: step",
        "temporaries",
    ),
    "te_workspace": Rule(
        "TransformerEngine's cuBLAS workspace",
        "TransformerEngine, pytorch/cpp_extensions/gemm.py: get_cublas_workspace_size_bytes",
        "buffers",
    ),
    "dummy_gradient": Rule(
        "placeholder for a fused weight gradient, one per shape",
        "TransformerEngine, pytorch/module/base.py: get_dummy_wgrad",
        "buffers",
    ),
    "gather_buffer": Rule(
        "the sequence gathered for the output head", f"{_MEGATRON}/utils.py: GlobalMemoryBuffer", "buffers"
    ),
    "score_buffer": Rule(
        "output buffer of unfused attention scores", f"{_MEGATRON}/transformer/dot_product_attention.py", "buffers"
    ),
    "last_input": Rule(
        "a model chunk's last input and its gradient, still referenced by the model",
        f"{_MEGATRON}/transformer/transformer_block.py: set_input_tensor",
        "communication",
    ),
    "deferred_gradient": Rule(
        "output head's input and logit gradient, kept until the weight gradient is computed",
        f"{_MEGATRON}/tensor_parallel/layers.py and pipeline_parallel/schedules.py: finish_embedding_wgrad_compute",
        "logits and loss",
    ),
    "fsdp_gathered": Rule(
        "parameters gathered from all data-parallel ranks",
        f"{_MEGATRON}/distributed/fsdp: AllGatherPipeline; what is no layer stays gathered",
        "communication",
    ),
    "fsdp_gradients": Rule(
        "layer gradients before reduce-scatter",
        f"{_MEGATRON}/distributed/fsdp: GradReducePipeline",
        "communication",
    ),
    "expert_buffer": Rule(
        "tokens of all ranks, gathered for each rank's experts",
        f"{_MEGATRON}/transformer/moe/token_dispatcher.py: MoEAllGatherTokenDispatcher, use_global_buffer",
        "buffers",
    ),
    "routing_weights": Rule(
        "routing weights of all experts per token, held by the dispatcher",
        f"{_MEGATRON}/transformer/moe/token_dispatcher.py: self.probs",
        "buffers",
    ),
    "routing_map": Rule(
        "which experts were chosen, which the dispatcher refers to",
        f"{_MEGATRON}/transformer/moe/token_dispatcher.py: self.routing_map, self.local_map",
        "buffers",
    ),
    "layer_wise_gather": Rule(
        "updated parameters, gathered from all ranks",
        f"{_MEGATRON}/optimizer/layer_wise_optimizer.py: allgather_params",
        "temporaries",
    ),
    "graph_input": Rule(
        "static input of a layer's CUDA Graph, one per micro-batch in flight",
        f"{_MEGATRON}/transformer/cuda_graphs.py: _get_sample_arguments",
        "buffers",
    ),
    "graph_mask": Rule(
        "mask input of a layer's CUDA Graph",
        f"{_MEGATRON}/transformer/transformer_layer.py: get_layer_static_inputs",
        "buffers",
    ),
    "graph_gradient": Rule(
        "output gradient of a CUDA Graph, shared by all graphs of one kind",
        "TransformerEngine, pytorch/graph.py: static_grad_outputs",
        "buffers",
    ),
    "reloaded_activation": Rule(
        "saved tensors reloaded from the host, one group ahead of use",
        f"{_MEGATRON}/pipeline_parallel/fine_grained_activation_offload.py: bulk_reload_group",
        "activations",
    ),
    "pinned_activation": Rule(
        "saved tensors in reusable pinned host memory",
        f"{_MEGATRON}/pipeline_parallel/fine_grained_activation_offload.py: OffloadTensorPool",
        "activations",
    ),
    "expert_counts": Rule(
        "token count and selection bias per expert", f"{_MEGATRON}/transformer/moe/router.py", "buffers"
    ),
}
"""Rows by name."""
