"""What each agent program needs: where its configuration is, what goes in, how its trust works."""
