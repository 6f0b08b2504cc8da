"""Client quotas: which quota applies to a client, how much the client has used, and how long it has to pause."""

from broker.quota.client_quotas import BrokerQuotas
from broker.quota.mutation_quotas import MutationQuotas
from broker.quota.precedence import QuotaTable
from broker.quota.sampled_rate import SampledRate
from broker.quota.token_bucket import TokenBucket
from broker.quota.windows import QuotaWindows

__all__ = ["BrokerQuotas", "MutationQuotas", "QuotaTable", "QuotaWindows", "SampledRate", "TokenBucket"]
