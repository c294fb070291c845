"""What is wrong with a text, in Chinese: where it is not read, or says something twice."""

from __future__ import annotations

from collections.abc import Mapping

OF_READING_IN_CHINESE: Mapping[str, str] = {
    "expected a finite number, found {value}": "应为有限的数，当前为 {value}",
    "found {name}, which is not a JSON number": "值为 {name}，不是 JSON 的数",
    "and {count} more": "另有 {count} 项",
    "the text is in UTF-16, not in UTF-8: save it again as UTF-8": "文本为 UTF-16 而非 UTF-8：请另存为 UTF-8",
    # Numbers and letters
    "expected a number of at most {digits} digits, found {value}": "应为最多 {digits} 位的数，实为 {value}",
    "a \\u escape is half of a surrogate pair": "\\u 转义只有半个代理对",
    # Keys
    "appears twice with different values: {first} and {second}": "出现两次且值不同：{first:s} 和 {second:s}",
    "{key} appears twice with different values: the latter is used": "{key:s} 出现两次且值不同：采用后者",
    "{key} appears twice with the same value": "{key:s} 出现两次，值相同",
    "{path} is {value} in {first} and {other} in {second}: the latter is used": (
        "{path:s} 在 {first:s} 中是 {value:s}，在 {second:s} 中是 {other:s}：以后者为准"
    ),
    "standard input is given twice": "标准输入给出了两次",
    # YAML
    "has a complex key, which is not supported": "含复杂键，暂不支持",
    "has {sign} at the start of a value: quote such values": "值以 {sign} 开头：请加引号",
    "has a second colon: quote values that contain `: `": "有第二个冒号：含 `: ` 的文本请加引号",
    "lacks its closing {quote}": "缺少结尾的 {quote}",
    "starts a text block but continues on the same line": "开始了文本块，但本行后面还有内容",
    "is too long: {error}": "过长：{error}",
    "has the escape {escape}, which is not a character": "含转义 {escape:s}，它不是字符",
    "has the escape {escape}, which YAML does not know": "含 YAML 没有的转义 {escape:s}",
    "is nested more than {count} levels deep": "嵌套超过 {count} 层",
    "has the tag {tag}, which is not supported": "含标签 {tag:s}，暂不支持",
    "is not what its tag {tag} says": "与其标签 {tag:s} 不符",
    "refers to an anchor that is not defined before it": "引用了前面未定义的锚点",
    "expands aliases to more than {count} values": "由别名展开的值超过 {count} 个",
    "starts a second document, but only one is supported": "开始了第二个文档，而只支持一个",
    "has an anchor without a name": "锚点没有名称",
    "merges something that is not a mapping": "合并的不是映射",
    "has a key that is neither a string nor a number": "键既不是字符串也不是数",
    # Scripts
    "Variable defaults are nested more than {count} levels deep": "变量默认值嵌套超过 {count} 层",
    "Conditions are nested more than {count} levels deep": "条件嵌套超过 {count} 层",
    # Patterns of modules
    "the pattern {pattern} {error}": "模式 {pattern:s}{error}",
    "has an unclosed bracket": "有未闭合的括号",
    "has an unmatched closing bracket": "有多余的右括号",
    "is longer than {count} letters with its repetitions": "展开重复后超过 {count} 个字符",
    "has brackets nested more than {count} levels deep": "括号嵌套超过 {count} 层",
    "has {sign}, which is not supported": "含 {sign}，暂不支持",
    "repeats nothing": "没有可重复的内容",
}
