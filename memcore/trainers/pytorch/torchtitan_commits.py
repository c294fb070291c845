"""torchtitan's versions: which commits came before a change of what it keeps in memory.

Source: the history of github.com/pytorch/torchtitan's main branch, and the commits that its benchmarks name. A version
is given as the beginning of a commit's name.
"""

from __future__ import annotations

_NAMES = """
2d1c6d5 09c32a2 fc673f1 d909bc2 61eaa47 7d905fe 902bca8 0cc2961 cd077ad 4c8ac33 26a4b2d b8c1719 83ee9f7 bd5176c 318b5f3
0a92b98 0021a94 a8fd57c f30202c 98bb155 479a571 3d27c70 15a001f 4f9eba6 9dd6ab0 07fbe13 08b607e 76a1ec9 41303e1 cde8b43
d61e403 6bb23cd 8a74077 a1f2dff c396c1f 23e2221 0dda1a8 bec909b d5de78c 2fe3152 3d1e9ea 98a0f79 629652b c866a64 78a1643
6d9e4e6 e987ac3 62ff09d 60f6b0d 7acab70 d5c27a9 2c8cec2 452baee eb3fdd0 2682144 afbf62a f91f97a 1a180ee ed04380 41f5172
680f1aa 85263f7 3c51744 649cf0b ab05f66 66c196b 10229d6 7fee3cf 7cd2725 3161ffb e39ee7e 5d18bf0 0d415d7 cc2061a 3b3362b
9f5a56d 9eb6a21 6485be9 fd4c75b 93c2b7d 9e7920f e5d1b89 ceebd53 32aa083 a21645e e28832e 6722657 c49cc9e 2b017fd ab5d918
83c879f f6d9de7 1150944 25ee32f 25f9bff c233ecd bb3919d 4d593d4 5a0995a db204f9 859963d 5d2c148 3471165 5b2bb52 7146841
c18d760 e62573d 7419d71 cfdd4af 144b229 05c181d b6414aa 07a3ec8 c22d1a8 55a0187 2373509 fd5ad5a 009b14f c7d5865 f86bfb2
a10262a a0a7ff7 d8b7c7f 6596219 1601d35 63d752b 10b572d 7781fd7 441b33f 53dc5eb 16701c3 b889f3d b60c6bd 09d0047 c9454d3
9537825 7af51cf 0c655b8 9949284 bfe9998 f80223b 6926922 d6f72e2 395a526 df2dcc7 2db26cf 4b60829 b2ee158 3b51460 1ea476e
f8863bd 157a12c 0891fa3 aea510d e6d0d08 15057dd fd01061 4333aca a3b529a b898545 935b572 f61e0ba 8697234 a6d2625 258f608
10ef7a6 0c6ca90 e34d2ac 1480766 add0261 3e2fa85 5e84866 8996249 5d63fff 26ff44f ad46097 99729e9 14d422f ac94484 41d69d2
6ed5237 2dca85e 3baba7b 5c69c02 8cc0b38 aafe0e8 60f58b9 9954e19 f47f442 93a8053 0afb276 c73a59d c161119 e593e7d 0779207
f6ea139 0fff2d2 1877738 c48ae39 3227d50 fbc4aa0 ff3c6e2 a1f9edb 9d25778 4eb4bfc 40f8fd0 3bbe3d9 d953107 cf37b61 9acdc6f
3e5c0aa 032b9d1 91937ef e29b6b4 d0b4092 000d43f 7fcf70d a6b585f 0bf344c 230300b 38496a3 e99f237 a96fb82 ae3d2a9 f8e17f1
71b70b5 6117759 04661a6 b1340a1 be126a6 342a07e 134addd f5171cb 1ec2ece 64d47fd 6655204 8a1aa06 28762c8 064730a 3e3a913
347ddc0 3ff7fbb 562d7e2 0ddf49b 535acf6 ac72078 4b6cdc1 8fa11f0 174c44a a4b2ee3 ae8181b 3760bcf 69fe8de 2f989b9 71b8eae
0c6f9a2 0a17c26 0ee573c 69c9bb2 90e2070 42f4ff5 a48de09 b63e209 91f075a 9358d70 239d56f 3c77e9f bf90710 40f79d7 4871358
d41d604 24aef32 c44cca0 8849580 a4d88d1 1a303b3 b99bc5e fa8cdd4 d6e3f77 34fa017 9de54a5 b41b41b a4bc948 a47a5a9 36a0057
1c96a01 6c16807 f339363 81c555f 81c74c7 b76d755 40210ea 90c889e b029b73 9515a14 3faaa1a c8d868b 21e8b55 3bdccb9 8c497b7
8c55263 a99d2e5 ac90c36 a09cde3 1923ce4 db6b39a f2a1551 2a25f4d d2a4904 4b3f2e4 3d82ca6 eef8bb2 9ccc161 ce5a73e 40a1026
25ec560 a88dc41 cec7fb6 205983a 7408074 7e93822 c134345 1629fb9 7c3a1fa 3858dc9 36fba84 511bd47 0edd2fb c9b17cc e10cb94
e211236 a5e57e4 b19456a 1060fea ccfc02b eae7f10 603889a 193ce98 7310abe dbb0520 53d0f69 2a785e9 e1fbced d7cabfb 3247841
046de56 85f6853 1c0832e b00657f 5525d77 aff9494 b39b8a4 4d182a1 bcebc0d 87e2c09 2dd0008 3e3909a 9a4eebe 6a6f755 4d88a8a
93ba30f fbd07ec 0ed31f5 afa8229 7281e0b 4b9a86a 2735ced 05a8b5e 03f17e8 cb633e3 40a0873 0186284 c97876e e846b69 3bf47d6
4f7f883 5ce8a0c 00f5302 b0a80df cd57683 6274377 e8977b0 d67f7f9 ba24697 f6a9daa 6b03ffa 9dec370 3f20451 2a44370 a85a44c
90567fc a04662f 95677cb 82f7387 2fa6d83 f504a14 d989842 eddce12 3278a52 d4c86e3 2271b63 cca0702 690f299 8824727 37c4b81
5940dde 49c6d6f 3996b63 fb0a942 ab94a99 0b0931c 5542f56 f640689 57387af 4a16970 473674a 4e32663 e67f103 c483bf6 cbb7acd
40dd980 a3e09ad 7a34e3c d1f62be 3cabf56 699a411 82afc84 3aff9bd 6e49885 291ace6 82629f8 87f7064 6cb13c7 8a92fb6 0047aa2
069bae2 031f73f 4e3d8ea cc404a6 dda8791 f7fb0cf 31007c3 0f5bafa bfbff6f b291ad6 9897189 1f532d1 18a210f b3cdf8f 733296f
261e5fe 8eb2376 9c3285e 9a2f578 85e5f47 08d5783 bed20be b5cfe1f aed946c b345557 542ca77 99f7396 3d6f73c 0da8901 54ef422
b925cfa 7e614f1 6bb4592 38e7ee7 15a832d 6a459fc 0898a2f 6ff539a 12cb82b a30d4cc 785c34c 7fe3620 0c36307 b315517 3b39d7a
048f65d d15ad3f 8045789 68a6ac0 9aa424a d6ac457 2e9a3cf ae4e402 986f680 247f4e3 5cfe514 cc2c312 fb8f972 95f4f7b 576e177
2c1da0e 46dc201 0837410 f3943dd e23bb70 035a115 f2cfe2e fcdbe91 1daca4c bab83a4 077adb9 2404197 ddf6ac2 29e3080 3c12985
f29e342 12983cc c7a8a5a ecf26c8 3e75bae 3ce5616 bbb1b61 c8c2326 d8fc8aa 52d2b14 73bb964 2157f53 7090a7b 7c7923f 351e9fb
77482ff 82ef16a d2b57cf a59ed30 d8d9620 e48704f a5923a0 a6524d8 95d6d4f e4e4834 5568431 8b737fe 5e2033c 981552e ab08612
dbb34cc 5707c3d 681c66f 34c2346 4f532e0 89cdc43 132b1ee c2fa2fd 6ef66da 99c6035 cc1b40c f64cf3c a581e4f 2f78d7b 90c60f3
96c11f9 738000f 8c6bf93 5078e92 508350b 14c810e 20e2f06 5ae50d0 78b0d60 c1c2f55 e0d2de6 88d8ab3 0e87777 eecfa1b a8c8a96
9cf88aa 2e8b210 30b9ea0 73439e1 1bff6a0 f27a184 c6c28dc 00b4a47 a4ed09c a32f0df e4ae55b 781ec0d 3fcbeed e996e7d 00a5364
13ae634 b0e925e 4ea4772 6df8c89 7f761d6 fb17e25 3b85aa3 2d8935c b91c624 f602051 0104e39 ce5ace2 a004780 4ee6a2c 3381277
49d5cab 13830e0 5de055e 441a63c a3362fb 0354f22 c1e796b 83d5c16 29a67ec e09995f 84df885 045a866 594a120 f8f545c ed2bbc0
ca10545 0265e8d 0f30d81 29fb3f9 e16642f d0ed9b4 1cb1fa1 7a6ab08 768cde1 b6da6ec 775a486 7183671 744189f 4c4388f 8570415
3ac950c b461ea8 4e31b86 5c83726 efba59d bc5ebb7 b7c7ed7 315191e b422463 7c8301a 31a5411 e7c0cae e320a37 cddd7dc 6bffbfc
5e09057 bf835b5 820504e 1c5be28 2887250 0b44d4c 6b0fd66 aae7323 1ab4353 61ef5cf f7084fc f4048f8 8850c5a 3de77d6 f234292
6f6a897 d9cc6b4 adae6b6 dc7fd23 a85e2a5 e0b4534 71b07ad aefe15a 5990fa3 0c368fe 05d3f7c 5d4cc9a 6b11290 8004fef 42b0beb
b0902b2 c31ff8b c08c9d4 a04f6bd 4aa9fde 7d5f3cc 01f4e50 5a26243 170b992 be15836 acd5ba8 f0ce21b 8518306 681df50 d54d05a
5375abb 3ca7041 cbccb38 05e47c3 2764a77 7f5c3b6 8908970 6204cdf db52d57 27e3ad8 53f6642 23b8736 c1c55ea 2906d8b 972ac9f
9a8cb98 f062d48 d69a737 4e5265e c004dc4 c924c44 183f6fc beb29a1 93a236c 4e73af3 415f834 ad7f644 16273f8 177b295 171a883
34d815c 2e6ab37 2f1c814 d282cf2 70592cb 58afc5f 38a9d30 f3e2a75 8a7b4aa 1fefaee a44dff1 f26179e 83e6941 942661c 5bab356
8dd5a7e 3aa09b9 327a99c 881f0ca f1c8c2c 3c84ce0 be49c02 82b593e 5961c75 1080c8f ad9849c b1dc330 cf30b29 d655e16 b109f7d
43fa980 48d8dcd a0fdaa3 2429e0b 004162a ed288bc 2844029 92bea07 90cfba4 a204e31 3065a2a cc55827 f2830b6 a9aa506 be211c8
36ec547 a1fdd7e 23e4dfc 2c8b594 59e57a4 fd5a87f d14f1e3 9c42b9b cf4de26 a6972ae 8bd8c93 21416c4 0c51d92 48b6520 aeb3a4b
6377dce 7354848 6fc499f e629fe5 803906b 297a72a a59abea 72b16b1 9233d83 0d1b80d f9e8897 e4847c8 a54725c 9e24689 7f1fa48
9f47ceb b5b7ffb 084d307 9874e84 c0b2e5a 46a32e7 08b8b24 82d6c3b fd23080 2bfcdd8 255a6ab 7d744b2 8a749c6 f738a03 cab22e7
cd337db 2025abb 9197908 030879f ad06609 4191def e65ef30 17ef753 a481c26 7156416 eadca48 bb1e576 55e42c0 8a6c9fe 88dfcbe
25413d2 d484458 4256f75 3b9df60 4e308c0 298bf48 accc702 fe621cb 07c00d9 78d4314 52a4c17 2179939 ea4989e
"""
"""Oldest first."""
_UNTIL_C4E2291 = tuple(_NAMES.split())


