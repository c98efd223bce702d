"""The page: what an experiment does, for people; rendered by the service, without a build step."""
