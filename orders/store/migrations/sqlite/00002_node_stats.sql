-- +goose Up
ALTER TABLE nodes ADD COLUMN stats TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE nodes DROP COLUMN stats;
