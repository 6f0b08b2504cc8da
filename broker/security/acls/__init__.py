"""Authorization by access control entries, which are part of the metadata. Pure."""

from broker.security.acls.authorizers import STANDARD_AUTHORIZER, find_authorizer
from broker.security.acls.standard_authorizer import StandardAuthorizer

__all__ = ["STANDARD_AUTHORIZER", "StandardAuthorizer", "find_authorizer"]
