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
_LATER_NAMES = """
c4e2291 99c0cb2 71dea16 612e4a1 6228f22 bd3850b d240be0 40a8725 e99e16c be2c83d d66b72a 60645bc c9cb304 5ec8765 85d92de
5a8256c 22d2d44 476a965 686b523 8d20f02 78841bf 0f34257 3e1b843 7e805a9 0943771 82f0287 5359d98 24e9105 5b5d468 a310420
8a2686c 9f3fe08 37e536d c854924 76a9293 5d8e2d5 fa21894 177b050 8ec37d2 d7169c9 0cfbd0b 99fee81 82a9530 5217163 4409c13
96149f6 eb13ba2 a6f0cfc 41eff53 21739fd f014f31 5bbda42 44e9218 b6ccf22 b276387 98d904f aa000a3 abbb47a 6a3a9da 42fe05f
dfd0a59 9603872 a82b77a 06bbcd2 304dfc3 d880de2 cd304c7 eca011c 248aca2 6e06a49 8631e19 58c5455 8c1d1c5 7c10480 d0e2545
4faff04 d15b59f 3ff7551 6bccdb6 92ed8b3 5fb7cc2 db82f8b f7a56e6 4db8f6e e43621c 951f6ff 7209894 1587868 b206439 fb54971
29624e3 a8899e4 75d4e4d 755ce8f 025c21b d6928f1 7b96efc b1644a4 e5ef99a de335b3 b01308a 7929410 10d694b 81a36c5 d31d7e7
efecf0c f51ab9f 444b58b 06ec495 7f126cb 8228c08 db47630 91ee9ad f1b3c9f f1a96b3 89c631c 3e084f4 2a7a148 de4592d 5a090f2
e61f2cc dc0ccb2 7fcfdf5 e150caa bc3021e a3e170c 29eb910 ff07852 60f8e55 2ea6197 8659543 bb308da 176498c ad78ed8 268020d
b6b2c2d 5ecc871 35bffe9 157d30d 4caa379 61c25f8 ae03494 f4514ef 02990b0 fddd9eb e37f83f 20fcfd7 11d73a2 f5d2b18 edbf349
2f9b44d 55c63c1 cbfb8e1 4b2b31c ce1c0fc e7ee95a 23c993c 028a455 d9bdfbb 22e959a 3819737 bfdc974 4a5fa99 c8ebd7a 605a9a1
f541d91 8bf2265 f5e3a84 d167a20 58fa181 f8fa21e e1f7f31 ad9f188 c70310c 7e1edb6 7e10d60 607c70d d0393b3 1b9cfda cbdb311
befb7ae b39377f 53e949c 571ce7c b3da1a2 8d020cc 341b155 1168f9e e98ae99 303f284 575674a b41832a d192411 1ebd914 f1d41a1
f3f2e8f fbafd44 a632855 4389efd 669845f fcc5643 7a398ea 64dc922 995154f 9bc50ea 2aac20a c1f4e94 f3748d8 c283a84 64997d2
c08fa57 e36d027 f64bbad 183a0d2 36a4b69 4438764 fd49b4b 658f94c b786a3d b21555f 1bd2548 4b3d25a 29aafb9 a452121 30ab580
a95d203 5077be6 64b5e15 81af883 5dd9f4c 62f5806 7e4ab85 e16af85 795a7a0 9f211ec ec246c9 c26ea60 6408426 9240172 5ef90fa
1556971 a085b0e 09c6d74 a25dd8f 7fde8b6 42fd903 69cf207 1e8f9ac 0a2107f 8ff9e42 5621112 81f5a5a 0cb7435 d12ff2f 13c9837
ff0829c bc4b809 a33d0e3 f0955d0 92ed38a 6f9cdb3 169ba3b a9bbae2 374ea0f b7f4de1 182b79b cee9482 808cdf7 a0eac0d 0c04702
1a0713c 485778d eeca215 4aebdd2 5ff1f87 62daeb3 02661e8 fdd3a37 2b0a4a3 4177c03 1a36996 41753c6 e215f4f 6278dcc 71517cf
a7ff889 40b54e4 cf86edc 100ca31 e38d7ab d8d81a8 30bd22b f80a441 9f3f41e e3540e0 a103f4c 846653f 2716654 ba8ace6 27930cb
fde830d e347b1e 10d8a30 2ce22eb 7a6e451 5699908 b36efaf 73a0e69 bc9f3ff 238fa99 9810191 736f12d 71eb2fa 5580c09 4032725
a4ca5a4 353c064 ac359c0 6fefe5f 54aeddf 9d4f656 6a74d74 7464aef 8d2ef46 ada6f7c 9cc070c d6a9434 a51f19f d27ac1c f113706
e51a77d b4bbb2c de32920 6b081f4 cdb8d73 fadb06b c7378f6 6d60685 948d5e0 f9f30e8 dfb1a6a ab5ed59 65f6a98 eb81291 c629333
2d3d11a c86d0dc 6b333ab 32f9c58 81e7625 a84a68e cfd67d3 8e17400 6d1ff9e 330c8f8 319e350 e51e914 57790ab c3fe964 fccb7bc
17d6083 26762a9 6d37d46 b0a7d32 e1847f4 8d4f65a 2b976ee e57032d ac47189 c8d2d71 c6856e3 b243c71 29e27d0 958b678 1944dc9
156db2e eb3365c d10e124 efec118 5732118 4ca46c5 cdd75d3 0691f51 54d47f6 383b467 72f89d2 4801b18 00d6e6a fca8ab7 3da072e
7222941 2466092 fa8e6cc ae039c9 1a7a3d3 87920ca 3d4425e 3787817 0187d5f 1a19c69 27b3985 ea614ba 11c2bfd a079987 422b057
f9fcdc1 82f508e c9a68de 34f705b 1b47e3e 57e072f 600ec6a c4ee47b c0c0bf9 dbf98dd 555a4f4 b2d6d67 129b517 dcd8d26 d229e97
1f02964 114151a 8953d2e cc245f5 8625f22 b703231 25b7e06 62da83c 5fb6600 0fb79c5 d4dfa9e 92c4422 d84e83d 18a46d4 cd9bee1
f60e779 7c8fc3f aa68af1 d178602 04893dc a3e18e1 78348c8 63a80b2 bfe264e 7adf060 52ebfc6 8730fb4 b01adfb 2fdf2e4 c146554
2618196 3d0b88d c78b96a adbaa06 18300a1 fe80b63 7e2ef52 30ca37a fbdc4c9 f63e5ce 3d4e224 f7ebbe3 f531de5 ea01e3a 32ff054
485bf78 4b33474 1beb44d a146a4d d7630e1 cceba37 1b394fd 8bc267d 52e34d3 b330efb ac13e53 6c675c8 3befe02 0e0590c a63b8bd
4af0a8a 3057525 2ee33fa e7dc053 39e1e41 ac2de18 762a24e dbe5745 06dfdaf 036433a 390da99 03b076c 21c4913 70f005e ec1b1c9
ff95477 4a57715 2c6bb1c e43f252 d98fa54 a00ef7d 8328876 3c81104 5470cc7 4b45999 00b7f56 7ef1055 55658e9 6930593 e24e465
98ff51e 1f9c677 dd33cde a5a60cc ab598d9 12979c6 aad9754 e1189d3 314577b b9e8d1d dba7154 9f055b4 5c02bb5 878041c c630d30
b245fca f5ecda7 4f73d02 6f7a6a7 6d8c7e9 b35ca33 42170d8 74485ea 5242bdf 0610235 98ec7b4 be09084 8b7a85c dafd87a ea6a1cd
1c4e18b d391865 5e46f94 132683a bdbd658 2359c2f aa0214b ad7a865 ae4b0a7 d2adfd9 c88cfb0 09ea7d8 ab87f58 de7fc7b 114fedc
518d708 ca46729 7cec166 08da451 fdc71a3 a91f57b 4a61bd8 526c7de ac154e6 dd0cbe6 000c178 66b204b 50cd61d f911b4e 627f4a3
9086367 439d067 4984c14 fc54b89 1a2fef0 0de35f9 5e67901 a676793 4698b7d 70b044c 94c523f c8472cf 7129134 d52d247 f213796
acd53fc 703b72e 569022d 95a2542 b21bf09 e227760 14a9bf4 0239d72 36dd1e9 d40df99 a5206f1 136f75a 327afb8 022d9b7 9c767cd
a7aeaeb 42b7364 bfc2914 eb518a1 a720546 cca3be5 bd6aec6 1786292 8e82084 99a2bcb 73680ee 786e26f 858a4ac 6179e65 1ea5d51
6348d93 61138e0 f3a5fdf b9e3352 3d6b8ca 112fd92 053dbf9 5b5f578 8313428 9ed1a02 69761ca a364b4b 20628f4 35c5d52 ef8e282
a890192 719085a a3a0160 0ad6772 533795e 01a8b06 6495ce5 4e48ebe efebe6d 47d3045 a2b5ee6 c4b409a 115f4c9 0138bde f7940d5
9732db4 70340f4 2b935fa 37fe579 2e5f137 14f6a75 d27d0c3 627126f 95ae6a0 db5da4b 6065055 179d9e1 f522db0 0b148a2 080c1d4
b2cd149 706ed8d af8d243 d3c96e8 d341407 2ae1340 0b6a29e 2c237ae 74bac7e b6830b2 5fa7af6 e62ab09 f32a5bb e425316 ef54395
301384b a24b247 2dfee86 c6cfaa2 ae5ff10 046fdbb 8599818 466da8c 94d5f59 e2fea3f 1d392ca d91a9fc 19f88a3 52f3142 bf2842d
4ebb089 da6ff79 54887a3 4ed3c53 5638c49 ecd117e 0fae167 74181b1 0d8f57c 28b83bd e917ff4 acece3b 8ba1c6b d107aa4 ca4c7f2
0b5e899 0fadde3 2ceff82 e9dbff6 b301dfa 1a0fe3e d57df09 5ca23a5 7f070c9 7f602b9 34801c0 1a22c2d 7b418ab 6f2fa2f 1690e0a
cee4982 d4a3c63 4614e30 3781d1d a2a0d99 8cdfdc2 f0795f0 b64292b a670699 cb7bf09 d64eabc a866d04 9f9ae4d c9126af 013890b
6a1b334 4238c35 ebfceeb cf3c431 8aa96ac 52a292d 2057b56 cfe97c6 83e4904 963c20c da38566 3f721b4 b585282 c2a3771 19c567f
78b08dd af33f76 58b0344 7074b05 c59f8c9 7fcd9be f39e124 200100e 28483d0 c04f92f 92abc88 9c94bda 3079bc3 065c262 2210414
b72d986 0acaaa1 b598831 3c4d470 8e64b62 4c6f72d faa96e7 04a3098 051562e 27aa490 e86d9e6 37ea3f1 d6ced46 8f42a31 1ab5a72
53bad50 4843802 df095ce 4e83e35 70ea1ce 8ec585e 3f838c9 d1fa4bf bb34962 e4b1220 baba6d8 632f67f a3f4c1c 72338b0 4b22687
88bb34e d332866 d3d123b 461375d f0c73ca 02d24f0 06d4a35 23607cf fec0c17 d20c2c7 2e998c0 5f08ee1 c0428bb 641b5f6 21c77d1
81e4c0a 2b22fc1 da230bb bc878a7 577533a 67b4b1d ea9a192 43e52fd d92336f 14fcfc8 aefb4a2 d893b00 0dc3002 7f3f89d 465cd67
7f5d119 842d354 98efb19 a977676 9d3c7d2 51f107f a9c5edc 1695457 8738689 0f929e7 e6adf26 adf340d fd712e8 7f0749e db0a723
67ca690 831e36e 19258f6 f59f47e 2816b97 07828a4 34c6f5b 7c5ea51 2f1ca1d 3975b85 1d9af9a a0c831c bb453e0 eecdf50 1cc10d1
772dd1b 1c02a5c 88030ee 5ba4399 96ab748 3b8e060 14fb675 0a73d82 588fc12 7b579ad 936ac8b b5ff9e6 9ae2be6 096a72a b38bbde
cd8950b 0e9e265 8e55544 78fc8ae c5d93d1 a9a136b d863c31 2e1ce04 a6815bb d226342 61c010f 609c8c9 5123801 e6ef9ba a695565
05d3c36 439e0ee aa1d374 1b3efc7 d7f468c eb27b0f e5cc365 cf066ac feb8cdd 3434b65 3d437df 196a889 458cb90 d2db10c b70844d
9ccbb57 b3b60da 70dd945 7ebeb81 e403578 d9c5d70 c48327f 8ee8b42 581f175 53a4032 571662f bfd0a99 073221a 977da7e 6392a5d
d10029d b934b0c 46c7971 efce07e 706c63b 739bb9a df81df5 4610fca c6c2fb2 395833a
"""
"""From September 6, 2025 (c4e2291) until before June 24, 2026 (3396a4b)."""
_COMMITS = (*_UNTIL_C4E2291, *_LATER_NAMES.split())


