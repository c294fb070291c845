"""What the help of commands says of their own arguments, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

OF_COMMANDS_IN_CHINESE: Mapping[str, str] = {
    # quick
    "number of parameters: 7, 7B or 7e9 is 7 billion": "参数量：7、7B 或 7e9 表示 70 亿",
    "350M is 350 million": "350M 表示 3.5 亿",
    "total number of GPUs (default: 1)": "GPU 总数（默认：1）",
    "engine, as in `memcore estimate --engine` (default: fsdp on several GPUs)": (
        "引擎，与 `memcore estimate --engine` 相同（默认：多 GPU 时为 fsdp）"
    ),
    "fp32, fp16 or bf16 (default: bf16)": "fp32、fp16 或 bf16（默认：bf16）",
    "GPU, as in `memcore estimate --accelerator`": "GPU，同 `memcore estimate --accelerator`",
    "memory per GPU in GiB (default: {size})": "每块 GPU 的显存，单位 GiB（默认：{size}）",
    # solve
    "allowed: {settings}, or any other flag that takes a number": "允许：{settings:s}，或其他取数值的参数",
    "one of: {settings}, or any other flag that takes a number": "可为：{settings:s}，或其他取数值的参数",
    # search, plan
    "numbers of GPUs to try (default: the config's)": "要尝试的 GPU 数（默认：配置中的值）",
    "accelerators to try, or `all` (default: the config's)": "要尝试的加速器，或 `all`（默认：配置中的值）",
    "sequences per optimizer step, over all GPUs": "每次优化器更新的序列数，所有 GPU 合计",
    "micro-batch sizes to try (default: 1,2,4,8)": "要尝试的微批次大小（默认：1,2,4,8）",
    "PyTorch's pipeline schedules to try: {names} (default: 1f1b)": (
        "要尝试的 PyTorch 流水线调度：{names:s}（默认：1f1b）"
    ),
    "also try keeping parameters or the optimizer on the host": "同时尝试把参数或优化器放在主机上",
    "how many layouts to show, cheapest first (default: {count})": "显示多少个并行策略，代价从低到高（默认：{count}）",
    "fraction of each GPU to leave free, if a layout can (default: {share})": (
        "尽可能在每块 GPU 上留空的比例（默认：{share}）"
    ),
    "estimate every layout, even those that cannot be the best": "估算所有并行策略，包括不可能最优的",
    "an input of the cost model": "成本模型的输入",
    "repeatable: {names}": "可重复：{names:s}",
    "processes for --every": "--every 使用的进程数",
    "a short search uses one (default: 1)": "搜索很短时只用一个（默认：1）",
    "append estimates to FILE (.csv or .jsonl), and resume from it": (
        "把估算结果追加到 FILE（.csv 或 .jsonl），并可由此继续"
    ),
    # calibrate, reconcile
    "what the run printed: a file, or - for standard input": "运行时的输出：文件，或 -（标准输入）",
    "another log of the same job": "同一任务的另一份日志",
    "repeatable": "可重复",
    "what a number without a label measures": "没有标注的数值是哪个量",
    "save the measurements to FILE, for `memcore accuracy`": "把实测值保存到 FILE，供 `memcore accuracy` 使用",
    # check
    "the files describe one job (default: one job per file)": "这些文件描述同一个任务（默认：每个文件一个任务）",
    "fail too if only part of the range fits": "只有部分范围放得下时也判为失败",
    "micro-batch {size}": "微批次大小 {size}",
    "tool to write plans for, as in `memcore convert` (default: your file's)": (
        "方案所写的工具，同 `memcore convert`（默认：您的文件所属的工具）"
    ),
    "fraction of each GPU that must stay free (default: 0)": "每块 GPU 必须空出的比例（默认：0）",
    "github: annotations of a pull request": "github：pull request 注释",
    # convert, accuracy, the catalog
    "default: the tool that runs the engine": "默认：运行该引擎的工具",
    "JSON files with measured cases": "含实测案例的 JSON 文件",
    "a catalog id, a hub id, a config.json, a checkpoint, or -": "目录中的 id、hub id、config.json、检查点文件，或 -",
    "words that must all match: {kinds}": "须全部匹配的词：{kinds}",
    "part of an id, of a hub id or of a family, a size such as 8b, >30b or <=9b, active parameters such as active<4b, "
    "a length such as context>=128k, a licence such as apache-2.0, "
    "or moe, hybrid, vision, audio, embedding or seq2seq": (
        "id、hub id 或系列名的一部分，规模如 8b、>30b 或 <=9b，激活参数如 active<4b，长度如 context>=128k，"
        "许可证如 apache-2.0，或 moe、hybrid、vision、audio、embedding、seq2seq"
    ),
    "only models known to have this licence, such as apache-2.0": "只列出已知采用该许可证的模型，如 apache-2.0",
    "list the supported families": "列出支持的模型系列",
    "words of an id or a name, which must all match": "id 或名称中的词，须全部匹配",
}
