"""The bound on a producer's memory, and the order in which waiting callers are served."""

from hypothesis import given
from hypothesis import strategies as st

from broker.client.producer.buffer_memory import BufferMemory, MemoryRequest


def ignore() -> None: ...


def test_callers_are_served_in_their_order_and_before_newcomers() -> None:
    memory = BufferMemory(100)
    memory.used = 90
    large, small = memory.request(80, ignore), memory.request(5, ignore)
    assert not memory.has_room(5), "a caller that came before waits for more"
    memory.release(60)
    assert not large.is_granted
    memory.release(10)
    assert large.is_granted
    assert not small.is_granted
    memory.withdraw(large)
    assert small.is_granted
    assert memory.used == 25


def test_request_is_granted_at_once_if_there_is_room() -> None:
    assert BufferMemory(10).request(10, ignore).is_granted


@given(st.lists(st.tuples(st.sampled_from(["take", "request", "withdraw", "release"]), st.integers(1, 100))))
def test_the_limit_is_never_exceeded_and_nothing_leaks(steps: list[tuple[str, int]]) -> None:
    memory = BufferMemory(100)
    held: list[int] = []
    requests: list[MemoryRequest] = []
    for step, number in steps:
        if step == "take" and memory.has_room(number):
            memory.used += number
            held.append(number)
        elif step == "request":
            requests.append(memory.request(number, ignore))
        elif step == "withdraw" and requests:
            memory.withdraw(requests.pop(number % len(requests)))
        elif step == "release" and held:
            memory.release(held.pop())
        granted = sum(request.size for request in requests if request.is_granted)
        assert memory.used == granted + sum(held) <= memory.limit
    for size in held:
        memory.release(size)
    for request in requests:
        memory.withdraw(request)
    assert memory.used == 0
    assert not memory.is_awaited
