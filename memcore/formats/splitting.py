r"""Lists of shell scripts that `read` splits into variables: layouts, one after another in a loop or alone.

>>> print(split_up('L=("1,2" "4,1")\nfor C in "${L[@]}"; do\n  IFS=, read -r TP PP <<< "$C"\n  run $TP\ndone'))
L=("1,2" "4,1")
C=1,2
  TP=1; PP=2
  run $TP
C=4,1
  TP=4; PP=1
  run $TP
<BLANKLINE>
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable

_READ = re.compile(
    r"""(?:IFS=(?P<sign>'[^']'|"[^"]"|[^\s'"])[ \t]+)?\bread[ \t]+(?:-r[ \t]+)?"""
    r"""(?P<names>[A-Za-z_]\w*(?:[ \t]+[A-Za-z_]\w*)*)[ \t]*<<<[ \t]*"?\$\{?(?P<of>[A-Za-z_]\w*)\}?"?"""
)
_LOOP = re.compile(
    r"""^([ \t]*)for[ \t]+(\w{1,80})[ \t]+in[ \t]+"?\$\{(\w{1,80})\[@\]\}"?[ \t]*;?[ \t\n]*"""
    r"""do\b[ \t]*\n(.{0,16384}?)^\1done\b""",
    re.MULTILINE | re.DOTALL,
)
_ARRAY = r"^[ \t]*{}=\(([^()]{{1,4096}})\)"
_SET = (
    r"""^[ \t]*(?:export[ \t]+)?{}=(?:"?\$\{{\w+:?-([^{{}}$"]{{0,256}})\}}"?"""
    r"""|"([^"$]{{0,256}})"|([^\s"'$;#]{{1,256}}))[ \t]*(?:[;#\n]|$)"""
)
_MOST, _LONGEST = 8, 2**17
"""Values that a loop goes through, and characters of a script."""


def split_up(text: str, given: Callable[[str], str | None] = lambda name: None) -> str:
    """Return the script with what `read` splits as plain variables; `given` says what its caller sets.

    A loop over a list whose values it splits is written out, once for every value.
    """
    if "<<<" not in text or len(text) > _LONGEST:
        return text
    text = _LOOP.sub(lambda loop: _written_out(loop, text), text)
    return _READ.sub(lambda read: _assigned(read, text, given), text) if len(text) <= _LONGEST else text


def _written_out(loop: re.Match[str], text: str) -> str:
    """Return the body of a loop for each value of its list; the loop itself where its body splits nothing."""
    array = re.search(_ARRAY.format(re.escape(loop[3])), text, re.MULTILINE)
    splits = any(each["of"] == loop[2] for each in _READ.finditer(loop[4]))
    try:
        values = shlex.split(array[1], comments=True) if array and splits else []
    except ValueError:
        values = []
    if not 0 < len(values) <= _MOST or any("$" in each for each in values):
        return loop[0]
    return "".join(f"{loop[2]}={shlex.quote(each)}\n{_split(loop[4], loop[2], each)}" for each in values)


def _split(body: str, name: str, value: str) -> str:
    """Return a body whose variable has a value, which it splits."""
    return _READ.sub(lambda read: _pairs(read, value) if read["of"] == name else read[0], body)


def _assigned(read: re.Match[str], text: str, given: Callable[[str], str | None]) -> str:
    """Return the variables of a `read` whose text the script or its caller gives."""
    value = given(read["of"])
    if value is None:
        said = re.findall(_SET.format(re.escape(read["of"])), text[: read.start()], re.MULTILINE)
        value = next((each for each in said[-1] if each), None) if said else None
    return read[0] if value is None else _pairs(read, value)


def _pairs(read: re.Match[str], value: str) -> str:
    sign, names = (read["sign"] or "").strip("'\""), read["names"].split()
    parts = value.split(sign or None, len(names) - 1)
    return "; ".join(f"{name}={shlex.quote(part)}" for name, part in zip(names, parts, strict=False))
