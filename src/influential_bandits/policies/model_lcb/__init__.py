"""ModelLCB and its parts: prior, posterior, marginal likelihood and lookahead."""
