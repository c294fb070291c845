"""What each setting is, in Chinese; the English is in the schema. Those of engines are in `words_of_engines`."""

from __future__ import annotations

from collections.abc import Mapping

HELP_IN_CHINESE: Mapping[str, str] = {
    "model": "目录中模型的 id 或 hub id，或 Hugging Face config.json 的内容。",
    "training.sequence_length": "一个序列的 token 数。",
    "training.images_per_sequence": (
        "带视觉塔的模型每个序列中的图像数；图像 token 计入序列长度。没有图像时视觉塔不运行：其参数没有梯度，也没有优"
        "化器状态；Megatron 则照样保留。"
    ),
    "training.image_size": "方形图像一边的像素数。",
    "training.micro_batch_size": "一块 GPU 上一次前向传播的序列数。",
    "training.gradient_accumulation_steps": (
        "一块 GPU 上每个优化器步的微批次数。从第二个微批次起，梯度一开始就在显存中。"
    ),
    "training.precision": "对下面各 dtype 的预设，按引擎的方式设定。",
    "training.parameter_dtype": "优化器所保存的参数。",
    "training.compute_dtype": "各层看到的参数；FSDP 以此 dtype 聚合。",
    "training.gradient_dtype": "优化器读取的梯度。PyTorch 中与参数的 dtype 相同。",
    "training.reduce_dtype": "FSDP 在各 rank 间对梯度求和所用的 dtype。",
    "training.master_dtype": "给优化器的另一份参数副本；PyTorch 的引擎没有。",
    "training.optimizer.name": "Adam 为每个参数保存两个数，SGD 不保存，带动量时保存一个；8 位为 fp32 的四分之一。",
    "training.optimizer.implementation": "优化器步如何计算；决定这一步自身需要的显存。",
    "training.optimizer.state_dtype": "Adam 各阶矩的 dtype；PyTorch 与参数相同，其 fused 内核也可用 bf16。",
    "training.optimizer.rank": "GaLore 与 APOLLO：只为投影到这么多维的梯度保存各阶矩。",
    "training.optimizer.momentum": "SGD 与 RMSprop：大于零时为每个参数保存一个数。",
    "training.adapter.type": "除适配器外全部冻结：没有梯度，也没有优化器状态。",
    "training.adapter.rank": "适配器两个矩阵之间的宽度。",
    "training.adapter.target_modules": "带适配器的线性层，写其名称的最后一段，或 `all-linear`：除输出头外全部。",
    "training.adapter.modules_to_save": "整体训练的副本：`embed_tokens`、`lm_head`；冻结的原件仍保留。",
    "training.adapter.target_parameters": "同样带 LoRA 的专家矩阵（`gate_up_proj` 等）；每次前向都保留其副本。",
    "training.adapter.use_rslora": "LoRA 的乘积按秩的平方根缩放（rsLoRA），不占显存。",
    "training.adapter.decompose_factor": "LoKr：若能整除层宽，第一个矩阵就是这么宽。",
    "training.adapter.block_size": "OFT 与 BOFT：旋转输入的分块边长。",
    "training.adapter.num_trainable_tokens": "嵌入表中参与训练的行数（PEFT 的 `token_indices`）。",
    "training.adapter.u": "TinyLoRA 为每层学习这么多个数。",
    "training.adapter.init_r": "AdaLoRA 从此秩开始。",
    "training.adapter.num_virtual_tokens": "适配器增加的 token 数。",
    "training.adapter.dtype": "PEFT 在半精度权重旁使用 fp32 适配器；TRL 把量化模型的适配器转为 bf16。",
    "training.adapter.dropout": "大于零时，每个目标层各自保存输入和一个掩码。",
    "training.offload.optimizer": (
        "优化器状态以及优化器步本身放在主机上（Megatron 的 HybridDeviceOptimizer、torchao 的 CPUOffloadOptimizer）。"
    ),
    "training.offload.optimizer_fraction": "优化器放在主机上的参数比例。",
    "training.offload.parameters": "FSDP 把分片、梯度和优化器放在主机上：等同于其 CPU offload。",
    "training.offload.activations": "各层为反向传播保存的内容移到主机，再取回（torchtune、TRL、save_on_cpu）。",
    "training.quantization": "适配器旁冻结的线性层如何存放：由 bitsandbytes（QLoRA），或由 transformers 存为 fp8。",
    "training.trainable": "参与学习的部分，写参数名的一段，如 `mlp`、`norm` 或 `lm_head`；其余冻结。",
    "training.gradient_clipping": "按全局范数裁剪：每个参数张量一个数，原地缩放。",
    "training.zero_grad": "梯度在两步之间是否留在显存中。",
    "training.activation_checkpointing.policy": "完全重计算只保存每层的输入，反向传播时再运行该层一次。",
    "training.activation_checkpointing.mode": "选择性重计算选取什么。",
    "training.activation_checkpointing.every": "每隔若干层对一层做完全重计算，其余层不做。",
    "training.activation_checkpointing.method": "Megatron 对哪些层做完全重计算。",
    "training.activation_checkpointing.num_layers": "每组的层数，或每个流水线块的层数。",
    "training.activation_checkpointing.modules": (
        "Megatron 选择性重计算的内容：core_attn、moe_act、layernorm、mla_up_proj、mlp、moe、shared_experts。"
    ),
    "training.activation_checkpointing.early_stop": "反向传播所需的内容都重新就绪后，层的第二次运行立即结束。",
    "training.activation_checkpointing.use_reentrant": (
        "torch.utils.checkpoint 的旧形式：反向传播前没有计算图，反向时整层重新运行。"
    ),
    "training.activation_checkpointing.entry": "重计算以何种方式开启；两种方式保存的张量相同。",
    "training.implementation": "运行谁的层：决定为反向传播保存哪些张量。",
    "training.attention": "注意力在显存中保存什么。",
    "training.attention_mask": "有填充掩码时 SDPA 不能用 flash 内核，键和值为每个查询头各复制一份。",
    "training.packed_sequences": "每个序列含多个互不注意的文档：flash 注意力接收各文档长度，其他内核使用掩码。",
    "training.kernels": "Mamba、线性注意力等循环混合层在显存中保存什么；回退实现需要多得多。",
    "training.loss": "logits 与交叉熵常常就是峰值：每个 token、每个词表项 10 到 14 字节。",
    "training.loss_shift": "由谁移位标签并计算损失：在模型内部时，FSDP 最后聚合的参数还在。",
    "training.outputs_kept": "训练器在反向传播期间一直持有模型的输出对象，连同 logits。",
    "training.compile": "每个 block 都被编译。",
    "training.activation_memory_budget": (
        "编译后的 block 可以保留的激活占全部激活的比例：其余由编译器重新计算，先算最便宜的。0 只保留 block 的输入。"
    ),
    "training.compile_loss": "损失也被编译：logits 保持原样，不做上转型。",
    "training.dropout.hidden": "残差分支元素的丢弃概率；大于零时为每个元素保存一字节掩码。",
    "training.dropout.attention": "注意力权重的丢弃概率；只有 eager 注意力为其保存掩码。",
    "training.use_cache": "Hugging Face 的 use_cache 没有关闭：键和值被复制到一个无人读取的缓存。",
    "inference.batch_size": "同时在显存中的序列数：一个批次，或正在生成回答的服务用户数。",
    "inference.prompt_length": "一个提示的 token 数。",
    "inference.output_length": "为一个提示生成的 token 数。",
    "inference.max_model_len": "服务允许的提示与输出合计 token 数。",
    "inference.mean_length": "一个用户的序列平均的 token 数；缓存池共享，因此能容纳的用户多于按最长计算。",
    "inference.max_num_seqs": "调度器放入一步的序列数；决定采样器 logits 的大小。",
    "inference.weight_dtype": "未量化部分的 dtype。",
    "inference.quantization": "矩阵如何存储；GGUF 类型用于 llama.cpp。",
    "inference.kv_cache_dtype": "键和值如何缓存。",
    "inference.block_size": "缓存一个块的 token 数；一个序列占用整数个块。",
    "inference.use_cache": "在 token 之间保留键和值；否则每个 token 都要重新运行整个序列。",
    "inference.draft_model": "提议 token 的较小模型，写其 id 或 config.json；其权重和缓存另计。",
    "inference.speculative_method": "一步中检验的 token 由什么提议；其权重和缓存另计。",
    "inference.num_speculative_tokens": "一步中提议并检验的 token 数。",
    "inference.max_loras": "同时在 GPU 显存中的适配器数。",
    "inference.max_lora_rank": "适配器的最高秩；槽位按此大小。",
    "inference.images_per_sequence": "带视觉塔的模型每个提示的图像数；0 则不对视觉塔做性能剖析。",
    "inference.sleep_level": "GPU 让给其他任务时：0 保持唤醒，1 把权重移到主机，2 丢弃权重；后两者都丢弃缓存。",
    "parallelism.data_parallel_size": "处理不同序列的 rank 数。",
    "parallelism.data_parallel_shard_size": "FSDP 分片所跨的 rank 数；少于全部即带副本的混合分片（HSDP）。",
    "parallelism.tensor_parallel_size": "共同分担每一层的 rank 数。",
    "parallelism.sequence_parallel": "张量并行的各 rank 在注意力与前馈层之间分担序列。",
    "parallelism.loss_parallel": "张量并行的各 rank 在各自的词表部分上计算损失。",
    "parallelism.pipeline_parallel_size": "由连续层组成的阶段数，每个阶段在各自的 GPU 上；微批次依次通过。",
    "parallelism.virtual_pipeline_parallel_size": "每个流水线 rank 拥有的层块数，这些块在模型中相距较远。",
    "parallelism.pipeline_layout": "每个阶段（及虚拟阶段）的层数，或 Megatron 的写法，如 Et*3|(tt|)*29m|L。",
    "parallelism.pipeline_schedule": "一个阶段上前向与反向传播的顺序。",
    "parallelism.expert_parallel_size": "路由专家所分布的 rank 数；取自数据并行与上下文并行的 rank。",
    "parallelism.expert_tensor_parallel_size": (
        "分担每个路由专家矩阵的 rank 数；torchtitan 已放弃此功能，因此那里只支持 1。"
    ),
    "parallelism.context_parallel_size": "分担一个序列的 rank 数。",
    "parallelism.ulysses_parallel_size": "分担一个序列的 rank 数，在注意力中改为分担各个头（DeepSpeed-Ulysses）。",
    "hardware.accelerator": "GPU，写目录中的 id。",
    "hardware.num_gpus": "整个任务的 GPU 数。",
    "hardware.gpus_per_node": "不经网络即可互相访问的 GPU 数；决定 Megatron 的 rank 打开多少连接。",
    "hardware.gpu_memory_gb": "替代目录中的容量，以 nvidia-smi 所计的 GiB 为单位。",
    "engine.outer_dp_sharding_strategy": "Megatron-FSDP 的各组之间分片什么，用于有多个优化器实例时（HSDP）。",
    "engine.zero_quantized_weights": "ZeRO++（qwZ）：阶段 3 以 8 位聚集参数。",
    "engine.zero_quantized_gradients": "ZeRO++（qgZ）：阶段 3 在节点间以 4 位归约梯度。",
    "engine.partition_activations": "deepspeed.checkpointing 将检查点保存的内容在张量并行 rank 间切分。",
    "engine.cpu_checkpointing": "deepspeed.checkpointing 将检查点保存的内容放在主机内存。",
    "engine.contiguous_memory_optimization": (
        "deepspeed.checkpointing 在保存第一层时就为所有层的部分分配空间：更早，但不更多。"
    ),
}
