from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, chisquare

from dualmind.errors import TrafficError
from dualmind.traffic.audit import AuditSampler

SECRET = b"sixteen bytes ok"


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.5])
@pytest.mark.parametrize("name", [str, lambda i: f"req-{i:032x}", lambda i: "x" * i])
def test_the_share_that_is_drawn_is_the_rate_whatever_the_ids(rate: float, name: Callable[[int], str]) -> None:
    sampler = AuditSampler(rate, SECRET)
    drawn = sum(sampler.is_drawn(name(i)) for i in range(10_000))
    assert binomtest(drawn, 10_000, rate).pvalue > 1e-3


def test_draws_of_two_secrets_are_independent() -> None:
    one, two = AuditSampler(0.5, SECRET), AuditSampler(0.5, SECRET[::-1])
    counts = [0, 0, 0, 0]
    for i in range(10_000):
        counts[2 * one.is_drawn(str(i)) + two.is_drawn(str(i))] += 1
    assert chisquare(counts).pvalue > 1e-3


@settings(deadline=None)
@given(st.text(min_size=1), st.floats(0, 1))
def test_a_draw_can_be_repeated_and_grows_with_the_rate(request_id: str, rate: float) -> None:
    drawn = AuditSampler(rate, SECRET).is_drawn(request_id)
    assert drawn == AuditSampler(rate, SECRET).is_drawn(request_id)
    assert AuditSampler(1.0, SECRET).is_drawn(request_id)
    assert not AuditSampler(0.0, SECRET).is_drawn(request_id)
    if drawn:
        assert AuditSampler(min(1.0, rate * 1.5), SECRET).is_drawn(request_id)


def test_a_log_in_which_somebody_chose_what_is_audited_is_found_out() -> None:
    sampler = AuditSampler(0.3, SECRET)
    rows = [(str(i), sampler.is_drawn(str(i))) for i in range(100)]
    assert sampler.misdrawn(rows) == []
    rows[7] = ("7", not rows[7][1])
    assert sampler.misdrawn(rows) == ["7"]


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_a_rate_is_a_share(rate: float) -> None:
    with pytest.raises(TrafficError, match=r"share of 0\.\.1"):
        AuditSampler(rate, SECRET)


@pytest.mark.parametrize("secret", [b"", b"short", b"x" * 65])
def test_a_secret_is_long_enough_and_never_shown(secret: bytes) -> None:
    with pytest.raises(TrafficError, match="random ones"):
        AuditSampler(0.1, secret)
    assert SECRET.decode() not in repr(AuditSampler(0.1, SECRET))
