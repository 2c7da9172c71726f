-- +goose Up
-- Times are UTC, by the database's own clock. Identifiers compare byte by byte.
-- IF NOT EXISTS: creating a table is not undone when the next one fails, so a
-- migration that was killed half-way must be able to start over.

CREATE TABLE IF NOT EXISTS sales (
    sku              VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name             VARCHAR(200) NOT NULL,
    description      VARCHAR(500) NOT NULL DEFAULT '',
    image_url        VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    price            BIGINT       NOT NULL, -- minor units of currency
    currency         CHAR(3)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    total            BIGINT       NOT NULL, -- units
    sold             BIGINT       NOT NULL DEFAULT 0, -- units in pending_payment and paid orders
    per_buyer_limit  BIGINT       NOT NULL, -- units
    opens_at         DATETIME(3)  NOT NULL,
    closes_at        DATETIME(3)  NOT NULL,
    payment_window_s BIGINT       NOT NULL,
    fence            BIGINT       NOT NULL DEFAULT 0, -- of the latest keeper
    keeper           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- node of the latest keeper
    epoch            BIGINT       NOT NULL DEFAULT 0, -- of the gate that was built last; a gate with another one is rebuilt
    mode             VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'gate', -- gate, changing, direct, over or archived
    reserve_on       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'order', -- when units are taken: at the order, or at its payment
    reserve_from     BIGINT       NOT NULL DEFAULT 0, -- the epoch from which reserve_on applies
    created_at       DATETIME(3)  NOT NULL,
    updated_at       DATETIME(3)  NOT NULL, -- by an operator; no two changes have the same
    PRIMARY KEY (sku),
    CONSTRAINT sales_never_oversold CHECK (sold >= 0 AND sold <= total)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE IF NOT EXISTS orders (
    id              CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sku             VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    buyer           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    quantity        BIGINT       NOT NULL,
    amount          BIGINT       NOT NULL,
    currency        CHAR(3)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    status          VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason          VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- of a rejected order
    idempotency_key VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
    request_hash    CHAR(32)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    payment_ref     VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NULL,
    created_at      DATETIME(3)  NOT NULL,
    expires_at      DATETIME(3)  NOT NULL,
    paid_at         DATETIME(3)  NULL,
    closed_at       DATETIME(3)  NULL, -- cancelled, expired or rejected
    restored_at     DATETIME(3)  NULL, -- the gate knows: units given back, or the paid order's hold dropped
    hold_id         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NULL, -- of an order that was paid late: the gate's hold of that payment, named after the order (NewHoldID)
    claims          INT          NOT NULL DEFAULT 0, -- refunds recorded: a refund and a late payment both write it, so they cannot both succeed
    PRIMARY KEY (id),
    -- No two keepers can both insert an order under one key. As an index it
    -- also finds all orders of one buyer for one SKU.
    UNIQUE KEY orders_key (sku, buyer, idempotency_key),
    KEY orders_of_buyer (buyer, created_at, id),
    KEY orders_to_expire (status, expires_at),
    KEY orders_to_restore (status, restored_at, sku)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Claims: payments that were reported for orders that are closed. A reference is
-- the payer's, who may use it for two orders: each of them is claimed.
CREATE TABLE IF NOT EXISTS refunds (
    order_id    CHAR(36)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    payment_ref VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    sku         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    buyer       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    amount      BIGINT       NOT NULL,
    currency    CHAR(3)      CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason      VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- why the payment was not taken
    created_at  DATETIME(3)  NOT NULL,
    PRIMARY KEY (order_id, payment_ref),
    KEY refunds_of_time (created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One heartbeat row per node.
CREATE TABLE IF NOT EXISTS nodes (
    id         VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seen_at    DATETIME(3)   NOT NULL,
    unwritable VARCHAR(2000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- the Redis masters that the node cannot write to, comma-separated
    barrier    BIGINT        NOT NULL DEFAULT 0, -- counts the node's barriers (barrier.go)
    stats      VARCHAR(8000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- what the node tells of itself, for the live page
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE nodes;
DROP TABLE refunds;
DROP TABLE orders;
DROP TABLE sales;
