"""Users: credentials, how they are recognised, and what the policy lets them do."""
