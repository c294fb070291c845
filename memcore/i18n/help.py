"""What each setting is, in Chinese; the English is in the schema. Those of engines are in `words_of_engines`."""

from __future__ import annotations

from collections.abc import Mapping

HELP_IN_CHINESE: Mapping[str, str] = {
    "model": "目录中模型的 id 或 hub id，或 Hugging Face config.json 的内容。",
    "training.sequence_length": "每个序列的 token 数。",
    "training.images_per_sequence": (
        "每个序列的图像数，用于带视觉塔的模型；图像 token 计入序列长度。没有图像时视觉塔不运行，其参数没有梯"
        "度和优化器状态（Megatron 仍会分配）。"
    ),
    "training.image_size": "方形图像的边长，以像素计。",
    "training.micro_batch_size": "每块 GPU 每次前向传播的序列数。",
    "training.gradient_accumulation_steps": "每块 GPU 每次优化器更新的微批次数。从第二个微批次起，梯度已经分配。",
    "training.precision": "下面各 dtype 的预设，与引擎的做法一致。",
    "training.parameter_dtype": "优化器所更新参数的 dtype。",
    "training.compute_dtype": "各层计算所用的 dtype，FSDP 也以它 all-gather 参数。FP8 请选预设 fp8-mixed。",
    "training.gradient_dtype": "优化器读取的梯度的 dtype；在 PyTorch 中与参数相同。",
    "training.reduce_dtype": "FSDP 在各 rank 间归约梯度所用的 dtype。",
    "training.master_dtype": "优化器使用的另一份参数副本（主权重），或参数所缺的位；PyTorch 自带的优化器没有。",
    "training.optimizer.name": (
        "Adam 为每个参数保存两个状态；SGD 不保存，带动量时保存一个。8 位状态的大小为 fp32 的四分之一。"
    ),
    "training.optimizer.implementation": "优化器更新的实现；决定更新时需要多少临时显存。",
    "training.optimizer.state_dtype": (
        "Adam 一阶矩和二阶矩的 dtype。PyTorch 与参数相同，其 fused kernel 也支持 bf16。"
    ),
    "training.optimizer.rank": "GaLore 与 APOLLO：梯度先投影到该秩，再计算并保存一阶矩、二阶矩。",
    "training.optimizer.momentum": "SGD 与 RMSprop：大于零时，每个参数保存一个动量值。",
    "training.adapter.type": "要训练的适配器。其余参数全部冻结：没有梯度，也没有优化器状态。",
    "training.adapter.rank": "适配器两个矩阵的秩。",
    "training.adapter.target_modules": (
        "带适配器的线性层，写名称的最后一段；`all-linear` 表示除输出头外的全部线性层。"
    ),
    "training.adapter.modules_to_save": (
        "与适配器一起完整训练的模块：嵌入（`embed_tokens`）或输出头（`lm_head`）。PEFT 训练其副本，并保留冻结的原件。"
    ),
    "training.adapter.target_parameters": "带 LoRA 的专家矩阵，如 `gate_up_proj`。每次前向传播都会创建并保留其副本。",
    "training.adapter.rank_pattern": (
        "各模块的秩，按名称末尾匹配（`q_proj=4`、`layers.0.self_attn.k_proj=16`），取最先匹配的一项。"
    ),
    "training.adapter.layers_to_transform": "带适配器的层的编号，从 0 开始（`24-31`）。",
    "training.adapter.use_rslora": "LoRA 的输出按秩的平方根缩放（rsLoRA），不增加显存。",
    "training.adapter.decompose_factor": "LoKr：第一个矩阵的宽度，须能整除层宽。",
    "training.adapter.block_size": (
        "OFT 与 BOFT：旋转块的大小（`oft_block_size`、`boft_block_size`）；C3A：循环块的大小。"
    ),
    "training.adapter.num_trainable_tokens": "可训练的嵌入行数（PEFT 的 `token_indices`）。",
    "training.adapter.u": "TinyLoRA：每层可训练的数值个数。",
    "training.adapter.n_frequency": "FourierFT：每层可训练的傅里叶系数个数。",
    "training.adapter.init_r": "AdaLoRA 的初始秩。",
    "training.adapter.num_virtual_tokens": "适配器增加的虚拟 token 数。",
    "training.adapter.dtype": "适配器的 dtype。基础模型为半精度时，PEFT 用 fp32；TRL 把量化模型的适配器转为 bf16。",
    "training.adapter.dropout": "适配器的 dropout。大于零时，每个目标层都保存经 dropout 的输入和一个掩码。",
    "training.method.name": ("训练目标。成对比较的方法会同时运行一对中的两个序列，因此微批次大小按对计数。"),
    "training.method.reference": "参考模型的对数概率来自何处。",
    "training.method.completion_length": "每个生成回答的 token 数；GRPO 只为它们计算 logits。",
    "training.method.rollout_share": (
        "更新模型时，同卡的 rollout 推理引擎所占的显存比例（vLLM 未休眠时即 gpu_memory_utilization）。"
    ),
    "training.method.teacher": "冻结的教师模型，被训练的模型向其 logits 学习；两者词表相同。",
    "training.method.reward_model": "更新模型时，与模型同样大小的冻结奖励模型留在 GPU 上（PPO）。",
    "training.method.critic": (
        "更新模型时，与模型同样大小的 critic 把参数与优化器状态留在 GPU 上（PPO；verl 未卸载 critic 时）。"
    ),
    "training.method.entropy": (
        "每个生成 token 的熵是损失的一部分，其梯度覆盖全部 logits（verl 与 OpenRLHF 的 GRPO）。"
    ),
    "training.offload.optimizer": (
        "把优化器状态和更新放到主机上（Megatron 的 HybridDeviceOptimizer、torchao 的 CPUOffloadOptimizer、Dee"
        "pSpeed 的 offload_optimizer）。"
    ),
    "training.offload.optimizer_fraction": "优化器状态放在主机上的参数所占比例。",
    "training.offload.parameters": (
        "把参数放在主机上。FSDP 的 CPU offload 移动分片、梯度和优化器；DeepSpeed ZeRO-3 的 offload_param 移动参数。"
    ),
    "training.offload.activations": "把为反向传播保存的激活值移到主机，用时取回（torchtune、TRL、save_on_cpu）。",
    "training.quantization": "与适配器一起使用的冻结线性层的存储格式：bitsandbytes（QLoRA）或 transformers 的 fp8。",
    "training.fake_quantization": "量化感知训练：线性层在每次前向传播中对输入与权重取整，并保存掩码。",
    "training.trainable": (
        "要训练的参数，写参数名的一段，如 `mlp`、`norm` 或 `lm_head`；其余冻结。"
        "`language-model` 冻结塔和投影器；加上 `projector` 或 `tower` 则一并训练。"
    ),
    "training.gradient_clipping": "按全局范数裁剪梯度；每个参数张量需要一个数，原地缩放。",
    "training.zero_grad": "两次更新之间释放还是保留梯度。",
    "training.activation_checkpointing.policy": "完全重计算只保存每层的输入，反向传播时重新计算该层。",
    "training.activation_checkpointing.mode": "选择性重计算选取的对象：算子、层或层的各部分。",
    "training.activation_checkpointing.every": "每 n 层完全重计算一层，其余层不重计算。",
    "training.activation_checkpointing.method": "Megatron 对哪些层做完全重计算。",
    "training.activation_checkpointing.num_layers": "每组的层数（uniform），或每个流水线块的层数（block）。",
    "training.activation_checkpointing.modules": (
        "Megatron 选择性重计算的模块：core_attn、moe_act、layernorm、mla_up_proj、mlp、moe、shared_experts。"
    ),
    "training.activation_checkpointing.early_stop": "反向传播所需的内容一旦齐备，就停止重计算该层。",
    "training.activation_checkpointing.use_reentrant": (
        "torch.utils.checkpoint 的可重入形式：前向传播不建计算图，反向传播时重新计算整层。"
    ),
    "training.activation_checkpointing.entry": "激活检查点（重计算）的开启方式；两种方式保存的张量相同。",
    "training.implementation": "层的实现；决定为反向传播保存哪些张量。",
    "training.liger_kernels": (
        "用 Liger 的哪些 kernel 替换 transformers 的代码：rope、rms_norm、swiglu。没有 swiglu 时，前馈层"
        "要保存中间结果，它们往往是一层中最大的张量。FMS Acceleration 使用 rope 和 rms_norm。"
    ),
    "training.tiled_mlp": (
        "前馈层沿序列分块计算，反向传播时逐块重计算，与 ArcticTraining（ALST）、axolotl 和 Unsloth 对超长"
        "序列的做法相同。写数字则为块数。"
    ),
    "training.attention": "注意力 kernel；决定注意力保存哪些张量。",
    "training.flash_version": "flash kernel 的版本：3 在 Hopper 上更快。只影响每步时间，不影响显存。",
    "training.attention_mask": "批次是否带填充。有填充掩码时 SDPA 不能用 flash kernel，且键和值要为每个查询头复制。",
    "training.packed_sequences": (
        "把多个文档打包进一个序列，文档之间互不注意：flash 注意力使用长度，其他 kernel 使用掩码。"
    ),
    "training.kernels": "Mamba、线性注意力等循环混合层的 kernel；回退实现所需显存要多出许多倍。",
    "training.loss": "损失的实现。logits 与交叉熵常常就是峰值：每个 token、每个词表项 10 到 14 字节。",
    "training.loss_shift": "在哪里移位标签并计算损失。若在模型内部，此时 FSDP 最后一组 all-gather 的参数仍未释放。",
    "training.outputs_kept": "训练循环在反向传播期间持有模型的输出，包括 logits。",
    "training.compile": "用 torch.compile 编译每个 block。",
    "training.activation_memory_budget": (
        "编译后的 block 可保存的激活值比例；其余由编译器重计算，优先重计算代价最小的。0 表示只保存 block 的输入。"
    ),
    "training.compile_loss": "同时编译损失：此时保存的 logits 不转为 fp32。",
    "training.dropout.hidden": "残差分支的 dropout 概率；大于零时，为每个元素保存一字节的掩码。",
    "training.dropout.attention": "注意力权重的 dropout 概率；只有 eager 注意力会保存掩码。",
    "training.use_cache": "训练时未关闭 Hugging Face 的 use_cache：键和值会被复制到用不到的缓存中。",
    "parallelism.data_parallel_size": "数据并行数：处理不同序列的 rank 数。",
    "parallelism.data_parallel_shard_size": "FSDP 分片所跨的 rank 数；少于全部即为混合分片（HSDP）。",
    "parallelism.tensor_parallel_size": "张量并行数：切分每一层的 rank 数。",
    "parallelism.sequence_parallel": "在注意力和前馈层之外，按张量并行的 rank 切分序列。",
    "parallelism.loss_parallel": "在按词表切分的 logits 上计算损失，不做 all-gather。",
    "parallelism.pipeline_parallel_size": "流水线级数：每级由连续的层组成，使用各自的 GPU。",
    "parallelism.virtual_pipeline_parallel_size": "每个流水线 rank 的虚拟级（层块）数。",
    "parallelism.pipeline_layout": "每级（及虚拟级）的层数，或 Megatron 的写法，如 Et*3|(tt|)*29m|L。",
    "parallelism.pipeline_schedule": "每级上前向与反向传播的顺序。",
    "parallelism.expert_parallel_size": "专家并行数；取自数据并行与上下文并行的 rank。",
    "parallelism.expert_tensor_parallel_size": "切分每个路由专家矩阵的 rank 数。torchtitan 已移除此功能，只支持 1。",
    "parallelism.context_parallel_size": "上下文并行数：切分每个序列的 rank 数。",
    "parallelism.ulysses_parallel_size": "DeepSpeed-Ulysses 的 rank 数：切分序列，在注意力中改为切分注意力头。",
    "hardware.accelerator": "GPU 型号，写目录中的 id。",
    "hardware.num_gpus": "GPU 总数。",
    "hardware.mig": "NVIDIA GPU 切分出的 MIG 实例，例如 3g.40gb。任务只能使用该实例的显存和流式多处理器。",
    "hardware.gpus_per_node": "不经网络互连的 GPU 数；决定 Megatron 的 rank 打开多少连接。",
    "hardware.outside_gb": ("PyTorch 分配器不计入的显存，单位 GiB，由您测得：CUDA 上下文、NCCL、其他进程、显示输出。"),
    "hardware.gpu_memory_gb": "每块 GPU 的显存，单位 GiB，与 nvidia-smi 一致；替代目录中的值。",
    "engine.type": "训练引擎或推理服务。DDP 复制全部；FSDP 切分参数、梯度和优化器状态。",
    "engine.version": (
        "FSDP：1 或 2（FSDP2）。推理服务：版本号，如 0.19.0，默认值随之不同。Megatron：Megatron-Core 的版本，如 0.14。"
    ),
    "engine.moe_load_imbalance": "最繁忙的 rank 的专家收到的 token 数与均匀分布之比。",
    "engine.delay_wgrad_compute": "先算完所有输入梯度，再算权重梯度（使用 FSDP 时仅限路由专家）。",
    "engine.fp8_recipe": "FP8 张量的缩放方案。",
    "engine.moe_expert_capacity_factor": "专家容量与均匀分布之比；超出的 token 被丢弃。",
    "engine.zero_stage": "ZeRO 阶段：1 切分优化器状态，2 还切分梯度，3 还切分参数。",
    "engine.expandable_segments": "PYTORCH_CUDA_ALLOC_CONF 的 expandable_segments:True，可减少碎片。",
    "engine.max_split_size_mb": "PYTORCH_CUDA_ALLOC_CONF 的 max_split_size_mb:N：N MiB 及以上的块不拆分。",
    "engine.roundup_power2_divisions": (
        "PYTORCH_CUDA_ALLOC_CONF 的 roundup_power2_divisions:N：请求向上取整到相邻两个 2 的幂之间的 N 级之一。"
    ),
    "engine.garbage_collection_threshold": (
        "PYTORCH_CUDA_ALLOC_CONF 的 garbage_collection_threshold:X：占用超过这一显存比例后，先释放未用的段再分配新段，"
        "前提是 set_per_process_memory_fraction 设了上限。"
    ),
    "engine.torch_empty_cache_steps": "Trainer 在前向与反向传播之间清空分配器缓存：第一步，以及此后每 N 步一次。",
    "engine.framework": (
        "驱动引擎的训练循环，并采用它的层实现与默认值：torchtitan、torchtune、lit-gpt、trl、megatron-bridge 等。"
        "自写循环（peft、accelerate、lit-gpt）在反向传播期间持有模型输出。"
    ),
    "engine.framework_version": "框架的版本或提交：transformers 4 以 fp32 加载；torchtitan 的层与损失有过变化；"
    "axolotl、LLaMA-Factory、ms-swift、open-instruct 和 TRL 的版本决定 transformers 的版本。",
}