def _between(first: str | None, after: str) -> frozenset[str]:
    """Versions from one commit on, or from the first, until before another."""
    start = 0 if first is None else _COMMITS.index(first)
    return frozenset(_COMMITS[start : _COMMITS.index(after)])


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
SENDS_QWEN3_AGAIN = _between(None, "114151a")
"""Nor did Qwen3's, whose list was one of its own, before March 23, 2026 (114151a, "Centralize selective AC policy")."""
_RELEASES = ("0.1.0", "0.2.0", "0.2.1", "0.2.2")
"""assets/version.txt until February 20, 2026 (73a0e69)."""
SEPARATES_HEADS = frozenset((*_COMMITS, *_RELEASES, *(f"v{each}" for each in _RELEASES)))
"""Before June 24, 2026 (3396a4b, `fuse_qkv=True`) queries, keys and values came from three matrices."""

LEAVES_CONTEXTS = _between("6a3a9da", "92ed8b3")
"""From October 9 (6a3a9da) to 14, 2025 (92ed8b3, "Fix incorrect indentation") context parallelism began only with
compiled autograd: each rank of a ring computed the whole sequence."""
COPIES_HEADS = _between(None, "ff0829c")
"""Before January 27, 2026 (ff0829c) keys and values were copied for every query head."""
KEEPS_NO_COMPILED = _between(None, "575674a")
"""Before December 8, 2025 (575674a, "Remove the hack for SAC + FlexAttention") selective checkpoints did not name
results of compiled code."""
CASTS_FIRST = _between(None, "3d6f73c")
"""Before March 10, 2025 PyTorch's composed RMSNorm cast before the weight (pytorch/pytorch#147203)."""
KEEPS_WEIGHTS = _between(None, "cddd7dc")
"""Before June 13, 2025 PyTorch's compiler kept weights in float8 for the backward pass, since parameters were not free
to it (pytorch/pytorch#141881 and #148922; torchao gave up its workaround then, pytorch/ao#2356)."""


READS_FILES = frozenset((*_between(None, "9810191"), *_RELEASES, *(f"v{each}" for each in _RELEASES)))
"""TOML says what the job is; since then a function of Python does (pytorch/torchtitan#2386)."""
COUNTS_SEQUENCES = frozenset(_COMMITS).difference(READS_FILES)
"""Of those whose jobs are functions: sizes of a micro-batch are in sequences, since August 20, 2026 in tokens."""


def is_among(framework: object, version: object, commits: frozenset[str]) -> bool:
    """Return whether a version of torchtitan is one of these."""
    return str(framework).lower() == "torchtitan" and str(version)[:7] in commits
