"""Association against in-context reasoning: experiments."""
