"""What is said of the model hub and of files from it, in Chinese."""

from __future__ import annotations

from collections.abc import Mapping

OF_HUB_IN_CHINESE: Mapping[str, str] = {
    "ask the hub for the model's config and headers": "向模型中心获取该模型的配置和文件头",
    "with --fetch: a branch, a tag or a commit (default: main)": "配合 --fetch：分支、标签或提交（默认：main）",
    "with --fetch: write the config.json, to use it offline": "配合 --fetch：写出 config.json，供离线使用",
    "needs --fetch": "需要 --fetch",
    "needs the id of a model: alone, with --model, or in a file that names it": (
        "需要模型 ID：单独给出、用 --model 给出，或由文件指明"
    ),
    "--fetch asks the model hub for it": "可用 --fetch 向模型中心获取",
    "fetched {files} of {id:s} from {host:s}, commit {commit:s}": (
        "已从 {host:s} 获取 {id:s} 的 {files}，提交 {commit:s}"
    ),
    "the hub lists no files of {id:s}": "模型中心未列出 {id:s} 的任何文件",
    "found {value}, which is not an address of {host:s}": "值为 {value}，不是 {host:s} 的地址",
    "other hubs are set with HF_ENDPOINT": "其他中心用 HF_ENDPOINT 设置",
    "expected an id of the hub such as Qwen/Qwen3-8B": "应为模型中心的 ID，例如 Qwen/Qwen3-8B",
    "{id:s} has no config.json, adapter_config.json or GGUF file that describes a model": (
        "{id:s} 没有描述模型的 config.json、adapter_config.json 或 GGUF 文件"
    ),
    "{id:s} has no GGUF files": "{id:s} 没有 GGUF 文件",
    "{id:s} has no GGUF file for {tag:s}": "{id:s} 没有 {tag:s} 格式的 GGUF 文件",
    "it has {tags}": "已有：{tags}",
    "{host:s} did not answer in time": "{host:s} 未及时响应",
    "{host:s} cannot be reached: {why:s}": "无法连接 {host:s}：{why:s}",
    "is gated: accept its licence on {host:s}, and give a token in HF_TOKEN": (
        "须先获得许可：请在 {host:s} 接受其许可证，并在 HF_TOKEN 中给出令牌"
    ),
    "is gated, and your token has no access: accept its licence on {host:s}": (
        "须先获得许可，而您的令牌无权访问：请在 {host:s} 接受其许可证"
    ),
    "{host:s} has no such revision": "{host:s} 没有该修订版本",
    "{host:s} does not accept your token": "{host:s} 不接受您的令牌",
    "{host:s} has no such repository or file, or it is private: then give a token in HF_TOKEN": (
        "{host:s} 没有该仓库或文件，或其为私有：若为私有，请在 HF_TOKEN 中给出令牌"
    ),
    "{host:s} takes no more requests for now": "{host:s} 暂不接受更多请求",
    "a token in HF_TOKEN allows more": "在 HF_TOKEN 中给出令牌可提高上限",
    "{host:s} redirects too often, or to an address that is not https": "{host:s} 重定向过多，或指向非 https 地址",
    "{host:s} answered with status {status}": "{host:s} 返回状态 {status}",
    "is set, so nothing is fetched": "已设置，因此不会获取任何内容",
    "expected an address such as {address:s}, found {value}": "应为地址，例如 {address:s}，实际为 {value}",
    "is not a token: it has spaces or other signs that no token has": "不是令牌：含有空格或令牌中不会出现的字符",
    "says how a checkpoint is quantized": "说明检查点如何量化",
}
