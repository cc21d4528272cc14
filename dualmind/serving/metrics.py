"""What Prometheus reads at ``/metrics``."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from dualmind.agent.agent import Reply
from dualmind.serving.loading import Served

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """One registry a server, so that several live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.decisions = Counter(
            "dualmind_decisions", "Decisions in the log.", ["domain", "tier"], registry=self.registry
        )
        self.flops = Counter("dualmind_flops", "Floating-point operations of decisions.", registry=self.registry)
        self.refused = Counter("dualmind_refused", "Requests that got no answer.", ["reason"], registry=self.registry)
        self.labels = Counter("dualmind_labels", "Verdicts in the log.", ["source"], registry=self.registry)
        self.swaps = Counter("dualmind_swaps", "Changes of what serves.", registry=self.registry)
        self.swap_failures = Counter("dualmind_swap_failures", "States that were refused.", registry=self.registry)
        self.seconds = Histogram(
            "dualmind_act_seconds", "From the request to its logged answer.", buckets=_SECONDS, registry=self.registry
        )
        self.batch = Histogram("dualmind_batch_size", "Requests of a batch.", buckets=_SIZES, registry=self.registry)
        self.waiting = Gauge("dualmind_waiting", "Requests that wait for a batch.", registry=self.registry)
        self.audits = Gauge("dualmind_audits_waiting", "Drawn answers that wait for a label.", registry=self.registry)
        self.threshold = Gauge("dualmind_threshold", "Score from which System 1 is trusted.", registry=self.registry)
        self.state = Gauge("dualmind_state", "Number of the state that serves.", registry=self.registry)

    def serves(self, served: Served) -> None:
        """Note what serves."""
        self.threshold.set(served.threshold.value)
        self.state.set(served.state.number)

    def decided(self, domain: str, reply: Reply) -> None:
        """Note a decision that is in the log."""
        self.decisions.labels(domain, reply.tier).inc()
        self.flops.inc(reply.flops)

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self.registry)
