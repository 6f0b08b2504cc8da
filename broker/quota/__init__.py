"""Client quotas: which quota applies to a client, how much the client has used, and how long it has to pause."""

from broker.quota.client_quotas import BrokerQuotas, QuotaWindows
from broker.quota.precedence import QuotaTable
from broker.quota.sampled_rate import SampledRate

__all__ = ["BrokerQuotas", "QuotaTable", "QuotaWindows", "SampledRate"]
