-- +goose Up
-- The same as in ../mysql, for the embedded store.

CREATE TABLE refunds (
    order_id    TEXT     NOT NULL,
    payment_ref TEXT     NOT NULL,
    sku         TEXT     NOT NULL,
    buyer       TEXT     NOT NULL,
    amount      INTEGER  NOT NULL,
    currency    TEXT     NOT NULL,
    reason      TEXT     NOT NULL,
    created_at  DATETIME NOT NULL,
    PRIMARY KEY (order_id, payment_ref)
);

ALTER TABLE orders ADD COLUMN hold_id TEXT NULL;
CREATE UNIQUE INDEX orders_hold ON orders (hold_id);

-- +goose Down
DROP INDEX orders_hold;
ALTER TABLE orders DROP COLUMN hold_id;
DROP TABLE refunds;
