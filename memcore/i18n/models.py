"""A model in words: its layers and where its parts run, in Chinese, by the English sentence with places for values."""

from __future__ import annotations

from collections.abc import Mapping

MODELS_IN_CHINESE: Mapping[str, str] = {
    # Mixers
    "multi-head attention": "多头注意力",
    "multi-query attention": "多查询注意力",
    "grouped-query attention": "分组查询注意力",
    "cross attention": "交叉注意力",
    "compressed attention": "压缩注意力",
    "{query} heads of {width}": "{query} 个头，每头 {width}",
    "{query} heads of {width} over {key}": "{query} 个头对 {key} 个键头，每头 {width}",
    "window {width}": "窗口 {width}",
    "chunks of {width}": "每块 {width}",
    "keys and values of an earlier layer": "前面某层的键和值",
    "parameters of an earlier layer": "前面某层的参数",
    "latent attention, {heads} heads, {latent} + {rotary} cached": (
        "潜在注意力（MLA），{heads} 个头，缓存 {latent} + {rotary}"
    ),
    "latent attention, {heads} heads, {latent} + {rotary} cached, indexed": (
        "潜在注意力（MLA），{heads} 个头，缓存 {latent} + {rotary}，带索引"
    ),
    "gated delta rule": "门控 delta 规则",
    "Kimi delta attention": "Kimi delta 注意力",
    "lightning attention": "lightning 注意力",
    "real-gated linear recurrence": "实数门控线性循环（RG-LRU）",
    "short convolution": "短卷积",
    # Feed-forward layers
    "{chosen} of {count} experts of {width}": "{count} 个专家选 {chosen} 个，每个 {width}",
    "{chosen} of {count} experts of {width} and {shared} shared": (
        "{count} 个专家选 {chosen} 个，每个 {width}，另有共享专家 {shared}"
    ),
    "gated {width}": "门控 {width}",
    "plain {width}": "普通 {width}",
    "gated outputs": "门控输出",
    "published in addition: {part}": "另外发布：{part}",
    "multi-token prediction": "多 token 预测",
    "router correction biases": "路由器校正偏置",
    "output head, tied to the embedding": "与嵌入共享权重的输出头",
    "key and value weights of layers that reuse another layer's cache": "复用其他层缓存的层自带的键值权重",
    "pooling head, which servers do not load": "推理服务不加载的池化头",
    "buffer of image codes in use": "在用图像码的缓冲区",
    "positions in a row of images": "多图打包时的位置向量",
    "head": "输出头",
    "layers that speak, which servers do not load": "推理服务不加载的语音生成层",
    "talker, which servers do not load": "推理服务不加载的语音生成部分",
    "fp8 block scales": "fp8 块缩放因子",
    # Ranks
    "stage {number}": "第 {number} 级",
    "stages {numbers}": "第 {numbers} 级",
    "all {count} GPUs": "全部 {count} 块 GPU",
    "every rank": "每个 rank",
}
