"""Where events are kept: an SQLite file, or a PostgreSQL database."""
