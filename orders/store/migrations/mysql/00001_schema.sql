-- +goose Up
-- All times are UTC. They come from the database's clock, except orders.created_at, and
-- opens_at and closes_at, which an operator sets.
-- Identifiers have binary collations, so they are compared byte by byte.
--
-- MySQL commits each CREATE TABLE by itself. IF NOT EXISTS lets a migration start again
-- after the process was killed between two tables.

-- One row per sale. Every transaction that sells or closes units locks the row first.
CREATE TABLE IF NOT EXISTS sales (
    sku              VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name             VARCHAR(200) NOT NULL,
    description      VARCHAR(500) NOT NULL DEFAULT '',
    image_url        VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    price            BIGINT       NOT NULL, -- minor units of currency
    currency         CHAR(3)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    total            BIGINT       NOT NULL, -- units
    sold             BIGINT       NOT NULL DEFAULT 0, -- units of pending_payment and paid orders
    per_buyer_limit  BIGINT       NOT NULL, -- units
    opens_at         DATETIME(3)  NOT NULL,
    closes_at        DATETIME(3)  NOT NULL,
    payment_window_s BIGINT       NOT NULL, -- seconds that a buyer has to pay
    fence            BIGINT       NOT NULL DEFAULT 0, -- raised by takeovers, direct mode and archiving; a keeper with a lower fence cannot commit
    keeper           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- node of the latest keeper, also after a handover; '' before the first keeper, and after a stalled keeper was stopped
    epoch            BIGINT       NOT NULL DEFAULT 0, -- raised by each rebuild of the gate, and on entering direct mode; an order is committed only if the gate that accepted it had this epoch
    mode             VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'gate', -- gate, changing, direct, over or archived
    reserve_on       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'order', -- when an order takes its units: order or payment
    reserve_from     BIGINT       NOT NULL DEFAULT 0, -- first epoch in which reserve_on applies
    created_at       DATETIME(3)  NOT NULL,
    updated_at       DATETIME(3)  NOT NULL, -- last change by an operator; each change increases it
    PRIMARY KEY (sku),
    CONSTRAINT sales_never_oversold CHECK (sold >= 0 AND sold <= total)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One row per order. An order that is still in the gate's queue has no row.
CREATE TABLE IF NOT EXISTS orders (
    id              CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sku             VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    buyer           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    quantity        BIGINT       NOT NULL, -- units
    amount          BIGINT       NOT NULL, -- minor units of currency
    currency        CHAR(3)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    status          VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- pending_payment, awaiting_payment, paid, cancelled, expired or rejected
    reason          VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- why the order was rejected
    idempotency_key VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
    request_hash    CHAR(32)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- hash of sku and quantity; a repetition under the key must have the same
    payment_ref     VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL, -- reference of the payment that paid the order
    created_at      DATETIME(3)  NOT NULL, -- when the gate accepted the order, by Redis's clock; without a gate, the database's time
    expires_at      DATETIME(3)  NOT NULL,
    paid_at         DATETIME(3)  NULL,
    closed_at       DATETIME(3)  NULL, -- when the order was cancelled, expired or rejected
    restored_at     DATETIME(3)  NULL, -- when the gate had released the units, or dropped the hold of a paid order
    hold_id         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL, -- hold of the late payment that paid the order: the order's id and a random part
    claims          INT          NOT NULL DEFAULT 0, -- number of the order's rows in refunds. Recording a claim raises the number, and a late payment succeeds only if the number is unchanged. So no payment both pays the order and has a claim
    PRIMARY KEY (id),
    -- A buyer has at most one order of a SKU under one key, whatever inserts it. The index
    -- also finds all orders of a buyer of one SKU.
    UNIQUE KEY orders_key (sku, buyer, idempotency_key),
    KEY orders_of_buyer (buyer, created_at, id),
    KEY orders_to_expire (status, expires_at),
    KEY orders_to_restore (status, restored_at, sku)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One row per refund claim: a payment that was reported for a closed order. The payer chooses
-- the reference and may use it for two orders, so the key contains both columns.
CREATE TABLE IF NOT EXISTS refunds (
    order_id    CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    payment_ref VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sku         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    buyer       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    amount      BIGINT       NOT NULL,
    currency    CHAR(3)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason      VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- why the payment was refused
    created_at  DATETIME(3)  NOT NULL,
    PRIMARY KEY (order_id, payment_ref),
    KEY refunds_of_time (created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One row per node, written by its heartbeats.
CREATE TABLE IF NOT EXISTS nodes (
    id         VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seen_at    DATETIME(3)   NOT NULL, -- last heartbeat
    unwritable VARCHAR(2000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- Redis masters that the node cannot write to, separated by commas
    barrier    BIGINT        NOT NULL DEFAULT 0, -- number of the node's barriers; each barrier increases it (barrier.go)
    stats      VARCHAR(8000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- statistics of the node, for the live page
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE nodes;
DROP TABLE refunds;
DROP TABLE orders;
DROP TABLE sales;