def _between(first: str | None, after: str) -> frozenset[str]:
    """Versions from one commit on, or from the first, until before another."""
    start = 0 if first is None else _UNTIL_C4E2291.index(first)
    return frozenset(_UNTIL_C4E2291[start : _UNTIL_C4E2291.index(after)])


KEEPS_LOGITS = _between(None, "e29b6b4")
"""Before June 12, 2024 (e29b6b4, `del pred`) the logits lived until the backward pass had ended."""
UPCASTS_LOGITS = _between(None, "e10cb94")
"""Before October 22, 2024 (e10cb94) the model itself upcast its logits; since then the loss does."""
COMPILES_NO_LOSS = UPCASTS_LOGITS | _between("e8977b0", "bbb1b61")
"""Only blocks were compiled, before October 22, 2024 and from December 18 (e8977b0) to April 2, 2025 (bbb1b61)."""
COMPILES_ALL_OR_NOTHING = _between(None, "08b8b24")
"""Before August 20, 2025 (08b8b24) losses were not compiled without blocks, as in DeepSeek-V3's files since."""
WRAPS_BLOCKS_ALONE = _between(None, "83e6941")
"""Before July 28, 2025 (83e6941) FSDP wrapped blocks alone, and the root held embedding, norm and head; the last block
kept its parameters after the forward pass. PyTorch's RMSNorm had no kernel of its own until then (pytorch 2.8)."""
SPARES_THE_FIRST = _between(None, "8b737fe")
"""Before April 7, 2025 (8b737fe) embedding and head did not count when layers were shared among a pipeline's stages."""
KEEPS_MAGNITUDES = _between("87e2c09", "8824727")
"""From November 26, 2024 (87e2c09) to February 6, 2025 (8824727) selective checkpoints kept results of `abs`, which
float8 needs of each operand."""
SENDS_AGAIN = frozenset(_UNTIL_C4E2291)
"""Before September 6, 2025 (c4e2291) selective checkpoints did not keep what experts had been sent."""


def is_among(framework: object, version: object, commits: frozenset[str]) -> bool:
    """Return whether a version of torchtitan is one of these."""
    return str(framework).lower() == "torchtitan" and str(version)[:7] in commits
