-- +goose Up
-- Payments of orders that were closed: money that is due back. A reference is
-- the payer's, who may use it for two orders: each of them is owed.
CREATE TABLE IF NOT EXISTS refunds (
    order_id    CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    payment_ref VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sku         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    buyer       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    amount      BIGINT       NOT NULL,
    currency    CHAR(3)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason      VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- why the payment was not taken
    created_at  DATETIME(3)  NOT NULL,
    PRIMARY KEY (order_id, payment_ref)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The gate's hold of an order that was paid late: another than the order's
-- first one, which was given back. Only if the column is not there yet: a
-- migration that was killed half-way starts over, and MySQL, unlike MariaDB,
-- has no ADD COLUMN IF NOT EXISTS.
SET @late_payments = (
    SELECT IF(COUNT(*) = 0,
        'ALTER TABLE orders ADD COLUMN hold_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL, ADD UNIQUE KEY orders_hold (hold_id)',
        'DO 0')
    FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'orders' AND COLUMN_NAME = 'hold_id');
PREPARE late_payments FROM @late_payments;
EXECUTE late_payments;
DEALLOCATE PREPARE late_payments;

-- +goose Down
ALTER TABLE orders DROP COLUMN hold_id;
DROP TABLE refunds;
