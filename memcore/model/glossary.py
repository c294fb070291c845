"""What the size symbols of shapes mean."""

from __future__ import annotations

from collections.abc import Mapping

SYMBOLS: Mapping[str, str] = {
    "b": "sequences in a micro-batch",
    "s": "tokens in a sequence",
    "h": "hidden size",
    "a": "query heads",
    "k": "key and value heads",
    "g": "query heads for each key head",
    "n": "query, key and value heads together",
    "d": "width of a head",
    "v": "width of a value head",
    "r": "width of a head that is rotated",
    "p": "width of a head that is not rotated",
    "u": "width of a head's key and value together, as expanded from the latent vector",
    "lq": "latent width of queries",
    "lk": "latent width of keys and values",
    "c": "compressed width: latent keys and values and the rotated part of a key",
    "f": "width of the feed-forward layer",
    "E": "routed experts",
    "e": "experts of each token",
    "m": "width of a routed expert",
    "w": "width of the shared experts",
    "V": "vocabulary size",
    "P": "longest sequence",
    "sw": "tokens in a window",
    "le": "width in which experts work",
    "i": "heads of the indexer",
    "j": "width of the indexer's heads",
    "lo": "latent width of a group of outputs",
    "go": "groups of outputs",
    "t": "tokens compressed into one, or twice the hidden size",
    "hc": "copies of the residual stream",
    "ho": "mixing weights of a hyper-connection",
    "D": "inner width of a recurrent mixer",
    "N": "width of a state",
    "R": "rank of the time step",
    "x": "rank of the time step, and two states",
    "H": "heads of a recurrent mixer",
    "W": "width of such a head",
    "G": "groups of heads that share a state's inputs",
    "X": "channels of the convolution",
    "I": "outputs of the input projection",
    "K": "tokens that the convolution sees",
    "A": "key heads of linear attention",
    "B": "value heads of linear attention",
    "dk": "width of a key of linear attention",
    "dv": "width of a value of linear attention",
    "pl": "width of an embedding of each layer",
    "Vl": "vocabulary of the layers' own embeddings",
    "L": "layers",
    "na": "copies of the hidden states (AltUp)",
    "la": "rank of a low-rank branch",
    "ht": "hidden size of the vision tower",
    "ft": "width of its feed-forward layers",
    "at": "its heads",
    "Lt": "its layers",
    "Lg": "its global layers",
    "pt": "side of a patch in pixels",
    "ct": "channels of an image",
    "tt": "frames of a patch",
    "nt": "its positions",
    "mt": "width of several patches merged into one",
    "it": "inner width of its adapter",
    "ot": "width that leaves it",
    "vt": "width that the projector takes",
    "rt": "aspect ratios",
    "zt": "tiles of an image",
    "z": "ranks over which FSDP shards",
}
"""What the size symbols mean. Composed sizes are written out, like `⌈d⌉₈` (rounded up to a multiple of 8); a prime
marks a second value of the same kind (`f′`)."""


def meaning(symbol: str) -> str:
    """What a symbol means."""
    plain = symbol.rstrip("′")
    return SYMBOLS[plain] if plain == symbol else f"{SYMBOLS[plain]}, in other layers"
