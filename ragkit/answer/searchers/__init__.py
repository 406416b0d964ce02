"""What an agent can search besides a knowledge base, and records that it can aggregate."""
