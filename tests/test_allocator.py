"""The caching allocator's rules, one at a time."""

from hypothesis import given
from hypothesis import strategies as st

from memcore.allocator import LARGE_SEGMENT, Pool, Room, end_step
from memcore.units import MiB


def test_a_request_opens_a_segment():
    """Up to 10 MiB a segment is 20 MiB; from there on it is the request, rounded up to 2 MiB."""
    for size, segment in ((2 * MiB, 20), (10 * MiB - 512, 20), (10 * MiB, 10), (33 * MiB + 512, 34)):
        pool = Pool()
        pool.allocate(size)
        assert pool.reserved == segment * MiB


def test_what_is_left_of_a_segment_is_used():
    """A block is split when more than 1 MiB is left, and the rest serves later requests."""
    pool = Pool()
    for _ in range(4):
        pool.allocate(5 * MiB)
    assert pool.reserved == LARGE_SEGMENT
    pool.allocate(5 * MiB)
    assert pool.reserved == 2 * LARGE_SEGMENT


def test_a_small_rest_is_not_split_off():
    """With 1 MiB or less to spare the whole block is handed out."""
    pool = Pool()
    first = pool.allocate(19 * MiB)
    pool.release(first)
    assert pool.allocate(20 * MiB) == first
    assert pool.reserved == 20 * MiB


def test_neighbours_merge():
    """Free neighbours are one block again."""
    pool = Pool()
    blocks = [pool.allocate(5 * MiB) for _ in range(4)]
    for block in (blocks[0], blocks[2], blocks[1], blocks[3]):
        pool.release(block)
    assert pool.allocate(20 * MiB) == blocks[0]
    assert pool.reserved == 20 * MiB


def test_the_best_fit_is_taken():
    """Of the free blocks that are large enough the smallest serves a request."""
    pool = Pool()
    large, small = pool.allocate(60 * MiB), pool.allocate(30 * MiB)
    pool.release(large)
    pool.release(small)
    assert pool.allocate(25 * MiB) == small


def test_fragments_are_not_enough():
    """Free memory in two places does not serve one request: that is fragmentation."""
    pool = Pool()
    blocks = [pool.allocate(20 * MiB) for _ in range(4)]
    pool.release(blocks[0])
    pool.release(blocks[2])
    pool.allocate(40 * MiB)
    assert pool.reserved == 120 * MiB


def test_expandable_segments_grow():
    """An expandable segment gains pages at its end, after what is free there."""
    pool = Pool(expandable=True)
    first, second = pool.allocate(30 * MiB), pool.allocate(30 * MiB)
    assert pool.reserved == 60 * MiB
    pool.release(second)
    assert pool.allocate(50 * MiB) == second
    assert pool.reserved == 80 * MiB
    assert first == 0


def test_whole_segments_go_back_where_there_is_no_room():
    """The optimizer's step asks for 50 MiB of 100: a segment of 60 that is free as a whole goes, one in use stays."""
    room = Room(100 * MiB)
    pool = Pool(room)
    used, unused = pool.allocate(30 * MiB), pool.allocate(60 * MiB)
    pool.release(unused)
    half = pool.allocate(20 * MiB)
    pool.release(half)
    end_step(pool, [], [70 * MiB])
    assert room.reserved == (30 + 70) * MiB
    assert not room.short
    pool.release(used)
    pool.allocate(71 * MiB)
    assert room.short


@given(st.lists(st.tuples(st.integers(MiB + 512, 64 * MiB), st.integers(0, 5)), max_size=60), st.booleans())
def test_blocks_never_overlap(requests, expandable):
    """Whatever is asked for and given back, live blocks are apart and inside what is reserved."""
    pool, live = Pool(expandable=expandable), {}
    for wanted, age in requests:
        size = wanted - wanted % 512
        address = pool.allocate(size)
        assert address not in live
        live[address] = size
        if age < len(live):
            gone = list(live)[age]
            pool.release(gone)
            del live[gone]
    ends = 0
    for address in sorted(live):
        assert address >= ends
        ends = address + live[address]
    assert sum(live.values()) <= pool.reserved
