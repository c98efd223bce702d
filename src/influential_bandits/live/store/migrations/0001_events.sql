-- One order for all events of an experiment; states and decisions follow from them.

CREATE TABLE experiments (
    id BIGINT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    events BIGINT NOT NULL,        -- number of the latest event
    instances BIGINT NOT NULL      -- number of the latest instance
);

CREATE TABLE instances (
    experiment BIGINT NOT NULL,
    number BIGINT NOT NULL,
    label TEXT NOT NULL,
    served TEXT NOT NULL,          -- policy or control
    since DOUBLE PRECISION NOT NULL,
    share DOUBLE PRECISION NOT NULL,  -- of the control group, when the group was drawn
    PRIMARY KEY (experiment, number)
);
CREATE UNIQUE INDEX instances_by_label ON instances (experiment, label);

CREATE TABLE events (
    experiment BIGINT NOT NULL,
    number BIGINT NOT NULL,
    instance BIGINT NOT NULL,
    kind TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    decision TEXT,
    ticket BIGINT,
    arm BIGINT,
    loss DOUBLE PRECISION,
    data TEXT,
    proposed BIGINT,               -- in shadow mode, the arm that we would have served
    PRIMARY KEY (experiment, number)
);
CREATE INDEX events_by_instance ON events (experiment, instance, number);

CREATE TABLE decisions (
    experiment BIGINT NOT NULL,
    id TEXT NOT NULL,
    instance BIGINT NOT NULL,
    request TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    served TEXT NOT NULL,
    arm BIGINT NOT NULL,
    probability DOUBLE PRECISION,
    expected_loss DOUBLE PRECISION,
    model BIGINT NOT NULL,
    proposed BIGINT,
    number BIGINT NOT NULL,
    ticket BIGINT,
    status TEXT NOT NULL,
    loss DOUBLE PRECISION,
    deadline DOUBLE PRECISION,
    PRIMARY KEY (experiment, id)
);
CREATE INDEX decisions_by_deadline ON decisions (deadline) WHERE deadline IS NOT NULL;

CREATE TABLE snapshots (
    experiment BIGINT NOT NULL,
    instance BIGINT NOT NULL,      -- 0: what all instances of a fleet share
    number BIGINT NOT NULL,        -- of the latest event that is in it
    fingerprint TEXT NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (experiment, instance)
);

CREATE TABLE keys (
    digest TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    role TEXT NOT NULL,            -- reader, writer or admin
    experiment BIGINT,             -- NULL: all
    since DOUBLE PRECISION NOT NULL
);
