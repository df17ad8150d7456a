"""Many requests at a time, results in the order of the requests: so that a verdict depends on no race."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

WARM_UP = 5
"""Requests that are asked one by one before any are asked together."""
AHEAD = 4
"""Times the most at a time that may be asked beyond the oldest one that is still open."""


class Pace:
    """How many requests may be under way: one at first, then twice as many each round, half when a server struggles."""

    def __init__(self, most: int, *, warm_up: int = WARM_UP) -> None:
        self._most = most
        self._wait = warm_up
        self.limit = 1

    def went_well(self) -> None:
        """A request was answered without trouble."""
        self._wait -= 1
        if self._wait <= 0:
            self.limit = min(self._most, 2 * self.limit)
            self._wait = 2 * self.limit

    def struggled(self) -> None:
        """A server could not keep up."""
        self.limit = max(1, self.limit // 2)
        self._wait = 4 * self.limit


def in_order(items: Iterator[T | None], ask: Callable[[T], R], pace: Pace, most: int) -> Generator[R]:
    """`ask` of each item, at most `pace.limit` (and never more than `most`) at a time, in the items' order.

    None among the items means that there is nothing at the moment. An exception of `ask` is raised in its turn. Closing
    the iterator leaves what is under way to itself.
    """
    todo: SimpleQueue[tuple[int, T] | None] = SimpleQueue()
    done: SimpleQueue[tuple[int, R | BaseException]] = SimpleQueue()

    def work() -> None:
        while (task := todo.get()) is not None:
            try:
                done.put((task[0], ask(task[1])))
            except Exception as error:
                done.put((task[0], error))

    started = yielded = workers = running = 0
    waiting: dict[int, R | BaseException] = {}
    more = True
    try:
        while more or yielded < started:
            idle = False
            while more and not idle and running < min(pace.limit, most) and started - yielded < AHEAD * most:
                try:
                    item = next(items)
                except StopIteration:
                    more = False
                    break
                if item is None:
                    idle = True
                    continue
                if workers <= running:
                    workers += 1
                    # Daemons: a thread that waits for a hung server must not keep the process alive.
                    threading.Thread(target=work, daemon=True).start()
                todo.put((started, item))
                started, running = started + 1, running + 1
            running -= _received(done, waiting, wait=running > 0 and not idle)
            while yielded in waiting:
                result = waiting.pop(yielded)
                yielded += 1
                if isinstance(result, BaseException):
                    raise result
                yield result
    finally:
        for _ in range(workers):
            todo.put(None)


def _received(
    done: SimpleQueue[tuple[int, R | BaseException]], waiting: dict[int, R | BaseException], *, wait: bool
) -> int:
    """Move what has come into `waiting`; returns how many. With `wait`, stays until there is one."""
    count = 0
    try:
        while True:
            number, result = done.get() if wait and not count else done.get_nowait()
            waiting[number] = result
            count += 1
    except Empty:
        return count
