"""Sizes and counts as people write and read them."""

import pytest

from memcore.hardware import find_accelerator, matmul_workspaces
from memcore.symbols import Quotient, Rounded, Shifted, Total, half, product, spell
from memcore.units import GiB, format_bytes, parse_bytes, parse_count


@pytest.mark.parametrize(
    ("text", "count"),
    [("8192", 8192), ("8k", 8192), ("8K", 8192), ("1M", 2**20), ("7B", 7 * 10**9), ("1.5e9", 1_500_000_000), ("0.5k", 512),
     ("128x1024", 131072), ("4 × 2k", 8192), ("8,192", 8192), ("8_192", 8192), (" 12 ", 12), ("-3", -3)],
)  # fmt: skip
def test_counts(text, count):
    """Thousands of tokens are powers of two, billions of parameters powers of ten, and factors multiply; a sign is for limits to refuse."""
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "k", "8q", "1x", "ten", "1.5", "--3", "8k8", "1e999", "nan", "８"])
def test_what_is_no_count(text):
    """Anything else is refused with the text as it was given."""
    with pytest.raises(ValueError, match="whole number"):
        parse_count(text)


@pytest.mark.parametrize(
    ("text", "size"), [("80GiB", 80 * GiB), ("80 GB", 80 * 10**9), ("1.5gib", 3 * GiB // 2), ("512B", 512)]
)
def test_bytes(text, size):
    """GiB is a power of two, GB of ten."""
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["80", "80 G", "", "GiB", "many GiB"])
def test_what_is_no_size(text):
    """A size needs a unit."""
    with pytest.raises(ValueError, match="with a unit"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (512, "512 B"), (2048, "2.0 KiB"), (5 * 2**20, "5.0 MiB"), (GiB // 2, "0.50 GiB"), (10 * GiB, "10.0 GiB"), (-GiB, "-1.00 GiB")],
)  # fmt: skip
def test_formatting(size, text):
    """Two decimals below ten GiB, one above, and smaller units for small sizes."""
    assert format_bytes(size) == text


def test_symbols():
    """Axes are numbers, names or derived from others, and spell themselves."""
    sizes = {"a": 3, "d": 20, "s": 300, "z": 8}
    assert product(("a", 2, Quotient(("a", "d"), "z")), sizes) == 3 * 2 * 8
    assert product((Rounded("s", 128),), sizes) == 384
    assert product((Rounded("d", 8, limit=16, beyond=64),), sizes) == 64
    assert product((Shifted("s", 1, 1), half("d")), sizes) == 301 * 10
    assert product((Total("S", (("a", "d"), ("s",))),), sizes) == 360
    assert spell(("b", 1, Quotient(("a", "d"), "z"), Rounded("s", 128))) == "b·⌈a·d/z⌉·⌈s⌉₁₂₈"
    assert spell(()) == "1"


@pytest.mark.parametrize(
    ("name", "size"),
    [("a100-sxm-80gb", 8320 * 1024), ("h100-sxm-80gb", 32 * 2**20), ("gb200", 32 * 2**20), ("mi250x-gcd", 32 * 2**20),
     ("mi300x", 128 * 2**20)],
)  # fmt: skip
def test_workspaces_of_matrix_products(name, size):
    """As PyTorch chooses them by the GPU's architecture."""
    assert dict(matmul_workspaces(find_accelerator(name)))["cublas_workspace"] == size
