"""What is said of other tools' files and what was taken from them, in Chinese by the English sentence."""

from __future__ import annotations

from collections.abc import Mapping

OF_FILES_IN_CHINESE: Mapping[str, str] = {
    "LLaMA-Factory computes this loss in its own way": "LLaMA-Factory 以自己的方式计算该损失",
    # Megatron-SWIFT
    "sequences are not packed: each is counted with max_length tokens, and shorter ones need less": (
        "序列未打包：每个按 max_length 个 token 计，较短者所需更少"
    ),
    "max_length is not given: the model's longest sequence": "未给出 max_length：取模型的最长序列",
    "training only the towers is not supported yet": "暂不支持只训练视觉塔",
    "other methods are not supported yet with Megatron-Core": "暂不支持 Megatron-Core 的其他方法",
    "only `megatron sft` and `megatron pt` train": "只有 `megatron sft` 与 `megatron pt` 用于训练",
    "sleep_level is 0: vLLM keeps {share} of the GPU during the update, which is not counted": (
        "sleep_level 为 0：更新期间 vLLM 保留 {share} 的显存，未计入"
    ),
    # torchtitan, torchtune
    "found {size}, which does not divide the {batch} sequences of a rank": (
        "值为 {size}，不能整除每个 rank 的 {batch} 条序列"
    ),
    "{key:s} is {count}: set the number of sharding ranks with --dp-shard": (
        "{key:s} 为 {count}：请用 --dp-shard 给出切分参数的 rank 数"
    ),
    "this recipe generates text instead of training": "此 recipe 用于生成文本，不做训练",
    "this recipe evaluates a model instead of training": "此 recipe 用于评测模型，不做训练",
    "this recipe quantizes a checkpoint instead of training": "此 recipe 用于量化 checkpoint，不做训练",
    "rank needs a whole number": "rank 须为整数",
    "with bf16 weights, bf16 is supported": "权重为 bf16 时支持 bf16",
    "it does not divide {key:s} {batch}": "不能整除 {key:s} 的 {batch}",
    "as many as {model} has with {experts} of its {all} experts, which is assumed": (
        "与 {model} 在 {all} 个专家中保留 {experts} 个时相同，按此计"
    ),
    "ZeRO shards over all data-parallel ranks, so parallelism_config_dp_shard_size has no effect": (
        "ZeRO 在全部数据并行 rank 上切分，因此 parallelism_config_dp_shard_size 不起作用"
    ),
    # NeMo Automodel, verl, OpenRLHF
    "distributed.dp_replicate_size is {count}: set the number of sharding ranks with --dp-shard": (
        "distributed.dp_replicate_size 为 {count}：请用 --dp-shard 给出切分参数的 rank 数"
    ),
    "peft.exclude_modules: memcore also counts adapters on {names}, which overestimates": (
        "peft.exclude_modules：memcore 也计入 {names} 的适配器，结果偏高"
    ),
    "names no checkpoint": "没有指明 checkpoint",
    "kd_ratio is 1: the cross-entropy, which is then left out, is counted all the same": (
        "kd_ratio 为 1：此时不计算的交叉熵仍被计入"
    ),
    "the teacher is counted in the dtype of the model's weights, which teacher_model.torch_dtype is not": (
        "教师模型按模型权重的 dtype 计算，与 teacher_model.torch_dtype 不同"
    ),
    "supported: master weights in float32, and both moments in float32 or in bfloat16": (
        "支持：主权重为 float32，且一阶矩、二阶矩同为 float32 或同为 bfloat16"
    ),
    "no sequence length is given, so it depends on the data": "未给出序列长度，因此取决于数据",
    "dataset.truncation is off, so samples longer than dataset.seq_length are not cut: the longest one decides": (
        "dataset.truncation 未开启，长于 dataset.seq_length 的样本不会被截断：由最长的样本决定"
    ),
    "set its length with --seq": "请用 --seq 给出其长度",
    "model.use_liger_kernel is not given: families without Automodel's own code get Liger's kernels, "
    "which are not counted": (
        "未给出 model.use_liger_kernel：Automodel 没有自有实现的系列会使用 Liger 的 kernel，此处未计入"
    ),
    "set them with --implementation liger": "请用 --implementation liger 指定",
    "attention, norms and feed-forward layers are checkpointed separately, keeping up to four inputs "
    "per layer: counted as whole layers, which keep one": (
        "注意力、归一化与前馈层分别做激活检查点，每层最多保留四个输入：按整层计算，只保留一个"
    ),
    "distributed.defer_fsdp_grad_sync is false: in a pipeline, gradients are counted unsharded until the last "
    "micro-batch all the same, which overestimates": (
        "distributed.defer_fsdp_grad_sync 为 false：流水线中仍按最后一个微批次之前梯度未切分计算，结果偏高"
    ),
    "model.backend.dispatcher is {}: counted as all-to-all with one row per token and expert": (
        "model.backend.dispatcher 为 {}：按每个 token 与专家各占一行的 all-to-all 计算"
    ),
    "supported: true, false, 'full' and 'selective'": "支持 true、false、'full' 与 'selective'",
    "{name} keeps {share} of the GPU during the update": "更新期间 {name} 占用 GPU 的 {share}",
    "verl: only the actor's update is estimated": "verl：只估算 actor 的更新",
    "only the actor's update is estimated": "只估算 actor 的更新",
    "generation and scoring come before it": "生成与打分在此之前",
    "a Megatron-Core actor is not supported yet": "暂不支持用 Megatron-Core 的 actor",
    "the closest is actor.strategy=fsdp2": "最接近的是 actor.strategy=fsdp2",
    "supported: fsdp, fsdp2": "支持 fsdp、fsdp2",
    "each sequence is counted with max_prompt_length + max_response_length tokens": (
        "每个序列按 max_prompt_length + max_response_length 个 token 计"
    ),
    "set the micro-batch size": "请给出微批次大小",
    "sequences are packed up to ppo_max_token_len_per_gpu tokens: counted as one sequence": (
        "多个序列打包到 ppo_max_token_len_per_gpu 个 token：按一个序列计算"
    ),
    "sequences are packed up to {key} tokens: counted as one sequence": "多个序列打包到 {key} 个 token：按一个序列计算",
    "quantization-aware training is not supported yet with this tool": "对这个工具暂不支持量化感知训练",
    "layers that predict further tokens are not supported yet with this tool": "对这个工具暂不支持预测更多 token 的层",
    "tiled feed-forward layers are not supported yet with this tool": "对这个工具暂不支持分块计算的前馈层",
    "an adapter from a file is not supported yet": "暂不支持来自文件的适配器",
    "describe it with model.lora_rank": "请用 model.lora_rank 描述",
    "sequences are packed up to --train.max_tokens_per_gpu tokens: counted as one sequence": (
        "多个序列打包到 --train.max_tokens_per_gpu 个 token：按一个序列计算"
    ),
    "{folder} is assumed to be {model}, from the folder's name": "按文件夹名，{folder} 视为 {model}",
    "found {value}: this command generates instead of training": "值为 {value}：此命令用于生成，不做训练",
    "patterns are supported only if they are plain module names": "模式仅支持纯模块名",
    "takes its arguments from a command line": "从命令行取参数",
    "pass the command in a file, or as - on standard input": "请把命令写在文件里，或用 - 从标准输入传入",
    "the script's arguments come from its command line: memcore read the command quoted in the script": (
        "脚本的参数来自命令行：memcore 读取的是脚本文字中给出的命令"
    ),
    "looks like a {tool} file, but {count} of its keys are not that tool's: {keys}": (
        "看似 {tool} 的文件，但其中 {count} 个键不属于该工具：{keys}"
    ),
    "describe the job with flags": "请用命令行参数描述任务",
    "found {value}, a variable whose value the file does not give": "值为变量 {value}，文件中没有给出它的值",
    "write the value in its place": "请在此处写上取值",
    "adapters of {names} are counted as those of {together}, one matrix in transformers": (
        "{names} 的适配器按 {together} 的处理：在 transformers 中它们是一个矩阵"
    ),
    "device_train_microbatch_size is auto, the largest that fits: `memcore solve --for micro-batch` finds it": (
        "device_train_microbatch_size 为 auto，即放得下的最大值：`memcore solve --for micro-batch` 可求出"
    ),
    "1 is assumed": "按 1 计",
    "MPT is counted as a GPT-2 of the same sizes, which has the same layers": "MPT 按同尺寸的 GPT-2 计算，两者的层相同",
    "supported: mpt_causal_lm, hf_causal_lm": "支持 mpt_causal_lm、hf_causal_lm",
    "leave it out and give the nearest, {flag:s} {value:s}": "请去掉它并改用最接近的 {flag:s} {value:s}",
    "this value is not supported yet": "暂不支持这个值",
    "adapters on all linear layers are supported": "支持在所有线性层上的适配器",
    # Methods
    "prompts of {tokens} tokens are assumed": "假定提示词为 {tokens} 个 token",
    "vLLM keeps {share} of the GPU during the update": "更新期间 vLLM 占用 GPU 的 {share}",
    "{key} is a key of {method}, so this method is assumed": "{key} 是 {method} 的键，因此按该方法处理",
    "only the update is counted, not generation": "只计更新，不计生成",
    "texts are cut to {length} tokens before the trainer gets them": "文本在交给训练器之前已截断到 {length} 个 token",
    "the prompt's length is not read: the longest that fits the model is counted": "提示词长度未读出：按最长计",
    "what is not linear trains next to LoRA, which is not supported yet": "LoRA 之外的非线性层也参与训练，暂不支持",
    "add --only_optimize_lora": "请加上 --only_optimize_lora",
    "texts that are generated at once are not read: one is counted": "同时生成多少条文本未能读出：按一条计",
    "tokens to generate are not read": "生成多少个 token 未能读出",
    "{key}: the longest of several is counted: {length}": "{key}：有多个值，按最长的 {length} 计",
    # Keys that became no setting
    "It describes {count} jobs": "其中描述了 {count} 个任务",
    "It has {count} commands for {jobs} jobs": "其中有 {count} 条命令，即 {jobs} 个任务",
    "append its number to the file name, as in FILE#2, or keep only one: {commands}": (
        "请在文件名后写上编号选择一条（如 FILE#2），或只保留一条：{commands}"
    ),
    "{count} commands describe the same job": "{count} 条命令描述同一任务",
    "found #{number}": "编号为 #{number}",
    "it has {count} commands": "其中有 {count} 条命令",
    "is a notebook that neither trains nor serves with a supported library": (
        "是 notebook，但没有用受支持的库做训练或推理"
    ),
    "is not Python: line {line}: {what}": "不是 Python：第 {line} 行：{what}",
    "is longer than {count} characters": "超过 {count} 个字符",
    "is nested too deeply to be read": "嵌套过深，无法读取",
    "is called with different arguments in lines {lines}": "在第 {lines} 行以不同参数调用",
    "keep one of them": "请只保留一处",
    "line {line}: arguments of {call} are in {name}, which is not a literal: ignored": (
        "第 {line} 行：{call} 的参数在 {name} 中，不是字面量：已忽略"
    ),
    "adapters on only some layers are not supported yet": "暂不支持只在部分层上使用适配器",
    "name modules": "请给出模块名",
    "supported: 'none'": "支持：'none'",
    "is a file of sentence-transformers": "是 sentence-transformers 的文件",
    "add the config.json of the same folder": "请添加同一文件夹中的 config.json",
    "has no effect on memory": "不影响显存",
    "is a file of sentence-transformers: the config.json of its folder is read without a language-model head": (
        "是 sentence-transformers 的文件：同一文件夹的 config.json 按不带语言模型输出头读取"
    ),
    "lists {count} tensors of {bytes} bytes": "列出 {count} 个张量，共 {bytes} 字节",
    "lists {count} tensors of {bytes} bytes ({dtypes})": "列出 {count} 个张量，共 {bytes} 字节（{dtypes}）",
    "no catalog model has that many: add its config.json after this file": (
        "目录中没有模型与之相符：请在此文件后加上其 config.json"
    ),
    "{model} by its name": "按其名称为 {model}",
    "within {bytes} bytes of {model}, which is assumed": "与 {model} 相差 {bytes} 字节，因此按该模型计算",
    "{flag} {value} is read as {other} {meaning}": "{flag} {value} 按 {other} {meaning} 读取",
    "{key}: {name} is counted as one layer with the model's own widths": "{key}：{name} 按与模型同宽的一层计算",
    "{key}: {name} is counted as layers with the model's own widths, with the layer count of published heads": (
        "{key}：{name} 按与模型同宽的若干层计算，层数与已发布的一致"
    ),
    "{key}: {size} GiB of host memory per GPU, no GPU memory": ("{key}：每块 GPU 占用 {size} GiB 主机内存，不占显存"),
    "{key}: as many layers as the patterns match are counted, from the first one on": (
        "{key}：按模式匹配的层数计算，从第一层算起"
    ),
    "{key}: {size} MiB of host memory for the prompt cache, no GPU memory": (
        "{key}：{size} MiB 主机内存用于提示词缓存，不占显存"
    ),
    "found in line {line}": "位于第 {line} 行",
    "line {line}: parameters that it freezes are counted as trained": "第 {line} 行：其冻结的参数按可训练计算",
    "{script} is not read, and adapters and few bits that it sets by itself are not counted": (
        "未读取 {script}，其自行设置的适配器和低比特量化不计入"
    ),
    "describe them with {adapter} and {quantization}": "请用 {adapter} 和 {quantization} 描述",
    "name what trains with {path}": "请用 {path} 指明训练的部分",
    "{keys} has no effect with tuner_type {kind}": "{keys:s} 在 tuner_type {kind} 下无效",
    "the script has a training loop of its own: read as the Trainer's": "脚本有自己的训练循环：按 Trainer 读取",
    "what its loss allocates is not read": "未读取其损失函数的分配",
    "line {line}: only the run decides on {name}: it is counted": "第 {line} 行：{name} 由运行时决定：按执行计算",
    "line {line}: not read: {statement}": "第 {line} 行：未读取：{statement}",
    "line {line}: not read of {name}: {arguments}": "第 {line} 行：未读取 {name} 的：{arguments}",
    "line {line}: it names no dtype: fp32 weights are counted, as transformers 4 loads them": (
        "第 {line} 行：未指明 dtype：按 fp32 权重计算，与 transformers 4 的加载方式相同"
    ),
    "transformers 5 loads them as the checkpoint stores them": "transformers 5 按 checkpoint 存储的 dtype 加载",
    "its adapter in line {line} is in another file: describe the adapter with {path}": (
        "第 {line} 行的适配器在另一个文件中：请用 {path} 描述适配器"
    ),
    "zero_stage has no effect without --use_deepspeed: accelerate's file shards with FSDP": (
        "没有 --use_deepspeed 时 zero_stage 不起作用：accelerate 的文件使用 FSDP 切分"
    ),
    "its config in line {line} is not known": "第 {line} 行的配置未知",
    "leave it out to count 16-bit weights": "若去掉此项，则按 16 位权重计算",
    "describe the adapter with {path}": "请用 {path} 描述适配器",
    "line {line}: {function} names the layers with adapters: all linear ones are assumed": (
        "第 {line} 行：带适配器的层由 {function} 列出：假定为所有线性层"
    ),
    "RLOO's update has the tensors of GRPO's, and is counted as one": "RLOO 的更新与 GRPO 的张量相同，按 GRPO 计算",
    "is a Python script, which is not run": "是 Python 脚本，不会执行",
    "is a recipe of NeMo in Python, which is not run": "是 NeMo 的 Python 配方，不会执行",
    "pass `nemo llm pretrain --factory {name}`": "请改为提供 `nemo llm pretrain --factory {name}`",
    "is a recipe whose model stands elsewhere": "是配方，但其模型写在别处",
    "pass `nemo llm pretrain --factory NAME` with overrides": (
        "请改为提供 `nemo llm pretrain --factory NAME` 及要覆盖的键"
    ),
    "{name:s} does not say its format: Q4_K_M is assumed": "{name:s} 未注明格式：假定为 Q4_K_M",
    "set it with --quantization": "请用 --quantization 指定",
    "name the model of this folder with --model, or give its config.json": (
        "请用 --model 给出该文件夹对应的模型，或提供其 config.json"
    ),
    "supported: a whole number N, for every N-th layer": "支持：整数 N，即每 N 层一次",
    "pass the config that it generates": "请给出它生成的配置",
    "{keys}: auto, which the Trainer derives from the hidden size": "{keys}：auto，由 Trainer 按隐藏维度换算",
    "no known release of {tool} has this key": "{tool} 的已知版本都没有这个键",
    "leave it out, or pass --ignore {key:s}": "请将其删去，或加 --ignore {key:s}",
    "ignored, as you asked, so the answer is for the job without it: {keys}": (
        "按要求忽略，结果按没有它的任务计：{keys}"
    ),
    "found {value}, which is not supported yet": "值为 {value}，暂不支持",
    "supported here: {values}": "支持：{values}",
    "is a template": "是模板",
    "pass the output of `helm template`": "请给出 `helm template` 的输出",
    "model.flavor: the sizes of {flavor} of {name} are unknown": "model.flavor：{name} 的 {flavor} 各项尺寸未知",
    "name the model with --model": "请用 --model 指定模型",
    "{keys}: only for stage 3, no effect": "{keys}：仅用于 stage 3，不起作用",
    "gives {script} its options: {options}": "为 {script} 提供选项：{options}",
    "what the script makes of its options is not read: {names}": "脚本由选项得出的值未读取：{names}",
    "lora_target_modules: DEFAULT is {names}, as for models like Llama": (
        "lora_target_modules：DEFAULT 为 {names}，与 Llama 类模型相同"
    ),
    "supported: ALL, DEFAULT and names of layers": "支持：ALL、DEFAULT 和层的名称",
    "{key}: {length} has no effect, as the dataset of the recipe keeps its own length": (
        "{key}：{length} 不起作用，因为配方的数据集保持自己的长度"
    ),
    "set {key}": "请设置 {key}",
    "a loop starts this {count} times: one of them is read": "循环将其启动 {count} 次：只读取其中一次",
    "only launches {names}": "仅用于启动 {names}",
    "config_file: {name} is a separate file": "config_file：{name} 是另一个文件",
    "is MLX's, which no supported server or trainer loads": "是 MLX 的格式，所支持的服务器和训练器都不能加载",
    "give the original model": "请给出原模型",
    "a file of {tool} needs {value}": "{tool} 的文件需要 {value}",
    "a file of {tool} needs it": "{tool} 的文件需要它",
    "fsdp_config: {name} is a separate file": "fsdp_config：{name} 是另一个文件",
    "its content is not read": "未读取其内容",
    "found {option}:{value}, which PyTorch does not accept": "值为 {option}:{value}，PyTorch 不接受",
    "layers are spread over the GPUs of a process, which is not supported yet": (
        "各层分布在同一进程的多块 GPU 上，暂不支持"
    ),
    "set NPROC_PER_NODE to {count}": "请将 NPROC_PER_NODE 设为 {count}",
    "a teacher that is the model itself, or behind a server, is not supported yet": (
        "暂不支持以模型自身或服务器作为教师模型"
    ),
    "{flag}: FP8 weights are the rollout engine's": "{flag}：FP8 权重属于 rollout 引擎",
    "those that train are counted in bf16": "训练的权重按 bf16 计入",
    "a teacher in host memory is not supported yet": "暂不支持放在主机内存中的教师模型",
    "teacher_deepspeed: the teacher is counted as sharded as the model is": (
        "teacher_deepspeed：教师模型按与模型相同的切分方式计入"
    ),
    "no dtype is given: weights are counted in fp32, as transformers 4 loads them": (
        "未给出 dtype：权重按 transformers 4 的加载方式计为 fp32"
    ),
    "transformers 5 keeps the checkpoint's dtype, which dtype: auto says": (
        "transformers 5 保留检查点的 dtype，可写作 dtype: auto"
    ),
    "no dtype is given: weights are counted in the checkpoint's, as transformers 5 loads them": (
        "未给出 dtype：权重按 transformers 5 的加载方式计为检查点的 dtype"
    ),
    "transformers 4 loads them in fp32: --precision fp32": "transformers 4 以 fp32 加载：--precision fp32",
    "weights are counted in the checkpoint's dtype, as transformers 5 loads them": (
        "权重按 transformers 5 的加载方式计为检查点的 dtype"
    ),
    "transformers 4 loads them in fp32, which doubles parameters, gradients and states: set engine.framework_version": (
        "transformers 4 以 fp32 加载，参数、梯度和优化器状态翻倍：请设置 engine.framework_version"
    ),
    "{key:s} is given, but nothing turns the adapter on: an adapter is assumed": (
        "给出了 {key:s}，但没有开启适配器的选项：视为使用适配器"
    ),
    "dataset_kwargs.skip_prepare_dataset: sequences are as long as the data's": (
        "dataset_kwargs.skip_prepare_dataset：序列长度由数据决定"
    ),
    "the trainable layers are listed in another file": "要训练的层写在另一个文件中",
    "name them with --trainable": "请用 --trainable 写明",
    "{key:s} names {method:s}, so this method is assumed": "{key:s} 中含有 {method:s}，因此视为使用该方法",
    "NeMo 1 configs of other models than GPTs are not supported yet": "暂不支持 GPT 以外模型的 NeMo 1 配置",
    "megatron_amp_O2 is off: parameters in fp32 with autocast's copies in 16 bits are counted as parameters in 16 bits "
    "with a copy in fp32, which are as many bytes": (
        "megatron_amp_O2 关闭：fp32 参数及 autocast 的 16 位副本按 16 位参数及 fp32 副本计入，两者字节数相同"
    ),
    "distributed_fused_adam of Apex is counted as Megatron-Core's distributed optimizer": (
        "Apex 的 distributed_fused_adam 按 Megatron-Core 的分布式优化器计入"
    ),
    "Megatron-DeepSpeed scripts are not supported yet": "暂不支持 Megatron-DeepSpeed 的脚本",
    "describe the job with flags and --engine {engine:s}": "请用命令行参数和 --engine {engine:s} 描述任务",
    "its settings are in another file, which it only names: {files:s}": (
        "配置在另外的文件中，这里只给出了文件名：{files:s}"
    ),
    "pass that file": "请提供该文件",
    "{key} is {ranks}, which does not divide the number of GPUs, {world}: verl stops": (
        "{key} 为 {ranks}，GPU 数 {world} 不是它的倍数：verl 会停止"
    ),
    "max_source_length and max_target_length: {tokens} tokens together": (
        "max_source_length 与 max_target_length：合计 {tokens} 个 token"
    ),
    "with {switch:s}, supported: {names:s}": "使用 {switch:s} 时支持 {names:s}",
    "supported: full, lora, qlora": "支持 full、lora、qlora",
    "only objects of known classes are read, and not {keys}": "只读取已知类的对象，未读取 {keys}",
    "model.flavor {flavor} is not one of {known}: name the model with --model": (
        "model.flavor {flavor} 不在 {known} 之中：请用 --model 指定模型"
    ),
    "model.flavor {flavor}: attention within blocks is counted as attention to all tokens": (
        "model.flavor {flavor}：块内注意力按对全部 token 的注意力计算"
    ),
    "pass the config_registry.py that has it, or one of {names}": (
        "请提供含有它的 config_registry.py，或使用 {names} 之一"
    ),
    "FP8 weights and inputs that TransformerEngine saves are not supported yet": (
        "暂不支持 TransformerEngine 保存的 FP8 权重与输入"
    ),
    "without it, bf16 is counted": "去掉它时按 bf16 计算",
    "with peft, float8 products are not supported yet": "暂不支持与 peft 同用 float8 矩阵乘",
    "fp8.recipe_name rowwise_with_gw_hp: gradients of weights are counted as float8 products too": (
        "fp8.recipe_name 为 rowwise_with_gw_hp：权重梯度也按 float8 矩阵乘计算"
    ),
    "fp8.filter_fqns does not list lm_head: its float8 product is not counted": (
        "fp8.filter_fqns 未列出 lm_head：其 float8 矩阵乘不计入"
    ),
    "fp8.filter_fqns: {names} are counted as float8 products too": "fp8.filter_fqns：{names} 也按 float8 矩阵乘计算",
    "without it, the head of the whole vocabulary is counted, which is larger": (
        "不设置时按整个词表的输出层计算，占用更大"
    ),
    "{key}: not read by the recipe {recipe}, so it has no effect": "{key}：recipe {recipe} 不读取它，因此不起作用",
    "model.config.mtp_num_layers is {count}: layers that predict further tokens are not counted": (
        "model.config.mtp_num_layers 为 {count}：预测后续 token 的层未计入"
    ),
    "dropped tokens are not supported for NeMo yet": "NeMo 任务暂不支持丢弃 token",
    "training a reward model on the same GPUs is not supported yet": "暂不支持在相同 GPU 上训练奖励模型",
    "splitting over nodes is not supported yet, only 'tensor' is": "暂不支持多节点：仅支持 tensor",
    "fast_inference: vLLM's cache is not counted": "fast_inference：不计 vLLM 的缓存",
    "its name suggests FSDP {version}": "由文件名推断为 FSDP {version}",
    "how it splits work across GPUs is unknown": "其如何在 GPU 间切分任务未知",
    "is a file that merges an adapter, not a training job": "这是合并适配器的文件，不是训练任务",
    "this method is not supported yet": "暂不支持此方法",
    "supported: 'lora', 'oft' and 'full'": "支持 'lora'、'oft' 与 'full'",
    "supported: 'lora', or leave it out for full fine-tuning": "支持 'lora'；全量微调则不写",
    "{recipe}: the recipe's own settings are unknown": "{recipe}：配方自身的设置未知",
    "memcore read only what the command overrides": "memcore 只读取了命令覆盖的键",
    "LLaMA-Factory with Megatron-Core is not supported yet": "暂不支持 LLaMA-Factory 配合 Megatron-Core",
    "describe the job with flags and --engine megatron": "请用命令行参数和 --engine megatron 描述任务",
    "supported: 'ulysses'": "支持 'ulysses'",
    "task_type: {task}: {said}": "task_type：{task}：{said}",
    "each row is counted as two sequences: the anchor and one positive": "每行数据按两条序列计算：锚点与一个正例",
    "each row is counted as two sequences: the query and one document": "每行数据按两条序列计算：查询与一篇文档",
    "for more, raise the micro-batch size": "更多时请增大微批次",
    "packed answers and mismatched ones make passes of their own: half of max_length is counted": (
        "打包的回答与错配的回答各自前向：按 max_length 的一半计算"
    ),
    "log-probabilities of vocabulary shards are counted as a supervised loss": (
        "按词表切分的对数概率按监督训练的损失计算"
    ),
    "read together as one config, in which later files override earlier ones: {names}": (
        "合并为一份配置，后面的文件优先：{names}"
    ),
    "defaults lists files that were not given: {names}": "defaults 中列出的文件没有给出：{names}",
    "{keys}: trains in full next to the adapters, which is not counted": "{keys:s}：与适配器一起完整训练，未计入",
    "adapters of another rank on the tower are not supported yet": "暂不支持视觉塔上秩不同的适配器",
    "dataset_kwargs.skip_prepare_dataset: sequences are as long as the data's, up to max_length": (
        "dataset_kwargs.skip_prepare_dataset：序列与数据一样长，至多 max_length"
    ),
    "add them": "请一并给出",
    "{file} is not given: EasyR1 0.3's own is assumed": "未给出 {file}：按 EasyR1 0.3 自带的文件处理",
    "pass that file as well": "请一并给出该文件",
    "pass that file as well, and those that it names": "请一并给出该文件及它提到的文件",
    "supported: 1": "支持 1",
    "Megatron-FSDP is not supported yet with this tool": "对这个工具暂不支持 Megatron-FSDP",
    "num_labels: {labels} outputs of the head are counted as one": "num_labels：输出头的 {labels} 个输出按一个计算",
    "train_prm: the loss takes the logits of placeholders alone, and is counted as that of all tokens": (
        "train_prm：损失只用占位符位置的 logits，按全部 token 的损失计入"
    ),
    "the critic stays on the GPU during the actor's update, and is counted as large as the actor": (
        "更新 actor 时 critic 留在 GPU 上，按与 actor 同样大小计算"
    ),
    "supported: activation_dtype int8 with weight_dtype int4": "支持：activation_dtype int8 与 weight_dtype int4",
    "leave qat out to estimate without rounding": "去掉 qat 以不计取整",
    "only a decoder with adapters ('lora') is supported": "仅支持带适配器（'lora'）的解码器",
    "describe the job with flags otherwise": "其余情况请用命令行选项描述任务",
    "{keys}: adapters outside the decoder are not counted": "{keys}：解码器之外的适配器未计入",
    "losses of several kinds at once are not supported yet": "暂不支持同时使用多种损失",
    "the closest is --method dpo": "最接近的是 --method dpo",
    "applies to GRPO in {frameworks}, so leave it out here": "仅适用于 {frameworks} 的 GRPO，此处请去掉",
    "slime: only the actor's update is estimated": "slime：只估算 actor 的更新",
    "sequences are packed up to {key} tokens per GPU: counted as one sequence": (
        "每个 GPU 上的序列打包到至多 {key} 个 token：按一个序列计算"
    ),
    "{key} is not given: prompts are not counted": "未给出 {key}：未计入提示词",
    "{key}: the softmax and the gradient of the entropies are not counted": "{key}：熵的 softmax 与梯度未计入",
    "the critic is not on the actor's GPUs during its update": "更新 actor 时 critic 不在其 GPU 上",
    "the reward model stays on the GPU, and is counted as large as the model": (
        "奖励模型留在 GPU 上，按与模型同样大小计算"
    ),
    "a sequence is a prompt of cutoff_len {} and an answer of max_new_tokens {} tokens": (
        "每个序列由 cutoff_len {} 个 token 的提示与 max_new_tokens {} 个 token 的回答组成"
    ),
    "supported: {one} with loss {first}, {other} with loss {second}": (
        "支持：loss 为 {first} 时用 {one}，loss 为 {second} 时用 {other}"
    ),
    "layers are counted as torchtitan's, whose tokens DeepEP sends to experts as axolotl's plugin does": (
        "各层按 torchtitan 的实现计算：与 axolotl 的插件一样，由 DeepEP 把 token 发送给专家"
    ),
    "with adapter, expert parallelism is not supported yet": "暂不支持专家并行与 adapter 同用",
    "name the modules": "请写出模块名",
    "modules_to_save: only adapters save modules, so it has no effect": (
        "modules_to_save：只有适配器才保存模块，因此不起作用"
    ),
    "supported: causal_lm, seq_cls, embedding, reranker, generative_reranker": (
        "支持 causal_lm、seq_cls、embedding、reranker、generative_reranker"
    ),
    "task_type {task}: texts are counted in pairs": "task_type {task}：文本成对计入",
    "further negatives need more": "更多负样本所需更多",
    "supported: 'lora' and 'full'": "支持 'lora' 与 'full'",
    "{method} is not supported yet": "暂不支持 {method}",
    "this pattern is not supported": "暂不支持这种模式",
    "name the layers in a list": "请用列表写出各层名称",
    "the closest is {method}": "最接近的是 {method}",
    "with GKD, Liger's loss is not supported yet": "暂不支持 GKD 使用 Liger 的损失",
    "without it, all logits are counted": "去掉它时按全部 logits 计算",
    "the loss is counted over all tokens, although the trainer leaves out prompts": (
        "损失按全部 token 计算，而训练器不含提示部分"
    ),
    "its loss is not supported yet": "暂不支持其损失",
    "a key of TRL's {method}, which is not supported yet": "这是 TRL 的 {method} 的键，暂不支持",
    "supported: 'fsdp2' and 'deepspeed'": "支持 'fsdp2' 与 'deepspeed'",
    "found {program}, which does not train": "找到 {program}，它不做训练",
    "supported: `llamafactory-cli train`": "支持 `llamafactory-cli train`",
    "supported: `swift sft` or `swift pt`": "支持 `swift sft` 或 `swift pt`",
    "a file for `llamafactory-cli export` or `chat`, not a training job": (
        "这是 `llamafactory-cli export` 或 `chat` 的文件，不是训练任务"
    ),
    "{key} may affect memory but is not supported yet: ignored": "{key} 可能影响显存，但暂不支持：已忽略",
    "no effect on memory: {keys}": "不影响显存：{keys}",
    "no adapter is set, so {keys} has no effect": "未设置适配器，{keys} 不起作用",
    "the default of {tool}": "{tool} 的默认值",
    "read, and changes nothing: the job is the same without it": "已读取，但没有影响：去掉它，任务不变",
    "off, unset or left to the tool": "已关闭、未设置，或由工具自行决定",
    "memory does not depend on it": "显存与它无关",
    "may affect memory but is not supported yet: ignored": "可能影响显存，但暂不支持：已忽略",
    "is not recognized and was ignored": "无法识别，已忽略",
    "found {value}, which the script does not set": "值为 {value}，脚本中没有设置它",
    "set it with --set": "请用 --set 给出",
    "{flag}: {path} is assumed to be {base}, from its name": "{flag}：按文件名，{path} 视为 {base}",
    "{wider} is computed as {usual}: such files keep some tensors in wider types, a few percent more": (
        "{wider} 按 {usual} 计算：这类文件有些张量位数更多，总大小多百分之几"
    ),
    "give it with --{flag}, or its variables with --set": "请用 --{flag} 给出，或用 --set 给出其中的变量",
    "train.max_seq_length is not set, so the sequence length depends on the data": (
        "未设置 train.max_seq_length，序列长度因此取决于数据"
    ),
    "tokenizer.max_seq_len is not set, so the sequence length depends on the data": (
        "未设置 tokenizer.max_seq_len，序列长度因此取决于数据"
    ),
    "set the length with --seq": "请用 --seq 给出长度",
    "known builders: {names}": "已知的构建函数：{names}",
    "torchao's NF4 with 8-bit scales is counted as bitsandbytes' NF4 with double quantization": (
        "torchao 的 NF4（缩放因子为 8 位）按 bitsandbytes 的双重量化处理"
    ),
    "torchtune is supported for full fine-tuning and LoRA": "torchtune 支持全量微调与 LoRA",
    "settings that the job does not give come from NeMo's recipe {recipe}": "任务未给出的设置取自 NeMo 配方 {recipe}",
    "NeMo's recipes: {recipes}": "NeMo 的配方：{recipes}",
    "{kind} of {recipe} is not supported": "不支持 {recipe} 的 {kind}",
    "its recipes: {kinds}": "该配方有：{kinds}",
    "it names the recipe, as in --factory llama3_8b": "它指明配方，例如 --factory llama3_8b",
    "arguments are written NAME=VALUE": "参数写作 NAME=VALUE",
    "memcore reads only values written in the script": "memcore 只读取脚本中写明的值",
    "it changes the recipe's network: describe the model with --model": "它会改变配方的网络：请用 --model 描述模型",
    "known classes: {names}": "已知的类：{names}",
    "only the command names the method": "训练方法只写在命令里",
    "`llamafactory-cli sft` is assumed, while `dpo` and `rm` take more memory": (
        "按 `llamafactory-cli sft` 估算，`dpo` 与 `rm` 需要更多显存"
    ),
    "only `llamafactory-cli dpo` reads it: packing a pair into one sequence is not supported yet": (
        "只有 `llamafactory-cli dpo` 读取它，暂不支持它把一对回答放进同一序列的做法"
    ),
    "Hydra composes these files into one": "Hydra 会把这些文件合成一份",
    "pass them as well, or the composed config (`python SCRIPT --cfg job`)": (
        "请一并给出这些文件，或给出合成后的配置（`python SCRIPT --cfg job`）"
    ),
    "found {model}: this file only evaluates with prime-rl, which trains nothing": (
        "为 {model}：该文件只用 prime-rl 做评估，不做训练"
    ),
    "where the file says nothing, prime-rl {version}'s defaults hold": "文件未写之处按 prime-rl {version} 的默认值",
    "model.ac_offloading.max_inflight_activations: {count} tensors on their way are counted, as prime-rl usually has": (
        "model.ac_offloading.max_inflight_activations：按 prime-rl 通常的 {count} 个传输中的张量计算"
    ),
    "model.fused_lm_head_token_chunk_size: {count} tokens at a time are counted, the default of prime-rl {version}": (
        "model.fused_lm_head_token_chunk_size：按 prime-rl {version} 默认的每次 {count} 个 token 计算"
    ),
    "model.fused_lm_head_token_chunk_size: the loss of logits is counted as a cross-entropy": (
        "model.fused_lm_head_token_chunk_size：logits 的损失按交叉熵计算"
    ),
    "found {count}, which is not a multiple of {gpus} GPUs times micro_batch_size {size}": (
        "为 {count}，不是 {gpus} 个 GPU 乘以 micro_batch_size {size} 的倍数"
    ),
    "adapters of routed experts are not supported yet": "暂不支持路由专家的适配器",
    "leave experts out": "请去掉 experts",
    "answers are packed to rows of seq_len tokens, of which a rank is taken to have several in a step": (
        "回答打包成 seq_len 个 token 的行；按每个 rank 每步有多行计算"
    ),
    "prime-rl's own experts are counted as those of transformers": "prime-rl 自己的专家按 transformers 的专家计算",
    "NeMo Automodel trains a draft model for speculative decoding with it, which is not supported yet": (
        "NeMo Automodel 用它训练投机解码的草稿模型，暂不支持"
    ),
    "to serve the model with one, set --speculative-method and --draft": (
        "若要带草稿模型部署，请设置 --speculative-method 与 --draft"
    ),
    "a Lightning class does not describe its network": "Lightning 的类没有说明网络结构",
    "Lightning's Trainer does not describe the network": "Lightning 的 trainer 没有说明网络结构",
    "describe the job with --model and --seq": "请用 --model 与 --seq 描述任务",
    "fake quantization is supported for Int8DynActInt4WeightQATQuantizer": (
        "伪量化仅支持 Int8DynActInt4WeightQATQuantizer"
    ),
    "without quantizer, the run is estimated without fake quantization": (
        "去掉 quantizer 后，估算的是同一任务不做量化时的显存"
    ),
    "the recipe is not named: a single-device recipe is assumed": "未写明 recipe：按单设备处理",
    "learning rate, schedule or seed: no effect on tensor sizes": ("学习率、调度或随机种子：不影响张量大小"),
    "data and tokenization before batching": "组成批次之前的数据与分词",
    "logs, checkpoints on disk, and profiles": "日志、磁盘上的 checkpoint 与性能分析",
    "which allocator hands out memory, not how much of it": "由哪个分配器分配显存，不影响用量",
    "evaluation and generation between steps, or sampling of single tokens": (
        "步与步之间的评测与生成，或单个 token 的采样"
    ),
    "hosts, processes and request arrival": "主机、进程与请求的到达方式",
    "read, directly or together with other keys": "已读取：直接读取，或与其他键共同决定",
    "may affect memory but is not supported yet: ignored, with a note that names it": (
        "可能影响显存，暂不支持：忽略并列出名称"
    ),
    "changes the job but is not supported yet: an error that names the key, unless it is off": (
        "会改变任务本身，暂不支持：除非已关闭，否则报错并指出该键"
    ),
    "transformers' Trainer fills in auto": "transformers 的 Trainer 填入 auto 的值",
    # What several keys mean together
    "found {value}, which {ranks} data-parallel ranks with {each} sequences each do not divide": (
        "值为 {value}，不能被 {ranks} 个数据并行 rank、每个 {each} 条序列整除"
    ),
    "found {value}, which times {stages} stages does not divide the {layers} layers": (
        "值为 {value}：乘以 {stages} 级后不能整除 {layers} 层"
    ),
    "the number of GPUs is not given": "未说明 GPU 数",
    "set it with --gpus": "请用 --gpus 给出",
    "{keys} is {count}, which is not divisible by the group sizes: ignored": (
        "{keys} 为 {count}，不能被各组大小整除：已忽略"
    ),
    "{key} is ignored: converting it to micro-batches needs the number of GPUs": (
        "{key} 已忽略：换算成微批次数需要知道 GPU 数"
    ),
    "{path} is {value}: the default of {tool}": "{path} 为 {value}：{tool} 的默认值",
    "{key} is not recognized and was ignored": "{key} 无法识别，已忽略",
    "did you mean {key}?": "是否指 {key}？",
    "read as {flags}": "读作 {flags:s}",
    "{name} may also mean {boards}": "{name:s} 也可能指 {boards}",
    "found {name}, which is a size": "发现 {name}，这是参数规模",
    "name a model of `memcore models {size}`": "请从 `memcore models {size:s}` 中选一个模型",
    "`memcore quick {size}` takes a size": "`memcore quick {size:s}` 只需规模",
    "not read: {words}": "未识别：{words:s}",
    "say it with a flag, if it matters": "若有影响，请改用参数说明",
    "found {text}, which names no model": "发现 {text}，其中没有模型",
    "add one, as in {example}": "请加上模型，例如 {example}",
    "read as a file of {tool}": "按 {tool} 的文件读取",
    "read as a command of {tool}": "按 {tool} 的命令读取",
    "transformers.TrainingArguments and TRL": "transformers.TrainingArguments 与 TRL",
    "several processes without FSDP or DeepSpeed: treated as DDP": "多个进程且未用 FSDP 或 DeepSpeed：按 DDP 处理",
    "lora_target_modules: PEFT has no default for {family}": "lora_target_modules：PEFT 对 {family} 没有默认值",
    "treated as all-linear": "按 all-linear 处理",
    "target_modules: not given": "target_modules：未给出",
    "PEFT's defaults depend on the model": "PEFT 的默认值取决于模型",
    "name them with --adapter-targets": "请用 --adapter-targets 给出",
    "lora_target_modules: not given": "lora_target_modules：未给出",
    "PEFT's defaults for {family}: {names}": "PEFT 对 {family} 的默认值：{names}",
    "bnb_4bit_quant_storage: 4-bit weights are taken to be packed in floats, which FSDP shards": (
        "bnb_4bit_quant_storage：视 4 位权重为打包在浮点数中，FSDP 会切分它们"
    ),
    "in integers, as where nothing is said, FSDP1 does not start": "若打包在整数中（未写明时即如此），FSDP1 无法启动",
    "bnb_4bit_quant_storage: FSDP2 leaves all 4-bit weights on every GPU, as they are packed in integers": (
        "bnb_4bit_quant_storage：4 位权重打包在整数中，FSDP2 让每块 GPU 保留全部权重"
    ),
    "said by {key:s} in {place}": "由 {place} 中的 {key} 给出",
    "bfloat16 lets it shard them": "设为 bfloat16 即可切分",
    "FSDP1 cannot flatten integers": "FSDP1 不能展平整数",
    "hybrid sharding: parameters are sharded within a node": "混合分片：在同一节点内切分参数",
    "set the number of ranks with --dp-shard": "请用 --dp-shard 给出 rank 数",
    "fsdp_auto_wrap_policy is {policy}": "fsdp_auto_wrap_policy 为 {policy}",
    "fsdp_activation_checkpointing: treated as checkpoints around layers, as accelerate 1.15 has them with FSDP 2": (
        "fsdp_activation_checkpointing：按 accelerate 1.15 在 FSDP 2 下的做法，对整层做重计算"
    ),
    "for accelerate 1.8 to 1.14, which keeps four tensors of each layer, set training.activation_checkpointing to "
    "policy selective and mode part": (
        "accelerate 1.8 至 1.14 每层保留四个张量，请将 training.activation_checkpointing 设为策略 selective、模式 part"
    ),
    "each layer is assumed to be one unit, which needs less memory": "按每层一个单元处理，所需显存更少",
    "deepspeed: {path} is a separate file": "deepspeed：{path} 是另一个文件",
    "give it too, as its ZeRO stage is unknown": "请一并给出，否则不知其 ZeRO 阶段",
    "its name suggests ZeRO stage {stage}": "从文件名得知为 ZeRO 阶段 {stage}",
    "bf16.enabled is 'auto': the trainer decides, bf16 is assumed": (
        "bf16.enabled 为 'auto'：按 bf16 处理，由训练器决定"
    ),
    "{key} is ignored: only Megatron-DeepSpeed calls deepspeed.checkpointing": (
        "{key} 已忽略：只有 Megatron-DeepSpeed 调用 deepspeed.checkpointing"
    ),
    "--num-query-groups has no effect without {flag}: ignored": ("--num-query-groups 仅在有 {flag} 时有效，已忽略"),
    "{flag} has no effect without --use-megatron-fsdp: ignored": ("{flag} 仅在有 --use-megatron-fsdp 时有效，已忽略"),
    "--vocab-size is {size}: {whose}": "--vocab-size 为 {size}：{whose}",
    "BERT's cased vocabulary": "BERT 区分大小写的词表",
    "BERT's uncased vocabulary": "BERT 不区分大小写的词表",
    "--vocab-size is {size}: {whose} plus additional tokens": "--vocab-size 为 {size}：{whose}加上新增的 token",
    "--vocab-size is {size}: from {name}": "--vocab-size 为 {size}：取自 {name}",
    "--vocab-size is {size}: GPT-2's vocabulary": "--vocab-size 为 {size}：取自 GPT-2 的词表与合并表",
    "only nanotron's Llama and Qwen2 are supported: {reason}": "仅支持 nanotron 的 Llama 与 Qwen2：{reason}",
    "with parameters in {dtype} FP8 matrix products are not supported yet": ("参数为 {dtype:s} 时暂不支持 FP8 矩阵乘"),
    "add --bf16": "请加上 --bf16",
    "OLMo-core's trainer is not supported yet": "暂不支持 OLMo-core 的训练器",
    "the closest is open_instruct/grpo_fast.py": "最接近的是 open_instruct/grpo_fast.py",
    "only the learners' update is counted, not generation": "只计算 learner 的参数更新，不含生成",
    "packs of a step accumulate: counted as {count} micro-batches": (
        "一步内的多个 pack 累积梯度：按 {count} 个微批次计算"
    ),
    "biases and layers without positions together are not supported yet": "暂不支持偏置与不用位置编码的层同时出现",
    "its StarCoder2 has different layers": "其 StarCoder2 的层不同",
    "its Mamba has different layers": "其 Mamba 的层不同",
    "its experts have different layers": "其专家的层不同",
    "a loss with that term keeps more tensors": "带该项的损失会保存更多",
    "{key} is {padded}: padded from {words} to a multiple of {multiple} × tp": (
        "{key} 为 {padded}：从 {words} 填充到 {multiple} × tp 的倍数"
    ),
    # Other calculators' configs
    "DistributedDataParallel does not split layers": "DistributedDataParallel 不切分层",
    "ZeRO does not split layers": "ZeRO 不切分层",
    "layers with routed experts are not split when FSDP is used": "与 FSDP 一起时不切分含路由专家的层",
    "engine.{key} {value} does not apply to engine.type {name}: ignored": (
        "engine.{key} {value} 不适用于 engine.type {name}：已忽略"
    ),
    "engine.sharding_strategy 'no_shard' keeps everything on every GPU: treated as engine.type 'ddp'": (
        "engine.sharding_strategy 'no_shard' 在每块 GPU 上保留全部：按 engine.type 'ddp' 处理"
    ),
    "engine.{key} {value} needs ZeRO-{least}, found {stage}: ignored": (
        "engine.{key} {value} 需要 ZeRO-{least}，当前为 {stage}：已忽略"
    ),
    "treated as engine.type 'megatron-deepspeed', which does": "按会切分层的 engine.type 'megatron-deepspeed' 处理",
    "all of these GPUs are counted as data-parallel ranks": "这些 GPU 全部按数据并行 rank 处理",
    "training.activation_checkpointing {level}: treated as policy {policy}": (
        "training.activation_checkpointing {level}：按策略 {policy} 处理"
    ),
    "{message}, the closest option that frameworks offer": "{message}，是框架中最接近的选项",
    "hardware.total_gpu_memory_gb: ignored, because memory is counted per GPU": (
        "hardware.total_gpu_memory_gb：显存按每块 GPU 计算，已忽略"
    ),
    "parallelism.sequence_parallel has no effect without tensor parallelism: ignored": (
        "没有张量并行时 parallelism.sequence_parallel 不起作用：已忽略"
    ),
    "hardware.num_gpus {gpus} is not the product of the parallel sizes {product}: the data-parallel "
    "size is derived from the number of GPUs, as launchers do": (
        "hardware.num_gpus {gpus} 不等于各并行规模之积 {product}：与启动器一样，数据并行数由 GPU 数推算"
    ),
    "model.largest_layer_params: ignored, memcore computes it from the model's sizes": (
        "model.largest_layer_params：已忽略，memcore 由模型尺寸计算"
    ),
    "model.hidden_size {hidden} is not divisible by {heads} heads: assumed heads of {width}": (
        "model.hidden_size {hidden} 不能被 {heads} 个头整除：假设每头 {width}"
    ),
    "model: mixture of experts with equal numbers of key and query heads, counted from its sizes{stated}": (
        "model：键头与查询头同样多的混合专家模型，由尺寸计算{stated}"
    ),
    "a mixture of experts needs {names}": "混合专家模型需要 {names:s}",
    "{name}, not quantized": "{name}，未量化",
    "the file states {count}": "文件所写为 {count}",
    "found {value}, which is not supported": "值为 {value}，不支持",
    "leave it out to run without it": "若不需要它，请去掉此项",
}
