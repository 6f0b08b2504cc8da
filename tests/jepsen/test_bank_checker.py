"""The checker of the bank sees amounts that are created or lost, and accepts histories close to such ones."""

from collections.abc import Sequence

from jepsen.checkers import TRANSACTION_CHECKERS
from jepsen.values import Posting
from tests.support.sample_history import broken as broken_of
from tests.support.sample_transactions import SampleTransactionHistory


class SampleBank(SampleTransactionHistory):
    """Account 0 is in partition 0, and account 1 in partition 1. Both begin with 100."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: tuple[list[tuple[int, str]], list[tuple[int, str]]] = ([], [])

    def transfers(self, name: str, *balances: tuple[int, int], commit: bool = True) -> Sequence[str]:
        """Postings with the balances of account 0 and 1 before and after. Returns their values."""
        values = [Posting(account, *each).value(name) for account, each in enumerate(balances)]
        self.writes(name, *enumerate(values), transactional_id="teller")
        if commit:
            self.commits(name)
            for log, value in zip(self.logs, values, strict=True):
                log.append((2 * len(log), value))
        else:
            self.aborts(name)
        return values

    def ends(self) -> list[str]:  # type: ignore[override]
        """Read everything finally. Returns the broken promises."""
        for index, log in enumerate(self.logs):
            self.did("final-read", ("q", index), tuple(log))
        return broken_of(self, TRANSACTION_CHECKERS)


def test_total_is_constant_at_each_boundary_and_aborts_change_nothing() -> None:
    bank = SampleBank()
    bank.transfers("a", (100, 90), (100, 110))
    bank.transfers("b", (90, 70), (110, 130), commit=False)
    bank.transfers("c", (90, 95), (110, 105))
    bank.polls(0, 0, *bank.logs[0])
    bank.polls(1, 0, *bank.logs[1])
    assert bank.ends() == []


def test_transaction_creates_an_amount() -> None:
    bank = SampleBank()
    bank.transfers("a", (100, 90), (100, 111))
    assert bank.ends() == ["BalancesAddUp"]


def test_transaction_overwrites_a_balance_that_it_has_not_seen() -> None:
    bank = SampleBank()
    bank.transfers("a", (100, 90), (100, 110))
    bank.transfers("b", (100, 80), (110, 130))
    # The wrong opening balance, and the amount that it has brought back.
    assert bank.ends() == ["BalancesAddUp"] * 2


def test_half_of_a_transaction_is_missing_finally() -> None:
    bank = SampleBank()
    bank.transfers("a", (100, 90), (100, 110))
    bank.logs[1].clear()
    assert sorted(set(bank.ends())) == ["BalancesAddUp", "CommittedTransactionsAreRead", "TransactionsAreAtomic"]


def test_reader_in_the_middle_of_a_transaction_has_no_total_yet() -> None:
    bank = SampleBank()
    bank.transfers("a", (100, 90), (100, 110))
    bank.transfers("b", (90, 80), (110, 120))
    bank.polls(0, 0, *bank.logs[0])
    bank.polls(1, 0, bank.logs[1][0])
    assert bank.ends() == []


def test_reader_finds_another_total_at_the_end_of_a_transaction() -> None:
    bank = SampleBank()
    first = bank.transfers("a", (100, 90), (100, 110))
    lost = bank.transfers("b", (90, 80), (110, 120), commit=False)
    last = bank.transfers("c", (90, 85), (110, 115))
    bank.polls(0, 0, (0, first[0]), (2, last[0]))
    bank.polls(1, 0, (0, first[1]), (2, last[1]))
    assert broken_of(bank, TRANSACTION_CHECKERS) == []
    bank.transfers("d", (80, 75), (120, 125))
    bank.polls(0, 3, (4, bank.logs[0][2][1]))
    bank.polls(1, 3, (4, bank.logs[1][2][1]))
    # The teller of "d" has seen "b", which was aborted.
    assert set(broken_of(bank, TRANSACTION_CHECKERS)) == {"BalancesAddUp"}
    assert lost[0].startswith("b/")


def test_reader_starts_again_from_offset_zero() -> None:
    bank = SampleBank()
    bank.transfers("a", (100, 90), (100, 110))
    for _ in range(2):
        for index in (0, 1):
            bank.polls(index, 0, *bank.logs[index])
    assert bank.ends() == []


def test_reader_starts_again_before_it_has_read_all_partitions() -> None:
    bank = SampleBank()
    bank.transfers("a", (100, 90), (100, 110))
    for index in (0, 0, 1, 0):
        bank.polls(index, 0, *bank.logs[index])
    values = [Posting(1, 110, 105).value("b"), Posting(3, 100, 105).value("b")]
    bank.writes("b", *((1, value) for value in values), transactional_id="teller")
    bank.commits("b")
    bank.logs[1].extend(enumerate(values, 2))
    bank.polls(1, 1, *bank.logs[1][1:])
    assert bank.ends() == []


def test_partitions_disagree_about_the_order_of_two_transactions() -> None:
    bank = SampleBank()
    bank.transfers("a", (100, 90), (100, 110))
    bank.transfers("b", (90, 80), (110, 120))
    (_, first), (_, second) = bank.logs[1]
    bank.logs[1][:] = (0, second), (2, first)
    # They wait for each other, and each writes after the other.
    assert bank.ends() == ["NoCyclesOfTransactions", "BalancesAddUp", "BalancesAddUp"]
