-- +goose Up
-- The same as in ../mysql, for the embedded store.
ALTER TABLE sales ADD COLUMN reserve_on TEXT NOT NULL DEFAULT 'order';

-- +goose Down
ALTER TABLE sales DROP COLUMN reserve_on;
