"""Client quotas: which quota applies to a client, how much the client has used, and how long it has to pause."""

from broker.quota.client_quotas import BrokerQuotas, QuotaUse
from broker.quota.connection_rates import ConnectionRates
from broker.quota.mutation_quotas import MutationQuotas, MutationUse
from broker.quota.precedence import QuotaTable
from broker.quota.quota_changes import UnusableQuotas
from broker.quota.rates import QuotaWindows, SampledRate, TokenBucket

__all__ = [
    "BrokerQuotas",
    "ConnectionRates",
    "MutationQuotas",
    "MutationUse",
    "QuotaTable",
    "QuotaUse",
    "QuotaWindows",
    "SampledRate",
    "TokenBucket",
    "UnusableQuotas",
]
