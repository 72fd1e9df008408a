"""What several gateways share, in PostgreSQL: records, approvals of calls, definitions of tools, limits of rate.

One database is one gateway, however many processes serve it. Start at `shared_store.open_store`. Nothing here is loaded
unless `[store] url` or `BYLEAVE_STORE` names such a database.
"""
