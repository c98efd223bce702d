-- A key may end by itself.

ALTER TABLE keys ADD COLUMN ends DOUBLE PRECISION;  -- NULL: never
