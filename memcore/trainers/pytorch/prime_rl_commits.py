"""prime-rl's versions: how its fused head takes tokens and words, by commit or release.

Source: the history of github.com/PrimeIntellect-ai/prime-rl's main branch, trainer/models/layers/lm_head.py
and the defaults of `fused_lm_head_chunk_size` and `fused_lm_head_token_chunk_size` in configs/trainer.py. A version is
given as the beginning of a commit's name, or as a release's.
"""

from __future__ import annotations

_NAMES = """
1fa70e8 d70a00f 88da7cb 1455a8a c2f90c8 ddb9571 7fbf4a0 5197c40 aab0753 3436f42 0545649 dddc0dd 85a9dc0 518fa49 eb8a154
33101f2 0403f12 4ff009d a03d81f 6d3af78 bceb0cc baf6261 c95bd79 ff62013 969df59 0e5940f 11d87ee c330a6d 32adbba 7a50d26
bdfbfae a127150 43cacaa d8f290e b214a45 0e53e7f 30873eb 147e443 2135534 08afcd2 2486860 8718eb1 41a66e2 571d481 a9b5aa5
41d1419 c69c615 50600ea c3de771 66bfa0f d7742b9 63988a7 11c84c2 646e992 9613f61 0ca5739 e1663ba beb8ef3 d0f2eb4 258e0df
526af9c 53a5ab8 82a8241 40d8103 e3146ba a588963 e67022b bd78508 31cdc0b 42e0907 2b3cc85 4acd5f0 756b78e d6552d6 7cc9cd9
d83dce6 9d15814 bc5c3cf 667fb38 2267455 4fc312b a622429 98c05cf 137e36a af6709b 96ccece 9ebcb8e 25f604e 3ac5c20 370221c
53ddafc a575503 36959cb e794fbe e5566f9 b798a90 f14c8d6 a3ba95b 309970c e71145a 3194b16 4fb4639 65ba487 a0d889c 6386364
a2ce702 e41036a 64c214b d74bf06 9d40e5e 456e8cd 2f7f07b d2ab3a4 0041a93 8695aa1 c87c19b db92bb0 bd08727 f870f3c a78bbfa
8dbd955 7b95af5 663e9d2 922582d 1f35541 b0cabb9 125012f 31b48b8 5cdada6 a35a721 050490e 1ebb7dd 6fd4f69 b05c039 294cd9f
8697174 08f8c64 8117c00 67ab5d1 f274fa3 b84a07a 0db8d49 0568288 e327ca2 b55dcaa 491d891 2586385 a81f9bc a3251c9 8f2e6bb
4ae67c3 c0657c5 82417b0 1a58897 3d1056a 5e9548d 39ce147 bdac9df c2a84f5 26db104 c28eaf8 1b725b8 187b7a4 bb5e482 66b1f4b
0756df7 95a53f3 6c8faec aaeb711 7c40b33 3102ca4 a77725e decced2 1e36592 46d210b 6f9c136 bc55a1c 54b3e4c 5c3008b deb1aa9
29cc7b2 10135d4 a646ad6 30a14c1 192035e f87be6b c8fdcbb bc740de 8ffa00c bf0f903 7eade4f fd78f21 1e75616 944163a c2027a7
ad8d775 4076a0e 448f8c0 5bd9809 db50929 1826b18 4b0ecdb 82652c7 f9b7856 cfed378 cc59d7b 8136f13 cae5532 1c559fe 75355f4
ce55c15 668579a 4825d76 5b15e54 5f2dc0f 83c21dd a3a307e aef4a60 7036a15 7d8da4c 2da1e4a 3d9aa90 7104dbd bc77fa0 f655f71
1ea7a8d 3567187 982a775 df50bd2 753a728 5ae5079 5a6ab4a f00925c 09a6875 732cbde 6f6fa00 68e443b aacc466 bf71516 02bdca2
9104df4 ea161dd 8451067 6a97762 fe32efb 99058e9 ac7ac62 aa33d91 868ba03 15fc324 94984b9 892c895 c344a8a 599cea8 d4bfa08
e2175c1 d19ce79 ebb5a1c 99c02bb f074656 22f0ae7 89a5343 302ef6d 8ea7bd4 5f0dcc8 2c5c69d 4d91edc 710c9b3 26fd0e3 deecddc
e113981 46f26ce 2041d93 bcb504b 8eecadc 3639f0a 7994d6c aa432f2 447cafe 00778b5 93cd1fa 51bd1ad fa95af1 00a4752 a7db217
051c8ba 74a13f0 51fcbae be9f9f8 9b2fb9a 2759143 cab621f 67de232 7694668 8fa0dde 33d266b 6c55a9a 7e06730 eba667d d1c36af
bd110a1 f7192e1 0f236d3 f399e26 c1bbbf9 1f6de8f 47f6bb8 58f4b37 3dcff28 d5c7240 fc6fd48 4875c10 1bc1021 bb4c23b 40da51a
3dd48be 9c25ce2 7e85319 7ef29a7 19511dc d803065 60f01a0 f414d9a c2dfc33 53a8b45 2ddb1c8 692dfc8 a25b3e7 4f61260 e7adec3
b7afd84 27c35b1 381733e ecd0809 c2b99e6 b92c212 f725629 801995a 14c0a02 1203438 80a5289 effa509 d7afbaa 8a6f4ef 6cae5cc
dec92c1 714d0ea 18594ab f090c3e 907f301 63331ad 44c4f4d 23e3791 07411f3 a30d417 5a68acc 846f18a 21e6b54 377b15a 1f3e539
fd0f4fd 1692a67 2a7bf99 a2ea091 798fb82 58fc060 e10b4de 6606330 8304f1e 06c54dd a12f5d5 a0b6a91 b1d37e9 6fa776d d79bd4f
78b0df8 efade1b f4b8129 27645f3 adbf84a f24d10e ed2ad8c bffd310 1b62360 839dacc ecf1ae2 4b0fc35 09293f3 ff4b125 6189e0c
625e05f eed10dc 04da032 355956e 2648c19 29a9a1c 0216d2c 8b3faf4 43ba157 6fba6cb d7770a6 faa0b56 d4f10c5 44c3ee3 02d6487
f0485ff 7e456ac 1a1a396 f07543e 9b01fa9 f412e6d d04d7f5 07eb646 9615fe7 11880ce fd1a68d b194a6e 7bba60f 2d577a4 833920a
37cfd0c b6a920f 40bcabb 6fa4296 c857876 f8a1460 fa63a5a 8c1e650 f2e97b2 bc34bae 3cd6332 52b1ae1 67783e4 fde3006 8c5aa67
ad3134a 4dcf86f 56cdd2c 2d659ee ba86b9b 3a6b461 2c54d5c 18e8956 586e0f8 6bf14b8 d4bddba 26ea8df 1ade129 82fa41f bb7449c
f29e947 03689b8 9eeffdb d49f393 d2718f5 c3a24c3 e8abfa2 a6a6441 9bbed30 f1bbdf9 b0a7cad 4a42aa0 20454ec 8342ccd 24a2af0
0fca0d1 2566de0 d2f36c9 273524e 8457b60 4e4390b 93cbc75 3719abc daedc1d e75d8ca a8575d6 5061b8d a87badd af17a55 b1e9c7b
c37e2ca ca5e02c 0b8c35e 0403c09 a50b407 d8d214c 7d7bd92 5e6f7eb 2ff21d9 0660a9b 4be61bb 0deb4ab 31591b7 f7a27f6 bcac552
edf4111 d62c753 38b5249 3b01ce9 1e9a3e9 229391f d7b3ae2 95af011 bb522cc c0d896f 5f2c004 7da26cd 09e403b 84ccb95 0fe673c
7b7bde1 2171368 efb874b 429c1bb a252057 c9a4b3b d11fc90 319af10 469a4e6 7c434ec 5b11b8d 024abb2 4a6b454 e4330c2 b2ba40b
fa55779 6dda4a1 b5f196a 458b16e 6ba37c2 c654dc1 d438502 81f9e95 897b935 cd2f3da c935497 ae610d9 66ff00d a166a8b 6d80c41
f18297f c3c6b70 ef8f459 b22e768 c5fb959 46653c1 8106bf0 4748472 6591943 0b37bc9 87ab84b 03f7fef 09e11c7 eaf9599 845eb6e
d8698f4 d3e478d 67cdc55 90e9ae9 1f26eee d718fdd fa191e5 09e2977 7f7ce8a 851233e 271801b 44dcc5a ea2f390 1d9ca92 9ef2705
c656d2f f9cebaa e6e8146 ca03d89 c95a943 710e119 e971d90 badd2b0 1e0fe96 20f6449 934c014 8e97806 81822de 7e83550 ae1461e
4df5b62 84f072b ef773f1 f5e8113 38303f8 3b386a4 25d4b1d c555903 a36151c e792f9c 0057f3b a73fa39 3f5ee35 b8a2205 c1f6fbd
6d17559 4ecb92b dbe4d1f 10bc02c 1891771 d372706 b90aca4 083127f ae748fd 26cdf2e f510ef6 241d8e9 aeaf4c4 eead822 618de8a
543e37e f6563ff 9589c04 da9a92a f3ad435 b243184 517ee5c 3ce9189 c613ec5 c13409e 8d88f5e bf7eab0 43f6261 e751794 563b37a
f619e36 5b5f234 63af823 3979894 434c9c0 7f6ca61 e6998a6 b67fd12 65914f9 e5c9169 209f76e 766e36f 90b0744 c2a5fa4 53b22b5
54012df e0f8a35 0695f9c c8759c3 632ef2b 04d0671 d5ce4ce d4b30bf 91c86b7 9ea9fb1 e466d23 9e1f052 941019f 7c9c130 c0a026c
b0612a0 146fcd0 5789850 9dbb523 9281c55 77af037 060f25b b452660 b5daec1 fa21395 8dfe873 efeddae 7f77713 4d361ad f04c8d9
137f8f4 31e81e5 570463c 858207d 533e992 e035135 375d859 38494cc 7089ba1 c33020a a3151e3 46bcf62 9bf203c d3765e2 2e29c66
35b452b 62702ba c268702 3a5f617 3dd3b30 d507aea 9e1c011 eb89285 d1f366b a66f8be f866025 3cbeb5d c5afcaa 0be5ac4
"""
"""From January 9, 2026 (1fa70e8, which made chunks the default) until before June 27 (bf3d381); oldest first."""
_COMMITS = tuple(_NAMES.split())


def _between(first: str | None, after: str | None) -> frozenset[str]:
    """Commits from one on, or from the first, until before another, or to the last."""
    start = 0 if first is None else _COMMITS.index(first)
    return frozenset(_COMMITS[start : None if after is None else _COMMITS.index(after)])


_FEW_WORDS = _between(None, "83c21dd") | {"0.3.0", "0.4.0"}
"""Before February 26, 2026 (83c21dd): all tokens and 2,048 words at a time."""
_MORE_WORDS = _between("83c21dd", "93cd1fa")
"""Before March 9, 2026 (93cd1fa): all tokens and 8,192 words."""
_MANY_TOKENS = _between("93cd1fa", None) | {"0.5.0", "0.6.0"}
"""Before June 27, 2026 (bf3d381): 8,192 tokens, and of them 8,192 words."""


def chunks_of(version: object) -> tuple[int | None, int]:
    """Return the tokens, if not all, and the words that the head has at a time; an unknown version is later."""
    name = str(version).removeprefix("v")
    known = {name, name[:7]}
    if known & _FEW_WORDS:
        return None, 2048
    if known & _MORE_WORDS:
        return None, 8192
    return (8192 if known & _MANY_TOKENS else 1024), 8192
