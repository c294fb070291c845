"""What is wrong with a text, in Chinese: where it is not read, or says something twice."""

from __future__ import annotations

from collections.abc import Mapping

OF_READING_IN_CHINESE: Mapping[str, str] = {
    "expected a finite number, found {value}": "应为有限的数，当前为 {value}",
    "found {name}, which is no number of JSON": "值为 {name}，不是 JSON 的数",
    "and {count} more": "另有 {count} 项",
    "the text is in UTF-16, not in UTF-8: save it again as UTF-8": "文本为 UTF-16 而非 UTF-8：请另存为 UTF-8",
    # Numbers and letters
    "expected a number of at most {digits} digits, found {value}": "应为最多 {digits} 位的数，实为 {value}",
    r"a letter that is written with \u is half of one": r"以 \u 写出的字符只有一半",
    # Keys
    "is there twice, with other values: {first} and {second}": "出现两次且值不同：{first:s} 和 {second:s}",
    "{key} is there twice, with the same value": "{key:s} 出现两次，值相同",
    # YAML
    "has a complex key, which is not read": "含复杂键，无法读取",
    "has {sign} where a value begins: texts that begin so need quotes": "值以 {sign} 开头：这样的文本需要引号",
    "has a second colon: texts with `: ` need quotes": "有第二个冒号：含 `: ` 的文本需要引号",
    "lacks its closing {quote}": "缺少结尾的 {quote}",
    "begins a block of text, but goes on in its line": "开始了文本块，但本行后面还有内容",
    "is too long: {error}": "过长：{error}",
    "has the escape {escape}, which is no character": "含转义 {escape:s}，它不是字符",
    "has the escape {escape}, which YAML does not know": "含 YAML 没有的转义 {escape:s}",
    "is nested more than {count} levels deep": "嵌套超过 {count} 层",
    "has the tag {tag}, which is not read": "含标签 {tag:s}，无法读取",
    "is not what its tag {tag} says": "与其标签 {tag:s} 不符",
    "repeats a value that no anchor before it names": "引用了前面没有锚点的值",
    "makes more than {count} values of aliases": "由别名展开的值超过 {count} 个",
    "begins a second document, where one is read": "开始了第二个文档，而只读取一个",
    "has an anchor without a name": "锚点没有名称",
    "merges what is no mapping": "合并的不是映射",
    "has a key that is no text or number": "键既不是文本也不是数",
    # Scripts
    "It has more than {count} defaults of variables inside each other": "变量默认值嵌套超过 {count} 层",
    "It has more than {count} conditions inside each other": "条件嵌套超过 {count} 层",
    # Patterns of modules
    "the pattern {pattern} {error}": "模式 {pattern:s}{error}",
    "has a bracket that nothing closes": "有未闭合的括号",
    "has a bracket that nothing opens": "有多余的右括号",
    "is longer than {count} letters with its repetitions": "展开重复后超过 {count} 个字符",
    "has more than {count} brackets inside each other": "括号嵌套超过 {count} 层",
    "has {sign}, which is not read": "含 {sign}，无法读取",
    "repeats nothing": "没有可重复的内容",
}
