"""OAuth 2 for the mechanism OAUTHBEARER: validation of tokens by servers, retrieval of tokens by clients.

`broker.security.oauth.token_validator` is the server's side. Only listeners and clients with OAUTHBEARER import this
package.
"""
