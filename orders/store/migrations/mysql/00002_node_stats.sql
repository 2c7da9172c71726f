-- +goose Up
-- What a node tells of itself, for the live page. MySQL has no ADD COLUMN IF NOT
-- EXISTS, and a migration that was killed before the note that it is done must
-- be able to start over.
SET @statement = IF(
    EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'nodes' AND column_name = 'stats'),
    'DO 0',
    'ALTER TABLE nodes ADD COLUMN stats VARCHAR(8000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''''');
PREPARE add_stats FROM @statement;
EXECUTE add_stats;
DEALLOCATE PREPARE add_stats;

-- +goose Down
ALTER TABLE nodes DROP COLUMN stats;
