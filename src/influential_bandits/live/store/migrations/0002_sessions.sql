-- Who is logged in to the page: digests of what their browsers hold, so that all services know them.

CREATE TABLE sessions (
    digest TEXT PRIMARY KEY,
    key TEXT NOT NULL,             -- digest of the key that was shown at login
    until DOUBLE PRECISION NOT NULL
);
