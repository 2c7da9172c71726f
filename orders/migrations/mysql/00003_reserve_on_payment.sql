-- +goose Up
-- When a sale takes units: at the order, or at its payment. Orders of the
-- latter kind have a status of their own, unheld, and need no column. Only if
-- the column is not there yet: see 00002.
SET @reserve_on = (
    SELECT IF(COUNT(*) = 0,
        'ALTER TABLE sales ADD COLUMN reserve_on VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''order''',
        'DO 0')
    FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'sales' AND COLUMN_NAME = 'reserve_on');
PREPARE reserve_on FROM @reserve_on;
EXECUTE reserve_on;
DEALLOCATE PREPARE reserve_on;

-- +goose Down
ALTER TABLE sales DROP COLUMN reserve_on;
