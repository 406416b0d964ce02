"""Records and tables: CSV, JSON, YAML, TOML, XML, Parquet, SQLite."""
